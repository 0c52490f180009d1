-- Instants are Unix microseconds; flags are nullable instants; lists and documents are text.
-- The same tables and columns as migrations/postgres, held by a test.
CREATE TABLE payments (
  payment_id TEXT NOT NULL PRIMARY KEY CHECK (payment_id <> ''),
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  order_id TEXT NOT NULL CHECK (order_id <> ''),
  version INTEGER NOT NULL CHECK (version > 0),
  status TEXT NOT NULL CHECK (status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED')),
  reason TEXT NOT NULL,
  round INTEGER NOT NULL CHECK (round > 0),
  amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
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
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  execute_by INTEGER NOT NULL,
  approvals INTEGER NOT NULL,
  signer_ref TEXT NOT NULL,
  registered_round INTEGER NOT NULL,
  notify_settled INTEGER NOT NULL,
  notify_attempts INTEGER NOT NULL,
  notify_last TEXT NOT NULL,
  notify_at INTEGER,
  check_at INTEGER,
  phase TEXT NOT NULL CHECK (phase IN ('none','intended','unknown','confirmed','refused')),
  attempt_group INTEGER NOT NULL,
  sends INTEGER NOT NULL,
  not_sent INTEGER NOT NULL CHECK (not_sent <= sends),
  queries INTEGER NOT NULL,
  execute_at INTEGER,
  last_send_at INTEGER,
  resend_until INTEGER,
  cancel_requested_at INTEGER,
  transfer_id TEXT NOT NULL,
  tell_at INTEGER,
  tell_attempts INTEGER NOT NULL,
  held_at INTEGER,
  attention TEXT NOT NULL,
  next_wake_at INTEGER,
  lease_owner TEXT NOT NULL DEFAULT '',
  lease_token TEXT NOT NULL DEFAULT '',
  lease_until INTEGER NOT NULL DEFAULT 0,
  -- An unended payment always wakes up again, unless a person holds it.
  CHECK (next_wake_at IS NOT NULL OR held_at IS NOT NULL OR status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED')),
  CHECK (status <> 'EXECUTED' OR phase = 'confirmed')
) STRICT;
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
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, agent, operation, idempotency_key)
) STRICT;

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
  attempts INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  traceparent TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  attempted_at INTEGER NOT NULL,
  settled_at INTEGER
) STRICT;
CREATE INDEX effects_by_payment ON effects (payment_id);

CREATE TABLE challenges (
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  nonce TEXT NOT NULL CHECK (length(nonce) = 43),
  issued_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
) STRICT;

-- One decision per person and round.
CREATE TABLE decisions (
  decision_id TEXT NOT NULL UNIQUE CHECK (decision_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  choice TEXT NOT NULL CHECK (choice IN ('approve','reject')),
  reason TEXT NOT NULL,
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  jws TEXT NOT NULL CHECK (jws <> ''),
  via TEXT NOT NULL,
  decided_at INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
) STRICT;

-- Signers' public keys, pinned here; a key told by anyone else at decision time proves nothing.
CREATE TABLE signer_keys (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  public_key TEXT NOT NULL CHECK (length(public_key) = 43),
  enrolled_by TEXT NOT NULL CHECK (enrolled_by <> ''),
  enrolled_at INTEGER NOT NULL,
  revoked_at INTEGER,
  PRIMARY KEY (tenant, signer_id, key_id)
) STRICT;
-- A key belongs to one person.
CREATE UNIQUE INDEX signer_keys_one_person ON signer_keys (tenant, public_key);

-- Callbacks seen, so that a repeated one changes nothing.
CREATE TABLE callbacks (
  source TEXT NOT NULL,
  event_id TEXT NOT NULL CHECK (event_id <> ''),
  payment_id TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (source, event_id)
) STRICT;

-- The audit: one hash chain per tenant, written in the transaction of the change.
CREATE TABLE audit_heads (
  tenant TEXT NOT NULL PRIMARY KEY CHECK (tenant <> ''),
  seq INTEGER NOT NULL,
  chain TEXT NOT NULL
) STRICT;
CREATE TABLE audit_entries (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq > 0),
  payment_id TEXT NOT NULL,
  event TEXT NOT NULL CHECK (event <> ''),
  canonical TEXT NOT NULL CHECK (canonical <> ''),
  previous TEXT NOT NULL,
  chain TEXT NOT NULL CHECK (length(chain) = 43),
  written_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) STRICT;
CREATE UNIQUE INDEX audit_entries_chain ON audit_entries (tenant, previous);
CREATE INDEX audit_entries_by_payment ON audit_entries (payment_id);
