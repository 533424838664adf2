// Package audit is the record: what was called, judged, approved, run, committed and
// undone, in a SQLite database to which rows are only added. Each row holds the hash of the
// one before it, so that a later edit shows. Secrets are replaced before anything is
// written. It knows neither who records nor what the rows mean.
package audit

import (
	"context"
	"errors"
	"os"
	"os/user"
	"strconv"
	"sync"
	"time"

	"airlock/internal/redact"
	"airlock/internal/statedb"
)

// Options change how a record is kept.
type Options struct {
	// MaxAge and MaxBytes bound the record: older rows, and the oldest of too many, are
	// removed now and then. 0: 90 days, and 256 MiB. Negative: no bound.
	MaxAge   time.Duration
	MaxBytes int64

	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

const (
	defaultAge   = 90 * 24 * time.Hour
	defaultBytes = 256 << 20
)

// A Log is an open record. It is safe for concurrent use, and other processes may have the
// same record open.
type Log struct {
	db   *statedb.DB
	opts Options
	who  author

	lead chan struct{} // held by who commits

	mu     sync.Mutex
	queue  []*entry // that wait for a leader
	closed bool
}

// author is who writes rows.
type author struct {
	user string
	uid  int64 // -1 where the system has none
	pid  int64
}

// ErrClosed is the error of a record that has been closed.
var ErrClosed = errors.New("the record is closed")

// Open opens the record in a file, and makes it where there is none; its folder as well.
// The error says what to do about it.
func Open(path string, opts *Options) (*Log, error) {
	l := &Log{who: self(), lead: make(chan struct{}, 1)}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.MaxAge == 0 {
		l.opts.MaxAge = defaultAge
	}
	if l.opts.MaxBytes == 0 {
		l.opts.MaxBytes = defaultBytes
	}
	if l.opts.Now == nil {
		l.opts.Now = time.Now
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	redact.Prepare() // whoever opens the record has time; whoever records may not
	var err error
	if l.db, err = statedb.Open(ctx, path, format()); err != nil {
		return nil, err
	}
	return l, nil
}

// openTime bounds what Open waits for, which is another process that makes the record.
const openTime = 20 * time.Second

// Path is where the record is.
func (l *Log) Path() string { return l.db.Path() }

// self is who this process runs as. The name of the system's user database is not asked
// for: that can take long, and the number is what counts.
func self() author {
	a := author{uid: int64(os.Getuid()), pid: int64(os.Getpid()), user: os.Getenv("USER")}
	if a.user == "" {
		if u, err := user.LookupId(strconv.FormatInt(a.uid, 10)); err == nil {
			a.user = u.Username
		}
	}
	return a
}

// Close closes the record, after what is being written is written. It may be called
// twice.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.lead <- struct{}{}
	l.fail(ErrClosed) // nothing is added to the queue any more
	<-l.lead
	return l.db.Close()
}
