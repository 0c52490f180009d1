-- A held payment is a person's business: it is listed until two people let it go.
DROP INDEX payments_attention;
CREATE INDEX payments_attention ON payments (tenant, payment_id)
  WHERE status = 'NEED_MANUAL' OR attention <> '' OR phase = 'unknown' OR held_at IS NOT NULL;

-- Decisions of rounds that were open when counting began (0003) count in the order they were given.
UPDATE decisions SET payment_version = 1 WHERE payment_version = 0
  AND EXISTS (SELECT 1 FROM payments WHERE payments.payment_id = decisions.payment_id AND payments.decisions = 0);
