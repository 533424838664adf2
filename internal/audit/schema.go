package audit

import (
	"time"

	"airlock/internal/statedb"
)

// format is that of the record's file. The triggers stop accidents, not a person who means it:
// those the chain is for.
//
// chain holds one row: head is the last row of the record, tail the last one that was
// removed for its age or for room.
//
// It is durable: a row is on the disk when Record returns. A command that brings the machine
// down would take the row that names it along otherwise.
func format() *statedb.Format {
	return &statedb.Format{What: "the record", ID: 0x41_4c_4f_47 /* "ALOG" */, Wait: 5 * time.Second, Durable: true, Steps: []string{`
CREATE TABLE record (
	seq  INTEGER PRIMARY KEY,
	time TEXT NOT NULL,
	kind TEXT NOT NULL,
	id   TEXT NOT NULL,
	user TEXT NOT NULL,
	uid  INTEGER NOT NULL,
	pid  INTEGER NOT NULL,
	data TEXT NOT NULL,
	prev BLOB NOT NULL,
	hash BLOB NOT NULL
) STRICT;
CREATE INDEX record_id ON record (id);
CREATE INDEX record_time ON record (time);
CREATE TABLE chain (
	one       INTEGER PRIMARY KEY CHECK (one = 1),
	head_seq  INTEGER NOT NULL,
	head_hash BLOB NOT NULL,
	tail_seq  INTEGER NOT NULL,
	tail_hash BLOB NOT NULL
) STRICT;
INSERT INTO chain VALUES (1, 0, zeroblob(32), 0, zeroblob(32));
CREATE TRIGGER record_is_not_edited BEFORE UPDATE ON record BEGIN
	SELECT RAISE(ABORT, 'rows of the record are only added');
END;
CREATE TRIGGER record_is_not_cut BEFORE DELETE ON record
	WHEN OLD.seq > (SELECT tail_seq FROM chain) BEGIN
	SELECT RAISE(ABORT, 'rows of the record are only added');
END;
`}}
}
