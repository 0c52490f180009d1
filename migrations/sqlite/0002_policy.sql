-- Whose turn it is to propose under a limit: one row is one lock, and nothing is counted here.
CREATE TABLE budget_turns (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  subject TEXT NOT NULL,
  turns INTEGER NOT NULL,
  PRIMARY KEY (tenant, subject)
) STRICT;
-- Limits count from the payments themselves.
CREATE INDEX payments_in_window ON payments (currency, tenant, created_at);
CREATE INDEX payments_signed ON payments (tenant, agent) WHERE status = 'SIGNED';

-- A key whose request the policy refused stays refused: state that moved on must not turn it into a yes.
ALTER TABLE idempotency ADD COLUMN refusal TEXT NOT NULL DEFAULT '';
