-- What an agent's context has been fed about a payment: calls and bytes of answers, added up in batches.
ALTER TABLE payments ADD COLUMN context_calls BIGINT NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN context_bytes BIGINT NOT NULL DEFAULT 0;
