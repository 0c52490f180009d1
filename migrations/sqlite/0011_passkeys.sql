-- Passkeys: the second form of a proof, and the keys that verify it.

-- How a decision was proved, and which of its signer's confirmations it is: a rule may ask for two, on two devices.
CREATE TABLE decisions_kept AS SELECT * FROM decisions;
DROP TABLE decisions;
CREATE TABLE decisions (
  decision_id TEXT NOT NULL UNIQUE CHECK (decision_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  confirmation INTEGER NOT NULL CHECK (confirmation >= 1),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  choice TEXT NOT NULL CHECK (choice IN ('approve','reject')),
  reason TEXT NOT NULL,
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  proof_type TEXT NOT NULL CHECK (proof_type IN ('jws','webauthn')),
  proof TEXT NOT NULL CHECK (proof <> ''),
  via TEXT NOT NULL,
  decided_at INTEGER NOT NULL,
  payment_version INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id, confirmation)
) STRICT;
INSERT INTO decisions SELECT decision_id, payment_id, round, signer_id, 1, key_id, choice, reason, document, digest,
  'jws', jws, via, decided_at, payment_version FROM decisions_kept;
DROP TABLE decisions_kept;

CREATE TABLE archived_decisions_kept AS SELECT * FROM archived_decisions;
DROP TABLE archived_decisions;
CREATE TABLE archived_decisions (
  decision_id TEXT NOT NULL UNIQUE CHECK (decision_id <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  round INTEGER NOT NULL,
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  confirmation INTEGER NOT NULL CHECK (confirmation >= 1),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  choice TEXT NOT NULL,
  reason TEXT NOT NULL,
  document TEXT NOT NULL CHECK (document <> ''),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  proof_type TEXT NOT NULL CHECK (proof_type <> ''),
  proof TEXT NOT NULL CHECK (proof <> ''),
  via TEXT NOT NULL,
  decided_at INTEGER NOT NULL,
  payment_version INTEGER NOT NULL,
  PRIMARY KEY (payment_id, round, signer_id, confirmation)
) STRICT;
INSERT INTO archived_decisions SELECT decision_id, payment_id, round, signer_id, 1, key_id, choice, reason, document,
  digest, 'jws', jws, via, decided_at, payment_version FROM archived_decisions_kept;
DROP TABLE archived_decisions_kept;

-- alg is Ed25519 for the key of a detached JWS; a passkey has a credential, and the site that it was made for.
CREATE TABLE signer_keys_kept AS SELECT * FROM signer_keys;
DROP TABLE signer_keys;
CREATE TABLE signer_keys (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  key_id TEXT NOT NULL CHECK (key_id <> ''),
  alg TEXT NOT NULL CHECK (alg IN ('Ed25519','ES256','EdDSA','RS256')),
  public_key TEXT NOT NULL CHECK (public_key <> ''),
  credential_id TEXT NOT NULL,
  rp_id TEXT NOT NULL,
  origins TEXT NOT NULL,
  label TEXT NOT NULL,
  counter INTEGER NOT NULL CHECK (counter >= 0),
  entry TEXT NOT NULL,
  entry_signature TEXT NOT NULL,
  enrolled_by TEXT NOT NULL CHECK (enrolled_by <> ''),
  enrolled_at INTEGER NOT NULL,
  revoked_at INTEGER,
  CHECK ((alg = 'Ed25519') = (credential_id = '') AND (alg = 'Ed25519') = (rp_id = '')),
  PRIMARY KEY (tenant, signer_id, key_id)
) STRICT;
INSERT INTO signer_keys SELECT tenant, signer_id, key_id, 'Ed25519', public_key, '', '', '', '', 0, '', '',
  enrolled_by, enrolled_at, revoked_at FROM signer_keys_kept;
DROP TABLE signer_keys_kept;
-- A key belongs to one person.
CREATE UNIQUE INDEX signer_keys_one_person ON signer_keys (tenant, public_key);
CREATE UNIQUE INDEX signer_keys_credential ON signer_keys (tenant, credential_id) WHERE credential_id <> '';

-- What each passkey's counter stood at, and what was decided by it: one value never says two things.
CREATE TABLE key_counters (
  tenant TEXT NOT NULL,
  signer_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  counter INTEGER NOT NULL CHECK (counter >= 0),
  digest TEXT NOT NULL CHECK (length(digest) = 43),
  PRIMARY KEY (tenant, signer_id, key_id, counter)
) STRICT;

-- Who was asked to make a passkey. One passkey answers one invitation.
CREATE TABLE invitations (
  invitation_id TEXT NOT NULL PRIMARY KEY CHECK (invitation_id <> ''),
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  signer_id TEXT NOT NULL CHECK (signer_id <> ''),
  document TEXT NOT NULL CHECK (document <> ''),
  created_by TEXT NOT NULL CHECK (created_by <> ''),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at INTEGER
) STRICT;
