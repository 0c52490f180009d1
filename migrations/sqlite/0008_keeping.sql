-- What has ended moves out of the tables that calls and claims read, and an order that was paid stays taken.
-- The same tables and columns as migrations/postgres, held by a test.

-- An order is taken while its payment is open, and for ever once it was executed, wherever that payment is kept.
CREATE TABLE taken_orders (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  order_id TEXT NOT NULL CHECK (order_id <> ''),
  payment_id TEXT NOT NULL UNIQUE CHECK (payment_id <> ''),
  PRIMARY KEY (tenant, order_id)
) STRICT;
INSERT INTO taken_orders SELECT tenant, order_id, payment_id FROM payments
  WHERE status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED');

-- The archive. A payment is in one of the two tables, never in both: what a row is read from is payments_everywhere.
CREATE TABLE archived_payments (
  payment_id TEXT NOT NULL PRIMARY KEY CHECK (payment_id <> ''),
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  order_id TEXT NOT NULL CHECK (order_id <> ''),
  version INTEGER NOT NULL CHECK (version > 0),
  status TEXT NOT NULL CHECK (status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED')),
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
  decisions INTEGER NOT NULL,
  -- Nothing is to be done for it, and no person is to look at it.
  CHECK (next_wake_at IS NULL AND held_at IS NULL AND attention = '' AND phase <> 'unknown'),
  CHECK (status <> 'EXECUTED' OR phase = 'confirmed')
) STRICT;
CREATE UNIQUE INDEX archived_payments_one_per_order ON archived_payments (tenant, order_id) WHERE status = 'EXECUTED';
CREATE INDEX archived_payments_by_order ON archived_payments (tenant, order_id, created_at);
CREATE INDEX archived_payments_by_tenant ON archived_payments (tenant, payment_id);
CREATE INDEX archived_payments_by_agent ON archived_payments (tenant, agent, payment_id);

CREATE VIEW payments_everywhere AS
  SELECT payment_id, tenant, order_id, version, status, reason, round, amount_minor, currency, payer_account, payee_account,
    payee_name, memo, agent, principal, wish, policy, fingerprint, document, digest, traceparent, created_at, updated_at,
    expires_at, execute_by, approvals, signer_ref, registered_round, notify_settled, notify_attempts, notify_last, notify_at,
    check_at, phase, attempt_group, sends, not_sent, queries, execute_at, last_send_at, resend_until, cancel_requested_at,
    transfer_id, tell_at, tell_attempts, held_at, attention, next_wake_at, decisions
  FROM payments
  UNION ALL
  SELECT payment_id, tenant, order_id, version, status, reason, round, amount_minor, currency, payer_account, payee_account,
    payee_name, memo, agent, principal, wish, policy, fingerprint, document, digest, traceparent, created_at, updated_at,
    expires_at, execute_by, approvals, signer_ref, registered_round, notify_settled, notify_attempts, notify_last, notify_at,
    check_at, phase, attempt_group, sends, not_sent, queries, execute_at, last_send_at, resend_until, cancel_requested_at,
    transfer_id, tell_at, tell_attempts, held_at, attention, next_wake_at, decisions
  FROM archived_payments;

CREATE TABLE archived_effects (
  effect_id TEXT NOT NULL PRIMARY KEY CHECK (effect_id <> ''),
  outbound_key TEXT NOT NULL UNIQUE CHECK (outbound_key <> ''),
  tenant TEXT NOT NULL,
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  body TEXT NOT NULL,
  body_sha256 TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  traceparent TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  attempted_at INTEGER NOT NULL,
  settled_at INTEGER
) STRICT;
CREATE INDEX archived_effects_by_payment ON archived_effects (payment_id);

CREATE TABLE archived_challenges (
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  nonce TEXT NOT NULL CHECK (length(nonce) = 43),
  issued_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
) STRICT;

CREATE TABLE archived_decisions (
  decision_id TEXT NOT NULL UNIQUE CHECK (decision_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  choice TEXT NOT NULL,
  reason TEXT NOT NULL,
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  jws TEXT NOT NULL CHECK (jws <> ''),
  via TEXT NOT NULL,
  decided_at INTEGER NOT NULL,
  payment_version INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id)
) STRICT;

-- How many are open under a limit: by an index of these alone, or SQLite reads the whole history of a currency.
DROP INDEX payments_signed;
CREATE INDEX payments_open_now ON payments (currency, tenant, agent)
  WHERE status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED');

-- What may move, oldest first; and what goes with a payment that moves.
CREATE INDEX payments_finished ON payments (updated_at, payment_id)
  WHERE next_wake_at IS NULL AND held_at IS NULL AND attention = '' AND phase <> 'unknown'
    AND status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED');
CREATE INDEX outbox_by_payment ON outbox (payment_id);
CREATE INDEX outbox_undelivered ON outbox (payment_id) WHERE state <> 'delivered';
CREATE INDEX callbacks_by_payment ON callbacks (payment_id);

-- A database that may be a restored backup: nothing is sent until what it believes unpaid was compared with the rail.
CREATE TABLE restores (
  restore_id TEXT NOT NULL PRIMARY KEY CHECK (restore_id <> ''),
  state TEXT NOT NULL CHECK (state IN ('open','lifted')),
  cause TEXT NOT NULL CHECK (cause <> ''),
  marked_at INTEGER NOT NULL,
  compare_at INTEGER NOT NULL,
  lifted_at INTEGER,
  CHECK ((state = 'open') = (lifted_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX restores_one_open ON restores (state) WHERE state = 'open';

CREATE TABLE comparisons (
  restore_id TEXT NOT NULL CHECK (restore_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  believed TEXT NOT NULL CHECK (believed <> ''),
  finding TEXT NOT NULL,
  outcome TEXT NOT NULL,
  compared_at INTEGER,
  PRIMARY KEY (restore_id, payment_id),
  CHECK ((finding = '') = (compared_at IS NULL))
) STRICT;
CREATE INDEX comparisons_pending ON comparisons (restore_id, payment_id) WHERE compared_at IS NULL;

-- When a worker last was at this database: an old one has been asleep, or is a copy of the past.
CREATE TABLE worked (
  worker TEXT NOT NULL PRIMARY KEY CHECK (worker <> ''),
  seen_at INTEGER NOT NULL
) STRICT;
