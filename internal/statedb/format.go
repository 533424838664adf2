package statedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// prepare makes the format in an empty file, or brings the one that is there up to date.
func (d *DB) prepare(ctx context.Context) error {
	c, err := d.conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var version int
	err = d.patient(ctx, func() (err error) {
		version, err = d.examine(ctx, c)
		return err
	})
	if err != nil || version == len(d.format.Steps) {
		return err
	}
	// The mode lasts, and cannot be changed within a transaction.
	var mode string
	err = d.patient(ctx, func() error { return c.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode) })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not allow several writers (journal mode %s)", mode)
	}
	return d.inTransaction(ctx, c, "BEGIN IMMEDIATE", func() error { return d.upgrade(ctx, c) })
}

// upgrade takes the steps that are missing, all of them or none.
func (d *DB) upgrade(ctx context.Context, c *sql.Conn) error {
	version, err := d.examine(ctx, c) // another process may have been faster
	if err != nil || version == len(d.format.Steps) {
		return err
	}
	for ; version < len(d.format.Steps); version++ {
		if _, err := c.ExecContext(ctx, d.format.Steps[version]); err != nil {
			return fmt.Errorf("bring it to format %d: %w", version+1, err)
		}
	}
	// A pragma takes no parameters.
	_, err = c.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", int32(d.format.ID), version))
	return err
}

// examine says which version of the format a file has; 0 is an empty one.
func (d *DB) examine(ctx context.Context, c *sql.Conn) (int, error) {
	var app int32
	var version, tables int
	err := c.QueryRowContext(ctx,
		"SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version",
	).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case uint32(app) != d.format.ID || version <= 0:
		return 0, errForeign
	case version > len(d.format.Steps):
		return 0, fmt.Errorf("%w (format %d, this one reads %d)", errNewer, version, len(d.format.Steps))
	}
	return version, nil
}

// Check finds what is wrong with a file, all of which it reads; nothing is made or changed. That
// there is none is nothing wrong.
func Check(ctx context.Context, path string, format *Format) error {
	d := &DB{path: path, format: format}
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.explain(err)
	case !st.Mode().IsRegular():
		return d.explain(errKind)
	}
	if d.db, err = sql.Open("sqlite", dsn(path, format.Durable)); err != nil {
		return d.explain(err)
	}
	return d.explain(errors.Join(d.check(ctx), d.db.Close()))
}

func (d *DB) check(ctx context.Context) error {
	c, err := d.conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = d.patient(ctx, func() error {
		_, err := d.examine(ctx, c)
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
