package metrics

import (
	"context"
	"errors"
	"time"

	"airlock/internal/statedb"
)

const what = "the bridge's metrics"

// format is that of the file. A power cut may take the last samples, and takes nothing else.
func format() *statedb.Format {
	return &statedb.Format{What: what, ID: 0x41_42_4d_58 /* "ABMX" */, Wait: 5 * time.Second, Steps: []string{`
CREATE TABLE sample (
	id      INTEGER PRIMARY KEY,
	time    INTEGER NOT NULL, -- when the call came: milliseconds since 1970
	config  TEXT NOT NULL,    -- the file that names the agent
	agent   TEXT NOT NULL,
	outcome TEXT NOT NULL,
	ok      INTEGER NOT NULL CHECK (ok IN (0, 1)),
	ms      INTEGER NOT NULL  -- how long it took
) STRICT;
CREATE INDEX sample_time ON sample (config, time);
`}}
}

var errClosed = errors.New("they are closed")

// Check finds what is wrong with a file of metrics, all of which it reads; nothing is made
// or changed. That there is none is nothing wrong.
func Check(ctx context.Context, path string) error { return statedb.Check(ctx, path, format()) }

// Damaged reports whether an error of Check or of a Store is a file that SQLite cannot read.
func Damaged(err error) bool { return statedb.Damaged(err) }

// failed is an error of the store's own.
func (s *Store) failed(err error) error {
	return &statedb.FileError{What: what, Path: s.path, Err: err}
}

// with does something with the file that the path names now, which is made where there is none.
func (s *Store) with(ctx context.Context, do func(db *statedb.DB) error) error {
	for again := false; ; again = true {
		db, err := s.open(ctx)
		if err != nil {
			return err
		}
		if err = do(db); again || !statedb.Moved(err) {
			return err
		}
		s.letGo(db)
	}
}

func (s *Store) open(ctx context.Context) (*statedb.DB, error) {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.shut {
		return nil, s.failed(errClosed)
	}
	if s.db != nil {
		return s.db, nil
	}
	db, err := statedb.Open(ctx, s.path, format())
	if err != nil {
		return nil, err
	}
	s.db = db
	return db, nil
}

// letGo closes a file that has been moved away.
func (s *Store) letGo(db *statedb.DB) {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	_ = db.Close() // nothing is missing in it
	if s.db == db {
		s.db = nil
	}
}

func (s *Store) closeDB() error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	s.shut = true
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}
