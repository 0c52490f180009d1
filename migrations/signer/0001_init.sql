-- The reference signer service's own tables. Instants are Unix microseconds; times that are
-- signed are kept as the text that is signed.

-- Who can be reached. Names and keys come from configuration and are not kept here.
CREATE TABLE signers (
    signer_id  TEXT    NOT NULL PRIMARY KEY CHECK (signer_id <> ''),
    online     INTEGER NOT NULL CHECK (online IN (0, 1)),
    changed_at INTEGER NOT NULL
) STRICT;

-- One row a payment, holding its current round only.
CREATE TABLE payments (
    id             TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    reference      TEXT    NOT NULL UNIQUE CHECK (reference <> ''),
    round          INTEGER NOT NULL CHECK (round >= 1),
    payload        TEXT    NOT NULL CHECK (payload <> ''),
    payment_digest TEXT    NOT NULL CHECK (payment_digest <> ''),
    expires_at     INTEGER NOT NULL,
    callback_url   TEXT    NOT NULL CHECK (callback_url <> ''),
    state          TEXT    NOT NULL CHECK (state IN ('open', 'closed')),
    close_reason   TEXT    NOT NULL DEFAULT '',
    registered_at  INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL
) STRICT;

-- Who is asked in the current round, in the order they were named.
CREATE TABLE challenges (
    payment_id           TEXT    NOT NULL REFERENCES payments (id),
    signer_id            TEXT    NOT NULL CHECK (signer_id <> ''),
    position             INTEGER NOT NULL,
    nonce                TEXT    NOT NULL CHECK (nonce <> ''),
    issued_at            TEXT    NOT NULL,
    challenge_expires_at TEXT    NOT NULL,
    PRIMARY KEY (payment_id, signer_id)
) STRICT;

-- Decisions of the current round only. One a signer, where the directory's key verified it; what
-- could not be verified here takes nobody's place.
CREATE TABLE decisions (
    decision_id TEXT    NOT NULL PRIMARY KEY CHECK (decision_id <> ''),
    payment_id  TEXT    NOT NULL REFERENCES payments (id),
    round       INTEGER NOT NULL,
    signer_id   TEXT    NOT NULL,
    decision    TEXT    NOT NULL CHECK (decision IN ('approve', 'reject')),
    document    TEXT    NOT NULL,
    jws         TEXT    NOT NULL,
    verified    INTEGER NOT NULL CHECK (verified IN (0, 1)),
    decided_at  INTEGER NOT NULL,
    UNIQUE (payment_id, round, signer_id, document, jws, verified)
) STRICT;
CREATE UNIQUE INDEX decisions_verified ON decisions (payment_id, round, signer_id) WHERE verified = 1;

-- Attempts to reach people, with the answer that was given.
CREATE TABLE notifications (
    payment_id TEXT    NOT NULL REFERENCES payments (id),
    round      INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    signers    TEXT    NOT NULL,
    answer     TEXT    NOT NULL,
    sent_at    INTEGER NOT NULL,
    PRIMARY KEY (payment_id, round, number)
) STRICT;

-- What each write's key was answered. Successes only: what was refused did nothing and may be repeated.
CREATE TABLE idempotency (
    key         TEXT    NOT NULL PRIMARY KEY CHECK (key <> ''),
    path        TEXT    NOT NULL,
    body_sha256 TEXT    NOT NULL,
    status      INTEGER NOT NULL CHECK (status BETWEEN 200 AND 299),
    response    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Sign links; the token itself is not kept.
CREATE TABLE links (
    token_sha256 TEXT    NOT NULL PRIMARY KEY CHECK (length(token_sha256) = 64),
    payment_id   TEXT    NOT NULL REFERENCES payments (id),
    round        INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX links_by_expiry ON links (expires_at);

-- Callbacks to send, with the exact bytes that every attempt sends.
CREATE TABLE callbacks (
    event_id   TEXT    NOT NULL PRIMARY KEY CHECK (event_id <> ''),
    url        TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    state      TEXT    NOT NULL CHECK (state IN ('due', 'delivered', 'given_up')),
    created_at INTEGER NOT NULL,
    next_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX callbacks_due ON callbacks (next_at) WHERE state = 'due';
CREATE INDEX callbacks_by_age ON callbacks (created_at);
