-- The sandbox rail's own memory: what it was asked, what it moved, how it is to misbehave.
-- Instants are Unix microseconds.

CREATE TABLE requests (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    idempotency_key TEXT    NOT NULL,
    body_sha256     TEXT    NOT NULL,
    -- '' when the body could not be read.
    reference       TEXT    NOT NULL,
    -- '' until an answer was about to leave, so a request that a kill cut short says so.
    answered        TEXT    NOT NULL DEFAULT '',
    at              INTEGER NOT NULL
) STRICT;
CREATE INDEX requests_reference ON requests (reference);

-- What each key was answered with the first time.
CREATE TABLE keys (
    idempotency_key TEXT    NOT NULL PRIMARY KEY,
    body_sha256     TEXT    NOT NULL,
    status          INTEGER NOT NULL,
    answer          TEXT    NOT NULL
) STRICT;

CREATE TABLE transfers (
    transfer_id     TEXT    NOT NULL PRIMARY KEY,
    reference       TEXT    NOT NULL,
    order_id        TEXT    NOT NULL,
    amount_minor    INTEGER NOT NULL CHECK (amount_minor > 0),
    currency        TEXT    NOT NULL,
    payee_account   TEXT    NOT NULL,
    at              INTEGER NOT NULL
) STRICT;
CREATE INDEX transfers_reference ON transfers (reference);

CREATE TABLE entries (
    entry_id        TEXT    NOT NULL PRIMARY KEY,
    transfer_id     TEXT    NOT NULL REFERENCES transfers (transfer_id),
    reference       TEXT    NOT NULL,
    account         TEXT    NOT NULL,
    direction       TEXT    NOT NULL CHECK (direction IN ('debit', 'credit')),
    amount_minor    INTEGER NOT NULL CHECK (amount_minor > 0),
    currency        TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    UNIQUE (transfer_id, direction)
) STRICT;
CREATE INDEX entries_reference ON entries (reference);

-- Misbehaviour for the coming transfers, oldest first.
CREATE TABLE faults (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind            TEXT    NOT NULL,
    delay_ms        INTEGER NOT NULL,
    remaining       INTEGER NOT NULL CHECK (remaining > 0)
) STRICT;

-- Lasting misbehaviour: a row is a fault that is on.
CREATE TABLE standing (
    name            TEXT    NOT NULL PRIMARY KEY
) STRICT;
