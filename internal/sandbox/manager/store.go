package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"airlock/internal/statedb"
)

// format is that of sandboxes.db. data is JSON: what changes with every version of airlock is in
// there, what is looked for is beside it. n is the order in which they were made.
func format() *statedb.Format {
	return &statedb.Format{What: "the list of sandboxes", ID: 0x41_53_42_58 /* "ASBX" */, Steps: []string{`
CREATE TABLE sandbox (
	n     INTEGER PRIMARY KEY AUTOINCREMENT,
	id    TEXT NOT NULL UNIQUE,
	state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'destroyed')),
	step  TEXT NOT NULL,    -- one that is to be ended by whoever comes next; "": none
	ended INTEGER NOT NULL, -- seconds since 1970; 0: not yet
	data  TEXT NOT NULL
) STRICT;
CREATE INDEX sandbox_state ON sandbox (state);
`}}
}

// stepRemove is the step of a sandbox that is being removed.
const stepRemove = "remove"

// A row is what is stored of a sandbox.
type row struct {
	info Info
	step string
}

// data is a row's JSON.
type data struct {
	Info
	Root string `json:"root,omitempty"`
}

func (r *row) encode() (string, error) {
	info := r.info
	info.Status, info.Busy = nil, ""
	text, err := json.Marshal(&data{info, r.info.root})
	if err != nil {
		return "", fmt.Errorf("write down sandbox %s: %w", info.ID, err)
	}
	return string(text), nil
}

// decode reads a row. What its columns say wins.
func decode(id, state, step string, ended int64, text []byte) (*row, error) {
	var d data
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("what is stored of sandbox %s cannot be read: %w", id, err)
	}
	r := &row{d.Info, step}
	r.info.ID, r.info.State, r.info.root, r.info.Status = id, state, d.Root, nil
	if state == Destroyed && r.info.Ended == nil {
		t := time.Unix(ended, 0).UTC()
		r.info.Ended = &t
	}
	return r, nil
}

// rows reads all rows for which a condition holds, the oldest first. One that cannot be read is
// told to the log and is as if it were not there.
func (m *Manager) rows(ctx context.Context, where string, args ...any) ([]*row, error) {
	db, err := m.database(ctx)
	if err != nil {
		return nil, err
	}
	var out []*row
	err = db.Read(ctx, func(tx *statedb.Tx) error {
		return tx.Each(ctx, func(scan func(...any) error) error {
			var id, state, step string
			var ended int64
			var text []byte
			if err := scan(&id, &state, &step, &ended, &text); err != nil {
				return err
			}
			r, err := decode(id, state, step, ended, text)
			if err != nil {
				m.log.WarnContext(ctx, "a row of a sandbox is damaged", "id", id, "err", err)
				r = &row{Info{ID: id, State: state, Error: err.Error()}, step}
			}
			out = append(out, r)
			return nil
		}, "SELECT id, state, step, ended, data FROM sandbox WHERE "+where+" ORDER BY n", args...)
	})
	return out, err
}

// row reads one; nil where there is none.
func (m *Manager) row(ctx context.Context, id string) (*row, error) {
	rows, err := m.rows(ctx, "id = ?", id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// insert adds rows, all or none.
func (m *Manager) insert(ctx context.Context, rows ...*row) error {
	return m.write(ctx, func(tx *statedb.Tx) error {
		for _, r := range rows {
			text, err := r.encode()
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO sandbox (id, state, step, ended, data) VALUES (?, ?, ?, 0, ?)",
				r.info.ID, r.info.State, r.step, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// update writes rows as they are now, all or none; whoever does has the sandboxes' locks.
func (m *Manager) update(ctx context.Context, rows ...*row) error {
	return m.write(ctx, func(tx *statedb.Tx) error {
		for _, r := range rows {
			text, err := r.encode()
			if err != nil {
				return err
			}
			var ended int64
			if r.info.Ended != nil {
				ended = r.info.Ended.Unix()
			}
			state := r.info.State
			if state == Paused { // the keeper knows that
				state = Ready
			}
			if _, err := tx.Exec(ctx, "UPDATE sandbox SET state = ?, step = ?, ended = ?, data = ? WHERE id = ?",
				state, r.step, ended, text, r.info.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// forget removes rows.
func (m *Manager) forget(ctx context.Context, ids []string) error {
	return m.write(ctx, func(tx *statedb.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec(ctx, "DELETE FROM sandbox WHERE id = ? AND state = 'destroyed'", id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Manager) write(ctx context.Context, do func(tx *statedb.Tx) error) error {
	db, err := m.database(ctx)
	if err != nil {
		return err
	}
	return db.Write(ctx, do)
}

// database opens the file when it is first needed.
func (m *Manager) database(ctx context.Context) (*statedb.DB, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if m.db != nil {
		return m.db, nil
	}
	err := m.withBallast(func() (err error) {
		m.db, err = statedb.Open(ctx, m.dbPath(), format())
		return err
	})
	if err != nil {
		m.db = nil
	}
	return m.db, err
}
