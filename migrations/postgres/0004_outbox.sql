-- Events for webhooks, one row for each event and target, written in the transaction of the change.
-- While an attempt is under way, next_at is the end of its lease.
CREATE TABLE outbox (
  event_id TEXT NOT NULL CHECK (event_id <> ''),
  target TEXT NOT NULL CHECK (target <> ''),
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  version BIGINT NOT NULL CHECK (version > 0),
  type TEXT NOT NULL CHECK (type <> ''),
  body TEXT NOT NULL CHECK (body <> ''),
  created_at BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending','delivered','dead')),
  attempts BIGINT NOT NULL CHECK (attempts >= 0),
  next_at BIGINT,
  last_error TEXT NOT NULL,
  delivered_at BIGINT,
  lease_token TEXT NOT NULL DEFAULT '',
  lease_until BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (event_id, target),
  -- What is not delivered and not dead is tried again.
  CHECK ((state = 'pending') = (next_at IS NOT NULL)),
  CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE INDEX outbox_due ON outbox (target, next_at) WHERE state = 'pending';
CREATE INDEX outbox_dead ON outbox (event_id) WHERE state = 'dead';
