package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"airlock/internal/tool/bridge/setup"
)

// A file is the log's file, and those that were put aside. Libraries for this assume that
// one process writes; bridges come in numbers.
type file struct {
	path    string
	max     int64 // bytes; 0 or less: it grows
	backups int

	mu     sync.Mutex
	real   string   // path, or what it leads to
	f      *os.File // nil: none is open
	torn   bool     // the last write ended within a line
	err    error    // the first there was
	lost   int      // lines that were not written
	closed bool
}

func newFile(l *setup.Logging) *file {
	f := &file{path: l.File, backups: l.Backups}
	if l.Rotate && l.Backups > 0 { // nothing is ever thrown away in order to keep nothing
		f.max = l.MaxBytes
	}
	return f
}

// write appends a line.
func (l *file) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if err := l.writeLocked(line); err != nil {
		l.lost++
		l.failLocked(err)
	}
}

func (l *file) failLocked(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *file) writeLocked(line []byte) error {
	if err := l.readyLocked(int64(len(line))); err != nil {
		return err
	}
	if l.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := l.f.Write(line)
	if n > 0 {
		l.torn = err != nil
	}
	return err
}

// readyLocked has the file open that is the log's now, with room for n bytes.
func (l *file) readyLocked(n int64) error {
	// Another process may have put it aside, or a person removed it.
	if l.f != nil && !l.currentLocked() {
		l.closeLocked()
	}
	if l.f == nil {
		if err := l.openLocked(); err != nil {
			return err
		}
	}
	full, err := l.fullLocked(n)
	if err != nil || !full {
		return err
	}
	// What stops it from being put aside does not stop it from growing.
	if err := l.rotateLocked(n); err != nil {
		l.failLocked(err)
	}
	if l.f == nil {
		return l.openLocked()
	}
	return nil
}

// currentLocked reports whether what is open is what the log's name leads to.
func (l *file) currentLocked() bool {
	st, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.real)
	return err == nil && os.SameFile(st, there)
}

func (l *file) fullLocked(n int64) (bool, error) {
	if l.max <= 0 {
		return false, nil
	}
	st, err := l.f.Stat()
	return err == nil && st.Size() > 0 && st.Size()+n > l.max, err
}

// openLocked opens the file, and makes it and its folder, its owner's alone, where there is none.
func (l *file) openLocked() error {
	if err := l.check(); err != nil {
		return err
	}
	real, err := l.resolve()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(real), 0o700); err != nil {
		return err
	}
	// It may be another one than was checked: a link is not followed, a pipe not waited for.
	f, err := os.OpenFile(real, os.O_APPEND|os.O_CREATE|os.O_WRONLY|openFlags, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = acceptable(st)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	l.f, l.real = f, real
	return nil
}

// check finds what cannot be a log, without opening it.
func (l *file) check() error {
	real, err := l.resolve()
	if err != nil {
		return err
	}
	st, err := os.Lstat(real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return acceptable(st)
}

// writable says whether the file, or the folder that it or its own folder is to be made in, can be
// written to.
func (l *file) writable() error {
	real, err := l.resolve()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(real); err == nil {
		if err := mayWrite(real); err != nil {
			return err
		}
		if l.max <= 0 {
			return nil
		}
	}
	folder := filepath.Dir(real)
	for {
		_, err := os.Lstat(folder)
		parent := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || parent == folder {
			break
		}
		folder = parent
	}
	if st, err := os.Stat(folder); err == nil && !st.IsDir() {
		return &fs.PathError{Op: "make its folder", Path: folder, Err: syscall.ENOTDIR}
	}
	return mayWrite(folder)
}

// resolve is where the log is. A person may have put it elsewhere by a link.
func (l *file) resolve() (string, error) {
	st, err := os.Lstat(l.path)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return l.path, nil // what is wrong with it shows when it is opened
	}
	if !ours(st) {
		return "", errLink
	}
	return filepath.EvalSymlinks(l.path)
}

func acceptable(st fs.FileInfo) error {
	switch {
	case !st.Mode().IsRegular():
		return errKind
	case !ours(st):
		return errOwner
	}
	return nil
}

// rotateLocked puts the file aside and closes it, unless another process is at that. Who
// holds the lock of the file that has the log's name is the only one that renames.
func (l *file) rotateLocked(n int64) error {
	unlock, ok := lock(l.f)
	if !ok {
		return nil
	}
	defer unlock()
	full, err := l.fullLocked(n)
	if err != nil || !full {
		return err
	}
	st, err := l.f.Stat()
	if err != nil {
		return err
	}
	current := l.currentLocked()
	if !current || closeFirst {
		l.closeLocked()
	}
	if !current {
		return nil // another one was faster
	}
	if err := l.aside(); err != nil {
		return fmt.Errorf("put it aside: %w", err)
	}
	// The next one is for the same eyes. Where another process has made it already, it is
	// for the owner's alone.
	if next, err := os.OpenFile(l.real, os.O_CREATE|os.O_EXCL|os.O_WRONLY|openFlags, 0o600); err == nil {
		_ = next.Chmod(st.Mode().Perm())
		_ = next.Close()
	}
	l.closeLocked()
	return nil
}

func (l *file) closeLocked() {
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// aside renames the file to FILE.1, and those before it, as far as there is no gap.
func (l *file) aside() error {
	free := 1
	for free < l.backups {
		if _, err := os.Lstat(l.nth(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for i := free; i > 1; i-- {
		if err := os.Rename(l.nth(i-1), l.nth(i)); err != nil {
			return err
		}
	}
	return os.Rename(l.real, l.nth(1))
}

func (l *file) nth(i int) string { return l.real + "." + strconv.Itoa(i) }

// Close implements io.Closer.
func (l *file) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && !l.closed {
		if err := l.f.Close(); err != nil {
			l.failLocked(err)
		}
	}
	l.closed, l.f = true, nil
	if l.err == nil {
		return nil
	}
	return l.explain(l.err)
}
