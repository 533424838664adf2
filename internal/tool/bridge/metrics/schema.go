package metrics

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// prepare makes the table in an empty database, or checks that it is there.
func prepare(ctx context.Context, db *sql.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var ready bool
	err = patient(ctx, func() (err error) {
		ready, err = examine(ctx, c)
		return err
	})
	if err != nil || ready {
		return err
	}
	// The mode lasts, and cannot be changed within a transaction.
	var mode string
	err = patient(ctx, func() error { return c.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode) })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not allow several writers (journal mode %s)", mode)
	}
	return inTransactionOn(ctx, c, func() error {
		if ready, err := examine(ctx, c); err != nil || ready {
			return err // another process was faster
		}
		_, err := c.ExecContext(ctx, schema)
		return err
	})
}

// examine reports whether a database holds metrics; one that is empty does not yet.
func examine(ctx context.Context, c *sql.Conn) (bool, error) {
	var app, version, tables int64
	err := c.QueryRowContext(ctx,
		"SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version",
	).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return false, err
	case app == 0 && version == 0 && tables == 0:
		return false, nil
	case app != applicationID:
		return false, errForeign
	case version != format:
		return false, fmt.Errorf("%w (format %d, this one reads %d)", errNewer, version, format)
	}
	return true, nil
}

// inTransaction does something while no other process writes. It is rolled back where
// that fails.
func inTransaction(ctx context.Context, db *sql.DB, do func(c *sql.Conn) error) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return inTransactionOn(ctx, c, func() error { return do(c) })
}

func inTransactionOn(ctx context.Context, c *sql.Conn, do func() error) error {
	err := patient(ctx, func() error {
		_, err := c.ExecContext(ctx, "BEGIN IMMEDIATE")
		return err
	})
	if err != nil {
		return err
	}
	if err = do(); err == nil {
		if _, err = c.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// Some errors have rolled back by themselves; then this one fails, and need not be told.
	_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// patient tries something again while another process holds the database.
func patient(ctx context.Context, do func() error) error {
	for end := time.Now().Add(busyTime); ; {
		err := do()
		if err == nil || ctx.Err() != nil || code(err) != sqlite3.SQLITE_BUSY || time.Now().After(end) {
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

// Check finds what is wrong with a file of metrics, all of which it reads; nothing is made
// or changed. That there is none is nothing wrong.
func Check(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return explain(path, err)
	case !st.Mode().IsRegular():
		return explain(path, errKind)
	}
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		return explain(path, err)
	}
	return explain(path, errors.Join(check(ctx, db), db.Close()))
}

func check(ctx context.Context, db *sql.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = patient(ctx, func() error {
		_, err := examine(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	var found string
	if err := c.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return &damage{found}
	}
	return nil
}

// damage is what SQLite found when it looked.
type damage struct{ text string }

func (d *damage) Error() string { return d.text }
