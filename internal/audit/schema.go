package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// What tells an airlock record from other databases, and the format of this one.
const (
	applicationID = 0x41_4c_4f_47 // "ALOG"
	format        = 1
)

var (
	errForeign = errors.New("it is a database of another program")
	errNewer   = errors.New("it has a format of another version of airlock")
)

// schema makes an empty record. The triggers stop accidents, not a person who means it:
// those the chain is for.
//
// chain holds one row: head is the last row of the record, tail the last one that was
// removed for its age or for room.
const schema = `
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
PRAGMA application_id = 0x414c4f47;
PRAGMA user_version = 1;
`

// prepare makes the record in an empty database, or checks that there is one.
func prepare(ctx context.Context, c *sql.Conn) error {
	state, err := examine(ctx, c)
	if err != nil || state == isRecord {
		return err
	}
	// The mode lasts, and cannot be changed within a transaction.
	var mode string
	if err := c.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return fmt.Errorf("prepare for several writers: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not allow several writers (journal mode %s)", mode)
	}
	return inTransaction(ctx, c, func() error {
		// Another process may have been faster.
		if state, err := examine(ctx, c); err != nil || state == isRecord {
			return err
		}
		if _, err := c.ExecContext(ctx, schema); err != nil {
			return fmt.Errorf("make the record: %w", err)
		}
		return nil
	})
}

type dbState int

const (
	isEmpty dbState = iota
	isRecord
)

// examine says what a database is.
func examine(ctx context.Context, c *sql.Conn) (dbState, error) {
	var app, version, tables int64
	err := c.QueryRowContext(ctx,
		"SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version",
	).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, fmt.Errorf("open it: %w", err)
	case app == 0 && version == 0 && tables == 0:
		return isEmpty, nil
	case app != applicationID:
		return 0, errForeign
	case version != format:
		return 0, fmt.Errorf("%w (format %d, this one reads %d)", errNewer, version, format)
	}
	return isRecord, nil
}

// inTransaction does something while no other process writes. It is rolled back where
// that fails.
func inTransaction(ctx context.Context, c *sql.Conn, do func() error) error {
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("wait for its turn: %w", err)
	}
	err := do()
	if err == nil {
		if _, err = c.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
		err = fmt.Errorf("write it down: %w", err)
	}
	// Some errors have rolled back by themselves; then this one fails, and need not be told.
	_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}
