-- Passkeys: whose count, who was asked to make one, and the proofs that they give.

-- With how many of their keys each person approves.
ALTER TABLE payments ADD COLUMN confirmations INTEGER NOT NULL DEFAULT 1 CHECK (confirmations >= 1);

-- Whose payment it is, as the document says that is signed: people of another tenant have the same names at times.
ALTER TABLE payments ADD COLUMN tenant TEXT GENERATED ALWAYS AS (json_extract(payload, '$.tenant')) VIRTUAL;

-- One verified word a signer and key: a rule may ask the same person for a second one, by a second passkey; a no may
-- follow a yes that is not confirmed yet.
CREATE TABLE decisions_kept AS SELECT * FROM decisions;
DROP TABLE decisions;
CREATE TABLE decisions (
    decision_id TEXT    NOT NULL PRIMARY KEY CHECK (decision_id <> ''),
    payment_id  TEXT    NOT NULL REFERENCES payments (id),
    round       INTEGER NOT NULL,
    signer_id   TEXT    NOT NULL,
    decision    TEXT    NOT NULL CHECK (decision IN ('approve', 'reject')),
    document    TEXT    NOT NULL,
    proof_type  TEXT    NOT NULL CHECK (proof_type IN ('jws', 'webauthn')),
    proof       TEXT    NOT NULL CHECK (proof <> ''),
    signed_by   TEXT    NOT NULL,
    verified    INTEGER NOT NULL CHECK (verified IN (0, 1)),
    decided_at  INTEGER NOT NULL,
    -- What the gateway made of it, as it told, and why by its code; empty until then.
    verdict     TEXT    NOT NULL DEFAULT '' CHECK (verdict IN ('', 'counted', 'surplus', 'waiting', 'refused')),
    code        TEXT    NOT NULL DEFAULT '',
    UNIQUE (payment_id, round, signer_id, document, proof, verified)
) STRICT;
INSERT INTO decisions SELECT decision_id, payment_id, round, signer_id, decision, document, 'jws', jws, '', verified,
    decided_at, '', '' FROM decisions_kept;
DROP TABLE decisions_kept;
-- signed_by is the key that a JWS names, or a passkey's credential. Who was refused may decide again by the same key.
CREATE UNIQUE INDEX decisions_verified ON decisions (payment_id, round, signer_id, signed_by, decision)
    WHERE verified = 1 AND verdict = '';

-- What the gateway told last of the current round: SHA-256 of the body, and the decisions that did not come by this service.
ALTER TABLE payments ADD COLUMN told TEXT NOT NULL DEFAULT '';
CREATE TABLE decided_elsewhere (
    payment_id TEXT    NOT NULL REFERENCES payments (id),
    round      INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    signer_id  TEXT    NOT NULL,
    decision   TEXT    NOT NULL CHECK (decision IN ('approve', 'reject')),
    verdict    TEXT    NOT NULL CHECK (verdict IN ('counted', 'surplus')),
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (payment_id, place)
) STRICT;

-- Each person's words that stand: those the gateway has recorded, and those verified here that it has not refused.
CREATE VIEW words AS
    SELECT payment_id, round, signer_id, decision, signed_by FROM decisions
    WHERE verdict IN ('counted', 'surplus') OR (verified = 1 AND verdict <> 'refused')
    UNION ALL
    SELECT payment_id, round, signer_id, decision, 'elsewhere ' || place FROM decided_elsewhere;

-- The passkeys that the gateway has pinned, as it told: what pages offer. The gateway goes by its own registry.
CREATE TABLE passkeys (
    tenant        TEXT    NOT NULL CHECK (tenant <> ''),
    signer_id     TEXT    NOT NULL CHECK (signer_id <> ''),
    key_id        TEXT    NOT NULL CHECK (key_id <> ''),
    credential_id TEXT    NOT NULL CHECK (credential_id <> ''),
    alg           TEXT    NOT NULL,
    public_key    TEXT    NOT NULL,
    label         TEXT    NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('active', 'revoked')),
    changed_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, signer_id, key_id),
    UNIQUE (tenant, credential_id)
) STRICT;

-- Invitations to make one; the link's token itself is not kept. One answer each.
CREATE TABLE invitations (
    invitation_id      TEXT    NOT NULL PRIMARY KEY CHECK (invitation_id <> ''),
    signer_id          TEXT    NOT NULL CHECK (signer_id <> ''),
    document           TEXT    NOT NULL CHECK (document <> ''),
    tenant             TEXT    NOT NULL GENERATED ALWAYS AS (json_extract(document, '$.tenant')) VIRTUAL,
    token_sha256       TEXT    NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
    expires_at         INTEGER NOT NULL,
    label              TEXT    NOT NULL DEFAULT '',
    client_data_json   TEXT    NOT NULL DEFAULT '',
    attestation_object TEXT    NOT NULL DEFAULT '',
    code               TEXT    NOT NULL DEFAULT '',
    answered_at        INTEGER
) STRICT;
