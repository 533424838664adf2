package audit

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"airlock/internal/statedb"
)

// A Filter says which rows are wanted. The zero filter is all of them.
type Filter struct {
	Since, Until time.Time // Since ≤ a row's time < Until; zero: no bound
	Kinds        []string  // one of these; none: any
	ID           string    // the row's ID begins with this
	Limit        int       // at most so many, the last ones; 0: no bound
}

// where is the filter as a condition, with its values.
func (f *Filter) where() (string, []any) {
	conds, args := []string{"seq > ?", "seq <= ?"}, []any(nil)
	add := func(cond string, values ...any) {
		conds = append(conds, cond)
		args = append(args, values...)
	}
	if !f.Since.IsZero() {
		add("time >= ?", f.Since.UTC().Format(timeForm))
	}
	if !f.Until.IsZero() {
		add("time < ?", f.Until.UTC().Format(timeForm))
	}
	if len(f.Kinds) > 0 {
		values := make([]any, len(f.Kinds))
		for i, kind := range f.Kinds {
			values[i] = kind
		}
		add("kind IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	if f.ID != "" {
		add("id >= ?", f.ID)
		if after := successor(f.ID); after != "" {
			add("id < ?", after)
		}
	}
	return strings.Join(conds, " AND "), args
}

// successor is the least text that is greater than all that begin with this one; "" where
// there is none.
func successor(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) > 0 {
		b[len(b)-1]++
	}
	return string(b)
}

// page is how many rows are read at once: what reads them may be slow, and must not keep
// the database from tidying up meanwhile.
const page = 64

// Query hands the rows that a filter lets through to a function, in the order in which
// they were written, up to the last one that there is when it is called. An error of the
// function ends it and is returned.
func (l *Log) Query(ctx context.Context, f Filter, each func(Row) error) error {
	_, err := l.query(ctx, f, 0, each)
	return err
}

// query is Query behind a row, and gives the last row that there was.
func (l *Log) query(ctx context.Context, f Filter, after int64, each func(Row) error) (int64, error) {
	var e ends
	var from int64
	err := l.db.Read(ctx, func(tx *statedb.Tx) (err error) {
		if e, err = readEnds(ctx, tx); err == nil {
			from, err = first(ctx, tx, &f, after, e.headSeq)
		}
		return err
	})
	if err != nil {
		return after, err
	}
	for from < e.headSeq {
		rows, err := l.page(ctx, &f, from, e.headSeq)
		if err != nil {
			return after, err
		}
		for _, r := range rows {
			if err := each(r); err != nil {
				return after, err
			}
		}
		if len(rows) < page {
			break
		}
		from = rows[len(rows)-1].Seq
	}
	return max(after, e.headSeq), nil
}

// first is the row behind which those begin that are wanted.
func first(ctx context.Context, tx *statedb.Tx, f *Filter, after, last int64) (int64, error) {
	if !f.Since.IsZero() {
		var seq sql.NullInt64
		err := tx.Row(ctx, []any{&seq}, "SELECT min(seq) FROM record WHERE time >= ?", f.Since.UTC().Format(timeForm))
		if err != nil {
			return 0, err
		}
		if !seq.Valid {
			return last, nil
		}
		after = max(after, seq.Int64-1)
	}
	if f.Limit <= 0 {
		return after, nil
	}
	where, args := f.where()
	args = append([]any{after, last}, append(args, f.Limit)...)
	var seq sql.NullInt64
	err := tx.Row(ctx, []any{&seq}, "SELECT min(seq) FROM (SELECT seq FROM record WHERE "+where+" ORDER BY seq DESC LIMIT ?)", args...)
	if err != nil || !seq.Valid {
		return last, err
	}
	return seq.Int64 - 1, nil
}

// page reads the next rows behind one, up to last.
func (l *Log) page(ctx context.Context, f *Filter, after, last int64) (out []Row, err error) {
	where, args := f.where()
	args = append([]any{after, last}, append(args, page)...)
	err = l.db.Read(ctx, func(tx *statedb.Tx) error {
		return tx.Each(ctx, func(scan func(dest ...any) error) error {
			var s stored
			err := s.scan(scan)
			out = append(out, s.row())
			return err
		}, "SELECT "+columns+" FROM record WHERE "+where+" ORDER BY seq LIMIT ?", args...)
	})
	return out, err
}

// pollTime is how often Follow looks for new rows.
const pollTime = 200 * time.Millisecond

// Follow is Query, and goes on with the rows that are written after it, whoever writes
// them, until ctx ends, which is no error, or the function gives one.
func (l *Log) Follow(ctx context.Context, f Filter, each func(Row) error) error {
	last, err := l.query(ctx, f, 0, each)
	f.Limit = 0
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			last, err = l.query(ctx, f, last, each)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// IDs lists the IDs that begin with a prefix, at most so many, in order.
func (l *Log) IDs(ctx context.Context, prefix string, most int) (out []string, err error) {
	f := Filter{ID: prefix}
	where, args := f.where()
	args = append([]any{0, int64(1)<<62 - 1}, append(args, most)...)
	err = l.db.Read(ctx, func(tx *statedb.Tx) error {
		return tx.Each(ctx, func(scan func(dest ...any) error) error {
			var id string
			err := scan(&id)
			out = append(out, id)
			return err
		}, "SELECT DISTINCT id FROM record WHERE "+where+" AND id <> '' ORDER BY id LIMIT ?", args...)
	})
	return out, err
}
