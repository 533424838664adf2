// Package statedb opens SQLite files that hold state, all in one way: each is its owner's
// alone, several programs may have it open, its format is brought up to date step by step, and
// an error says what to do about it. It knows nothing of what the tables mean.
package statedb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// A Format says what a file holds.
type Format struct {
	What string // for errors, as in "the list of sandboxes"
	ID   uint32 // tells it from other databases; not 0

	// Steps make the format: Steps[i] leads from version i to i+1. What was released is never changed,
	// only added to.
	Steps []string

	// Wait is how long a transaction waits for other processes', each of which takes a few
	// milliseconds; 0: ten seconds.
	Wait time.Duration

	// Durable says that a transaction is on the disk when it has ended. Otherwise a power cut may
	// take the last ones, whole; the end of a program takes none.
	Durable bool
}

// A DB is an open file. It is safe for concurrent use, and other processes may have the same
// file open.
type DB struct {
	path   string
	format *Format
	file   fs.FileInfo // what lies there
	db     *sql.DB

	turn chan struct{} // held by who writes: within a process nobody polls for it
	end  sync.Once
	err  error // of closing
}

const (
	busyTime = 10 * time.Second
	// busyStep is how long SQLite waits at a time: it does not hear that it is canceled.
	busyStep  = 50 * time.Millisecond
	busyPause = 2 * time.Millisecond
	maxConns  = 4
)

// Open opens a file, and makes it where there is none; its folder as well.
func Open(ctx context.Context, path string, format *Format) (*DB, error) {
	d := &DB{path: path, format: format, turn: make(chan struct{}, 1)}
	err := prepareFile(path)
	if err != nil {
		return nil, d.explain(err)
	}
	if d.db, err = sql.Open("sqlite", dsn(path, format.Durable)); err != nil {
		return nil, d.explain(err)
	}
	d.db.SetMaxOpenConns(maxConns)
	if err = d.prepare(ctx); err == nil {
		d.file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, d.explain(errors.Join(err, d.db.Close()))
	}
	return d, nil
}

// wait is how long a transaction waits for other processes'.
func (d *DB) wait() time.Duration { return cmp.Or(d.format.Wait, busyTime) }

// Path is where it is.
func (d *DB) Path() string { return d.path }

// Close closes it. It may be called twice.
func (d *DB) Close() error {
	d.end.Do(func() { d.err = d.explain(d.db.Close()) })
	return d.err
}

// Read runs do on one connection, which sees the file as it is at its first query.
func (d *DB) Read(ctx context.Context, do func(tx *Tx) error) error {
	return d.transact(ctx, "BEGIN", do)
}

// Write runs do while nobody else writes. Where it fails, nothing of it is written.
func (d *DB) Write(ctx context.Context, do func(tx *Tx) error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return d.explain(ctx.Err())
	}
	return d.transact(ctx, "BEGIN IMMEDIATE", do)
}

func (d *DB) transact(ctx context.Context, begin string, do func(tx *Tx) error) error {
	// It may have been moved aside since: what is written would go where nobody finds it.
	st, err := os.Lstat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(st, d.file) {
		err = errMoved
	}
	if err != nil {
		return d.explain(err)
	}
	c, err := d.conn(ctx)
	if err != nil {
		return d.explain(err)
	}
	defer c.Close()
	return d.inTransaction(ctx, c, begin, func() error { return do(&Tx{c, d}) })
}

// A Tx is a transaction, for one goroutine. Its errors say which file they are of.
type Tx struct {
	c *sql.Conn
	d *DB
}

// Exec runs a statement, and says how many rows it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.c.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, t.d.explain(err)
	}
	n, err := res.RowsAffected()
	return n, t.d.explain(err)
}

// Row scans the first row that is found. The error is sql.ErrNoRows where there is none.
func (t *Tx) Row(ctx context.Context, dest []any, query string, args ...any) error {
	err := t.c.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return t.d.explain(err)
}

// Each calls row for each row that is found, with Scan for its columns. An error of row ends it
// and is its own.
func (t *Tx) Each(ctx context.Context, row func(scan func(dest ...any) error) error, query string, args ...any) error {
	rows, err := t.c.QueryContext(ctx, query, args...)
	if err != nil {
		return t.d.explain(err)
	}
	defer rows.Close()
	scan := func(dest ...any) error { return t.d.explain(rows.Scan(dest...)) }
	for rows.Next() {
		if err := row(scan); err != nil {
			return err
		}
	}
	return t.d.explain(rows.Err())
}

// inTransaction rolls back where do or the end of it fails. The errors of do are its own.
func (d *DB) inTransaction(ctx context.Context, c *sql.Conn, begin string, do func() error) error {
	exec := func(what string) error {
		_, err := c.ExecContext(ctx, what)
		return err
	}
	err := d.patient(ctx, func() error {
		if err := exec(begin); err != nil || begin != "BEGIN" {
			return err
		}
		// It begins with the first look at the file, which has to wait like a writer's beginning.
		err := exec("SELECT 1 FROM sqlite_schema LIMIT 1")
		if err != nil {
			_ = exec("ROLLBACK") // else the next beginning says so
		}
		return err
	})
	if err != nil {
		return d.explain(err)
	}
	if err = do(); err == nil {
		if err = d.patient(ctx, func() error { return exec("COMMIT") }); err == nil {
			return nil
		}
		err = d.explain(err)
	}
	// Some errors have rolled back by themselves; then this one fails, and need not be told.
	_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// conn is a connection of its own. A new one reads the file already, while others may hold it.
func (d *DB) conn(ctx context.Context) (c *sql.Conn, err error) {
	err = d.patient(ctx, func() (err error) {
		c, err = d.db.Conn(ctx)
		return err
	})
	return c, err
}

// patient tries something again while another process holds the file.
func (d *DB) patient(ctx context.Context, do func() error) error {
	for end := time.Now().Add(d.wait()); ; {
		err := do()
		if err == nil || !busy(err) {
			return err
		}
		// SQLite may say that the file is held before it hears that nobody waits for that any more.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return err
		}
		// Some of its errors come at once.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(busyPause):
		}
	}
}

// prepareFile makes the file, its owner's alone, where there is none. It never opens one that is
// there: closing it would take SQLite's locks from other users of it in this process.
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

// dsn names the file and what each connection to it sets.
func dsn(path string, durable bool) string {
	sync := "NORMAL"
	if durable {
		sync = "FULL"
	}
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyStep.Milliseconds()),
		fmt.Sprintf("synchronous(%s)", sync), "trusted_schema(OFF)", "cell_size_check(ON)", "foreign_keys(ON)",
	}, "_defensive": {"1"}, "_error_rc": {"1"}, "_dqs": {"0"}, "mode": {"rw"}}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: query.Encode()}).String()
}
