package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"airlock/internal/statedb"
)

// kindPruned is the kind of the row that says which rows were removed. It is part of the
// chain: who removes rows without it is found out.
const kindPruned = "pruned"

// prunedData is its data.
type prunedData struct {
	Rows    int64  `json:"rows"`
	Through int64  `json:"through"` // the last row that was removed, ever
	Hash    string `json:"hash"`    // of that row
	Why     string `json:"why"`     // "age" or "size"
}

const (
	// pruneEvery is after how many rows of a record, whoever writes them, its bounds are
	// looked at.
	pruneEvery = 256
	// pruneMost is how many rows are removed at once.
	pruneMost = 20_000
	// keepLast is how many rows stay whatever their age: a clock that is wrong for once
	// must not empty the record.
	keepLast = 1000
)

// prune removes what is too old or too much. What it cannot do now, a later call does:
// nobody waits for it, and a record that is too large is still a record.
func (l *Log) prune(ctx context.Context) {
	_ = l.db.Write(ctx, func(tx *statedb.Tx) error { return l.pruneIn(ctx, tx) })
}

// pruneIn removes rows from the record's beginning.
func (l *Log) pruneIn(ctx context.Context, tx *statedb.Tx) error {
	e, err := readEnds(ctx, tx)
	if err != nil {
		return err
	}
	old, err := l.tooOld(ctx, tx, e)
	if err != nil {
		return err
	}
	much, err := l.tooMuch(ctx, tx, e)
	if err != nil {
		return err
	}
	through, why := old, "age"
	if much > old {
		through, why = much, "size"
	}
	through = min(through, e.tailSeq+pruneMost)
	if through <= e.tailSeq {
		return nil
	}
	var last []byte
	if err := tx.Row(ctx, []any{&last}, "SELECT hash FROM record WHERE seq = ?", through); err != nil {
		return fmt.Errorf("find row %d: %w", through, err)
	}
	hash, bad := asHash(last)
	if bad {
		return errors.New("a row's hash is no hash")
	}
	// The trigger lets rows go that lie before the record's beginning.
	if _, err := tx.Exec(ctx, "UPDATE chain SET tail_seq = ?, tail_hash = ?", through, hash[:]); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM record WHERE seq <= ?", through); err != nil {
		return err
	}
	data, err := json.Marshal(prunedData{through - e.tailSeq, through, hash.String(), why})
	if err != nil {
		return err
	}
	return l.add(ctx, tx, []*entry{{stored: l.stamp(kindPruned, "", string(data))}})
}

// tooOld is the last row of those at the beginning that are too old.
func (l *Log) tooOld(ctx context.Context, tx *statedb.Tx, e ends) (int64, error) {
	if l.opts.MaxAge < 0 {
		return 0, nil
	}
	var first int64
	err := tx.Row(ctx, []any{&first}, "SELECT seq FROM record WHERE time >= ? ORDER BY seq LIMIT 1",
		l.opts.Now().UTC().Add(-l.opts.MaxAge).Format(timeForm))
	if errors.Is(err, sql.ErrNoRows) {
		first, err = e.headSeq+1, nil
	}
	return min(first-1, e.headSeq-keepLast), err
}

// tooMuch is the last row of those that must go for the others to have room.
func (l *Log) tooMuch(ctx context.Context, tx *statedb.Tx, e ends) (int64, error) {
	if l.opts.MaxBytes < 0 {
		return 0, nil
	}
	var used int64
	err := tx.Row(ctx, []any{&used}, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
	if err != nil || used <= l.opts.MaxBytes {
		return 0, err
	}
	// A tenth more than must be, so that it is not every time; rows of one size are assumed.
	rows := e.headSeq - e.tailSeq
	share := 1 - 0.9*float64(l.opts.MaxBytes)/float64(used)
	return e.tailSeq + min(rows-1, int64(share*float64(rows))+1), nil
}
