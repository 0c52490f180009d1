-- Signing in to look: passkeys of their own, which approve nothing, and sessions.

-- One an invitation; it counts while the passkey that answered the same invitation does.
CREATE TABLE sign_in_keys (
    credential_id TEXT    NOT NULL PRIMARY KEY CHECK (credential_id <> ''),
    invitation_id TEXT    NOT NULL UNIQUE REFERENCES invitations (invitation_id),
    signer_id     TEXT    NOT NULL CHECK (signer_id <> ''),
    alg           TEXT    NOT NULL,
    public_key    TEXT    NOT NULL,
    counter       INTEGER NOT NULL,
    made_at       INTEGER NOT NULL
) STRICT;

-- Sessions; the cookie's value itself is not kept.
CREATE TABLE sessions (
    token_sha256  TEXT    NOT NULL PRIMARY KEY CHECK (length(token_sha256) = 64),
    credential_id TEXT    NOT NULL REFERENCES sign_in_keys (credential_id),
    expires_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Challenges that were answered: each signs in once.
CREATE TABLE used_challenges (
    challenge_sha256 TEXT    NOT NULL PRIMARY KEY CHECK (length(challenge_sha256) = 64),
    expires_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX used_challenges_by_expiry ON used_challenges (expires_at);
