-- A held payment is a person's business: it is listed until two people let it go.
DROP INDEX payments_attention;
CREATE INDEX payments_attention ON payments (tenant, payment_id)
  WHERE status = 'NEED_MANUAL' OR attention <> '' OR phase = 'unknown' OR held_at IS NOT NULL;
