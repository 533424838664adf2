package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// busyTime is how long a write waits for other processes' writes, each of which takes a
// few milliseconds.
const busyTime = 5 * time.Second

// prepareFile makes the record's file, its owner's alone, where there is none. It never
// opens one that is there: closing it would take SQLite's locks from other users of it in
// this process.
func prepareFile(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return explain(path, err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil // another process was faster
		}
		if err == nil {
			err = f.Close()
		}
		return explain(path, err)
	case err != nil:
		return explain(path, err)
	case !st.Mode().IsRegular():
		return fmt.Errorf("the record %s is no regular file; move it away", path)
	case st.Mode().Perm()&0o077 != 0:
		return explain(path, os.Chmod(path, 0o600))
	}
	return nil
}

// dsn names the database and what each connection to it sets.
//
// synchronous=FULL: a row is on the disk when Record returns. NORMAL would lose the last
// rows in a power cut, which a command that brings the machine down could bring about.
func dsn(path string) string {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTime.Milliseconds()),
		"synchronous(FULL)", "trusted_schema(OFF)", "cell_size_check(ON)", "foreign_keys(OFF)",
	}, "_defensive": {"1"}, "_error_rc": {"1"}, "_dqs": {"0"}}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: query.Encode()}).String()
}

// A FileError is a record that cannot be used. Its text says what to do.
type FileError struct {
	Path string
	Err  error
	Mend string
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("the record %s: %v", e.Path, e.Err)
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

// explain adds to an error of the database what it means for the record and what to do
// about it.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*FileError](err); ok {
		return err
	}
	return &FileError{path, err, mend(path, err)}
}

const (
	mendAside  = "move it away (mv %[1]s %[1]s.damaged) and airlock begins a new one"
	mendFolder = "set AIRLOCK_HOME to a folder that you can write to"
)

func mend(path string, err error) string {
	switch {
	case errors.Is(err, errForeign), errors.Is(err, errNewer):
		return strings.ReplaceAll(mendAside, "%[1]s.damaged", "%[1]s.other")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return mendFolder
	case errors.Is(err, syscall.ENOSPC):
		return "make room on its disk"
	}
	broken, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return ""
	}
	switch broken.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Sprintf(mendAside, path)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Sprintf("another program has held it for more than %s: end that one (fuser %s names it) and try again", busyTime, path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return "make it and its folder writable for you, or " + mendFolder
	case sqlite3.SQLITE_FULL:
		return "make room on its disk"
	case sqlite3.SQLITE_IOERR:
		return "make sure that its disk works and has room"
	}
	return ""
}
