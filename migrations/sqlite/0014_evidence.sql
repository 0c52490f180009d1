-- What evidence is put together from, beside what there is: the rail's word, and copies of the signed checkpoints.

-- What the rail said of a transfer that it carried out, once under each key; kept as long as the audit.
CREATE TABLE receipts (
  outbound_key TEXT NOT NULL PRIMARY KEY CHECK (outbound_key <> ''),
  payment_id TEXT NOT NULL CHECK (payment_id <> ''),
  document TEXT NOT NULL CHECK (document <> ''),
  received_at INTEGER NOT NULL
) STRICT;
CREATE INDEX receipts_by_payment ON receipts (payment_id);

-- The notes as they went to their sink. A copy proves nothing but by its signature.
CREATE TABLE checkpoints (
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  size INTEGER NOT NULL CHECK (size > 0),
  note TEXT NOT NULL CHECK (note <> ''),
  PRIMARY KEY (tenant, size)
) STRICT;
