-- One person's word for what needs two. The episode says which hold or attempt group it speaks of, so
-- that a word given for an earlier one never counts.
CREATE TABLE attestations (
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  verb TEXT NOT NULL CHECK (verb IN ('release_hold','attest_executed','attest_not_executed')),
  episode TEXT NOT NULL CHECK (episode <> ''),
  person TEXT NOT NULL CHECK (person <> ''),
  reference TEXT NOT NULL,
  evidence TEXT NOT NULL CHECK (evidence <> ''),
  attested_at BIGINT NOT NULL,
  PRIMARY KEY (payment_id, verb, episode, person)
);

-- How many decisions of the round were counted; and for each, the payment's version it made. A surplus
-- decision, given after the quorum was complete, is kept with version 0 and never counts.
ALTER TABLE payments ADD COLUMN decisions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decisions ADD COLUMN payment_version BIGINT NOT NULL DEFAULT 0;
