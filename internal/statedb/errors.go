package statedb

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	errForeign = errors.New("it is a database of another program")
	errNewer   = errors.New("it has a format of another version of airlock")
	errKind    = errors.New("it is no regular file")
	errMoved   = errors.New("it was taken away or replaced while it was in use")
)

// A FileError is a file that cannot be used. Its text says what to do.
type FileError struct {
	What string // the format's
	Path string
	Err  error
	Mend string // "" where nothing is known to help
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("%s %s: %v", e.What, e.Path, e.Err)
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

// damage is what SQLite found when it looked.
type damage struct{ text string }

func (d *damage) Error() string { return d.text }

// Damaged reports whether an error is of a file that SQLite cannot read.
func Damaged(err error) bool {
	if _, ok := errors.AsType[*damage](err); ok {
		return true
	}
	c := code(err)
	return c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB
}

// Full reports whether there was no room on the disk.
func Full(err error) bool {
	if broken, ok := errors.AsType[*sqlite.Error](err); ok && broken.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return true // even to read takes a small file beside it
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || code(err) == sqlite3.SQLITE_FULL
}

// Moved reports whether the file has gone, or another has its place, since it was opened.
func Moved(err error) bool { return errors.Is(err, errMoved) }

func busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// code is SQLite's; 0 where it is not its error.
func code(err error) int {
	if broken, ok := errors.AsType[*sqlite.Error](err); ok {
		return broken.Code() & 0xff
	}
	return 0
}

// explain adds to an error which file it is of, and what to do about it.
func (d *DB) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*FileError](err); ok {
		return err
	}
	return &FileError{d.format.What, d.path, err, d.mend(err)}
}

func (d *DB) mend(err error) string {
	const folder = "make it and its folder writable for you, or set AIRLOCK_HOME to a folder that is"
	switch {
	case Damaged(err), errors.Is(err, errForeign), errors.Is(err, errNewer), errors.Is(err, errKind):
		return fmt.Sprintf("move it away (mv %[1]s %[1]s.aside), and a new one is begun", d.path)
	case Full(err):
		return "make room on its disk"
	case errors.Is(err, errMoved), errors.Is(err, fs.ErrNotExist):
		return "try again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return folder
	case busy(err):
		return fmt.Sprintf("another program has held it for more than %s: end that one (fuser %s names it) and try again", d.wait(), d.path)
	}
	switch code(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return folder
	case sqlite3.SQLITE_IOERR:
		return "make sure that its disk works and has room"
	}
	return ""
}
