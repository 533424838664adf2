// Package journal is the bridge's log file, whose lines look as those of the original:
//
//	[2026-11-22 09:30:45] INFO [bridge]: dispatching agent=watch_collect call=c-17
//
// The time is local. The name in the second brackets is that of the logger: Name's attribute,
// else "bridge". A line is one line, whatever its message holds: line breaks, control
// characters and what is no UTF-8 are written as in a Go string. Secrets are replaced, and a
// line has at most 64 KiB.
//
// Several processes may write to the same file. Each line is one write behind the last one,
// and one process at a time puts the file aside, as FILE.1, FILE.2 and so on, the newest
// first. So no line is lost but with the oldest file. The package knows nothing of who logs.
package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"airlock/internal/tool/bridge/setup"
)

// Name is the key of the attribute that says who logs: log.With(journal.Name, "watch_collect").
const Name = "logger"

// Open gives a logger that writes to the file of l. Nothing is made or opened before the
// first line. What cannot be written is left out, since no call fails for its log: Close
// returns the first error there was, which names the file and the mend, and says how many lines
// are missing. Close may be called more than once, and lines after it are left out.
//
// Open's own error is a file that cannot be a log, and the logger then discards: neither
// it nor the closer is ever nil. A nil l is a log that nobody wants.
func Open(l *setup.Logging) (*slog.Logger, io.Closer, error) {
	none := slog.New(slog.DiscardHandler)
	if l == nil || l.File == os.DevNull {
		return none, nothing{}, nil
	}
	level, ok := levels[l.Level]
	if !ok {
		return none, nothing{}, fmt.Errorf("the bridge's log %s: there is no level %q; set logging.level to DEBUG, INFO, WARNING or ERROR", show(l.File), l.Level)
	}
	f := newFile(l)
	if err := f.check(); err != nil {
		return none, nothing{}, f.explain(err)
	}
	return slog.New(&handler{out: f, level: level, name: "bridge"}), f, nil
}

// Check says why lines could not be written to the file of l, as far as that can be seen
// without writing one: nothing is opened or made.
func Check(l *setup.Logging) error {
	if l.File == os.DevNull {
		return nil
	}
	f := newFile(l)
	err := f.check()
	if err == nil {
		err = f.writable()
	}
	if err != nil {
		return f.explain(err)
	}
	return nil
}

var levels = map[string]slog.Level{
	"": slog.LevelInfo, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARNING": slog.LevelWarn, "ERROR": slog.LevelError,
}

// nothing is what there is to close where nothing is written.
type nothing struct{}

func (nothing) Close() error { return nil }

// A FileError is a log that cannot be written. Its text says what to do.
type FileError struct {
	Path string
	Err  error
	Mend string
	Lost int // lines that could not be written
}

func (e *FileError) Error() string {
	text := "the bridge's log " + show(e.Path) + ": " + show(e.Err.Error())
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	if e.Lost > 0 {
		text += fmt.Sprintf(" (lines that are missing: %d)", e.Lost)
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

var (
	errKind  = errors.New("it is no regular file")
	errOwner = errors.New("it belongs to another user, who would read what is logged")
	errLink  = errors.New("it is a link of another user's")
)

// explain adds to an error what to do about it.
func (l *file) explain(err error) error {
	mend := ""
	switch {
	case errors.Is(err, errKind), errors.Is(err, errOwner), errors.Is(err, errLink):
		mend = "name another one as logging.file"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		mend = "make it and its folder writable for you, or name another one as logging.file"
	case errors.Is(err, syscall.ENOSPC):
		mend = "make room on its disk"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return &FileError{l.path, err, mend, l.lost}
}
