-- Instants are Unix microseconds; flags are nullable instants; lists and documents are text.
-- The same tables and columns as migrations/sqlite, held by a test.
CREATE TABLE payments (
  payment_id TEXT NOT NULL PRIMARY KEY CHECK (payment_id <> ''),
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  order_id TEXT NOT NULL CHECK (order_id <> ''),
  version BIGINT NOT NULL CHECK (version > 0),
  status TEXT NOT NULL CHECK (status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED')),
  reason TEXT NOT NULL,
  round BIGINT NOT NULL CHECK (round > 0),
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  currency TEXT NOT NULL CHECK (length(currency) = 3),
  payer_account TEXT NOT NULL,
  payee_account TEXT NOT NULL,
  payee_name TEXT NOT NULL,
  memo TEXT NOT NULL,
  agent TEXT NOT NULL CHECK (agent <> ''),
  principal TEXT NOT NULL,
  wish TEXT NOT NULL,
  policy TEXT NOT NULL,
  fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64),
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  traceparent TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  execute_by BIGINT NOT NULL,
  approvals BIGINT NOT NULL,
  signer_ref TEXT NOT NULL,
  registered_round BIGINT NOT NULL,
  notify_settled BIGINT NOT NULL,
  notify_attempts BIGINT NOT NULL,
  notify_last TEXT NOT NULL,
  notify_at BIGINT,
  check_at BIGINT,
  phase TEXT NOT NULL CHECK (phase IN ('none','intended','unknown','confirmed','refused')),
  attempt_group BIGINT NOT NULL,
  sends BIGINT NOT NULL,
  not_sent BIGINT NOT NULL CHECK (not_sent <= sends),
  queries BIGINT NOT NULL,
  execute_at BIGINT,
  last_send_at BIGINT,
  resend_until BIGINT,
  cancel_requested_at BIGINT,
  transfer_id TEXT NOT NULL,
  tell_at BIGINT,
  tell_attempts BIGINT NOT NULL,
  held_at BIGINT,
  attention TEXT NOT NULL,
  next_wake_at BIGINT,
  lease_owner TEXT NOT NULL DEFAULT '',
  lease_token TEXT NOT NULL DEFAULT '',
  lease_until BIGINT NOT NULL DEFAULT 0,
  -- An unended payment always wakes up again, unless a person holds it.
  CHECK (next_wake_at IS NOT NULL OR held_at IS NOT NULL OR status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED')),
  CHECK (status <> 'EXECUTED' OR phase = 'confirmed')
);
-- One open-or-executed payment per order.
CREATE UNIQUE INDEX payments_one_per_order ON payments (tenant, order_id)
  WHERE status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED');
CREATE INDEX payments_by_order ON payments (tenant, order_id, created_at);
CREATE INDEX payments_by_tenant ON payments (tenant, payment_id);
CREATE INDEX payments_by_agent ON payments (tenant, agent, payment_id);
CREATE INDEX payments_due ON payments (next_wake_at) WHERE next_wake_at IS NOT NULL;
CREATE INDEX payments_open ON payments (tenant, payment_id)
  WHERE status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL');
CREATE INDEX payments_attention ON payments (tenant, payment_id)
  WHERE status = 'NEED_MANUAL' OR attention <> '' OR phase = 'unknown';

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  agent TEXT NOT NULL,
  operation TEXT NOT NULL CHECK (operation <> ''),
  idempotency_key TEXT NOT NULL CHECK (idempotency_key <> ''),
  fingerprint TEXT NOT NULL,
  payment_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, agent, operation, idempotency_key)
);

-- Every external side effect: written before it is tried, settled after.
CREATE TABLE effects (
  effect_id TEXT NOT NULL PRIMARY KEY CHECK (effect_id <> ''),
  outbound_key TEXT NOT NULL UNIQUE CHECK (outbound_key <> ''),
  tenant TEXT NOT NULL,
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('signer.register','signer.notify','signer.cancel','rail.execute','mcp.call')),
  target TEXT NOT NULL,
  body TEXT NOT NULL,
  body_sha256 TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('intended','done','refused','not_sent','unknown')),
  attempts BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  traceparent TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  attempted_at BIGINT NOT NULL,
  settled_at BIGINT
);
CREATE INDEX effects_by_payment ON effects (payment_id);

CREATE TABLE challenges (
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round BIGINT NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  nonce TEXT NOT NULL CHECK (length(nonce) = 43),
  issued_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
);

-- One decision per person and round.
CREATE TABLE decisions (
  decision_id TEXT NOT NULL UNIQUE CHECK (decision_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round BIGINT NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  choice TEXT NOT NULL CHECK (choice IN ('approve','reject')),
  reason TEXT NOT NULL,
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  jws TEXT NOT NULL CHECK (jws <> ''),
  via TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
);

-- Signers' public keys, pinned here; a key told by anyone else at decision time proves nothing.
CREATE TABLE signer_keys (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  public_key TEXT NOT NULL CHECK (length(public_key) = 43),
  enrolled_by TEXT NOT NULL CHECK (enrolled_by <> ''),
  enrolled_at BIGINT NOT NULL,
  revoked_at BIGINT,
  PRIMARY KEY (tenant, signer_id, key_id)
);
-- A key belongs to one person.
CREATE UNIQUE INDEX signer_keys_one_person ON signer_keys (tenant, public_key);

-- Callbacks seen, so that a repeated one changes nothing.
CREATE TABLE callbacks (
  source TEXT NOT NULL,
  event_id TEXT NOT NULL CHECK (event_id <> ''),
  payment_id TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (source, event_id)
);

-- The audit: one hash chain per tenant, written in the transaction of the change.
CREATE TABLE audit_heads (
  tenant TEXT NOT NULL PRIMARY KEY CHECK (tenant <> ''),
  seq BIGINT NOT NULL,
  chain TEXT NOT NULL
);
CREATE TABLE audit_entries (
  tenant TEXT NOT NULL,
  seq BIGINT NOT NULL CHECK (seq > 0),
  payment_id TEXT NOT NULL,
  event TEXT NOT NULL CHECK (event <> ''),
  canonical TEXT NOT NULL CHECK (canonical <> ''),
  previous TEXT NOT NULL,
  chain TEXT NOT NULL CHECK (length(chain) = 43),
  written_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, seq)
);
CREATE UNIQUE INDEX audit_entries_chain ON audit_entries (tenant, previous);
CREATE INDEX audit_entries_by_payment ON audit_entries (payment_id);
