-- What was proposed to one payee in a span of time: approval rules look at its sum.
CREATE INDEX payments_to_payee ON payments (tenant, payee_account, currency, created_at);
