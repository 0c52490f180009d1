-- Reaching people: messages and every attempt at them, who looked, and whose link is whose.

-- One message a person and notification. Written down before it is tried.
CREATE TABLE messages (
    message_id TEXT    NOT NULL PRIMARY KEY CHECK (message_id <> ''),
    payment_id TEXT    NOT NULL REFERENCES payments (id),
    round      INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    signer_id  TEXT    NOT NULL CHECK (signer_id <> ''),
    state      TEXT    NOT NULL CHECK (state IN ('due', 'held', 'trying', 'delivered', 'unreachable', 'dropped')),
    -- Which of the person's channels, from 0.
    place      INTEGER NOT NULL CHECK (place >= 0),
    -- When it may be tried; while it is, when another may take over.
    due_at     INTEGER NOT NULL,
    reason     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    UNIQUE (payment_id, round, number, signer_id)
) STRICT;
CREATE INDEX messages_due ON messages (due_at) WHERE state IN ('due', 'held', 'trying');
CREATE INDEX messages_by_age ON messages (changed_at);

-- At most one attempt a message and channel. Several messages may have left in one letter.
CREATE TABLE attempts (
    message_id TEXT    NOT NULL REFERENCES messages (message_id) ON DELETE CASCADE,
    place      INTEGER NOT NULL,
    letter_id  TEXT    NOT NULL CHECK (letter_id <> ''),
    signer_id  TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('trying', 'delivered', 'unreachable')),
    reason     TEXT    NOT NULL,
    began_at   INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (message_id, place)
) STRICT;
CREATE INDEX attempts_by_person ON attempts (signer_id, began_at);

-- Who looked at a payment's page, by whose link it was; '' for one that was issued on request.
CREATE TABLE views (
    payment_id TEXT    NOT NULL REFERENCES payments (id),
    round      INTEGER NOT NULL,
    signer_id  TEXT    NOT NULL,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (payment_id, round, signer_id)
) STRICT;

-- Links issued on request are counted; those in messages name their person.
ALTER TABLE links ADD COLUMN signer_id TEXT NOT NULL DEFAULT '';
ALTER TABLE links ADD COLUMN issued_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX links_by_payment ON links (payment_id, issued_at) WHERE signer_id = '';
