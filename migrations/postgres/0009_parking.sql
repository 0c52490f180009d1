-- Claims in a row that came to no end: counted when claimed, forgotten when the work was done. A payment whose work
-- fails for ever is parked: looked at rarely, and listed until it went well.
ALTER TABLE payments ADD COLUMN claims BIGINT NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN parked_at BIGINT;
ALTER TABLE payments ADD COLUMN parked_reason TEXT NOT NULL DEFAULT '';
DROP INDEX payments_attention;
CREATE INDEX payments_attention ON payments (tenant, payment_id)
  WHERE status = 'NEED_MANUAL' OR attention <> '' OR phase = 'unknown' OR held_at IS NOT NULL OR parked_at IS NOT NULL;
