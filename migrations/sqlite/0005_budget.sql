-- What an agent's context has been fed about a payment: calls and bytes of answers, added up in batches.
ALTER TABLE payments ADD COLUMN context_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN context_bytes INTEGER NOT NULL DEFAULT 0;
