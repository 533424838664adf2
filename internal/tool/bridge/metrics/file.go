package metrics

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTime is how long a write waits for other processes'.
	busyTime = 5 * time.Second
	// busyStep is how long SQLite waits at a time: it does not hear that it is canceled.
	busyStep  = 100 * time.Millisecond
	busyPause = 5 * time.Millisecond

	applicationID = 0x41_42_4d_58 // "ABMX"
	format        = 1
)

const schema = `
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
PRAGMA application_id = 0x41424d58;
PRAGMA user_version = 1;
`

var (
	errForeign = errors.New("it is a database of another program")
	errNewer   = errors.New("it has a format of another version of airlock")
	errClosed  = errors.New("they are closed")
	errKind    = errors.New("it is no regular file")
)

// A FileError is a file that cannot be used. Its text says what to do.
type FileError struct {
	Path string
	Err  error
	Mend string
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("the bridge's metrics %s: %v", e.Path, e.Err)
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

// explain adds to an error what it means for the metrics and what to do about it.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*FileError](err); ok {
		return err
	}
	return &FileError{path, err, mend(path, err)}
}

func mend(path string, err error) string {
	const folder = "make it and its folder writable for you, or set AIRLOCK_HOME to a folder that is"
	switch {
	case Damaged(err), errors.Is(err, errForeign), errors.Is(err, errNewer), errors.Is(err, errKind):
		return fmt.Sprintf("move it away (mv %[1]s %[1]s.aside), and a new one is begun", path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return folder
	case errors.Is(err, syscall.ENOSPC):
		return "make room on its disk"
	}
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another program holds it: end that one and try again"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return folder
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return "make sure that its disk works and has room"
	}
	return ""
}

// code is SQLite's; 0 where it is not its error.
func code(err error) int {
	if broken, ok := errors.AsType[*sqlite.Error](err); ok {
		return broken.Code() & 0xff
	}
	return 0
}

// Damaged reports whether an error of Check or of a Store is a file that SQLite cannot read.
func Damaged(err error) bool {
	if _, ok := errors.AsType[*damage](err); ok {
		return true
	}
	c := code(err)
	return c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB
}

// open gives the database that the path names now; its file is made where there is none.
func (s *Store) open(ctx context.Context) (*sql.DB, error) {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.shut {
		return nil, explain(s.path, errClosed)
	}
	if s.db != nil {
		// It may have been moved aside since: rows would go where nobody finds them.
		if st, err := os.Lstat(s.path); err == nil && os.SameFile(st, s.file) {
			return s.db, nil
		}
		_ = s.db.Close()
		s.db = nil
	}
	db, err := openFile(ctx, s.path)
	if err != nil {
		return nil, explain(s.path, err)
	}
	if s.file, err = os.Lstat(s.path); err != nil {
		return nil, explain(s.path, errors.Join(err, db.Close()))
	}
	s.db = db
	return db, nil
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

func openFile(ctx context.Context, path string) (*sql.DB, error) {
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepareFile makes the file, its owner's alone, where there is none. It never opens one
// that is there: closing it would take SQLite's locks from other users of it in this process.
func prepareFile(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil // another process was faster
		}
		if err == nil {
			err = f.Close()
		}
		return err
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errKind
	case st.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

// dsn names the database and what each connection to it sets. synchronous=NORMAL: a power
// cut may take the last samples, and takes nothing else.
func dsn(path, mode string) string {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyStep.Milliseconds()),
		"synchronous(NORMAL)", "trusted_schema(OFF)", "cell_size_check(ON)", "foreign_keys(OFF)",
	}, "_defensive": {"1"}, "_error_rc": {"1"}, "_dqs": {"0"}, "mode": {mode}}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: query.Encode()}).String()
}
