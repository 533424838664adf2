package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"airlock/internal/statedb"
)

// A Report is what Verify found in a record that is whole.
type Report struct {
	Rows    int64     `json:"rows"`
	First   time.Time `json:"first,omitzero"` // of the first and the last row; zero where there is none
	Last    time.Time `json:"last,omitzero"`
	Seq     int64     `json:"seq"`     // of the last row that was ever written
	Hash    Hash      `json:"hash"`    // its hash, which stands for the whole record
	Removed int64     `json:"removed"` // rows that were removed for their age or for room
}

// A TamperError is a record that is not what airlock wrote.
type TamperError struct {
	Seq  int64  // the first row that is wrong, or is missing; 0: it is not in the rows
	What string // what is wrong with it
}

func (e *TamperError) Error() string {
	if e.Seq == 0 {
		return "the record was changed: " + e.What
	}
	return fmt.Sprintf("the record was changed at row %d: %s", e.Seq, e.What)
}

// Verify checks the whole chain as it stands now. A record that is not what was written
// is a *TamperError, which names the first row that is wrong.
func (l *Log) Verify(ctx context.Context) (Report, error) {
	v := &verifier{}
	err := l.db.Read(ctx, func(tx *statedb.Tx) error { return v.run(ctx, tx) })
	return v.rep, err
}

type verifier struct {
	head ends
	rep  Report

	seq    int64 // of the row before
	hash   Hash  // and its hash
	pruned prunedData
}

// ends are the record's, as its table chain has them.
type ends struct {
	headSeq, tailSeq   int64
	headHash, tailHash Hash
}

func readEnds(ctx context.Context, tx *statedb.Tx) (ends, error) {
	var e ends
	var head, tail []byte
	err := tx.Row(ctx, []any{&e.headSeq, &head, &e.tailSeq, &tail}, "SELECT head_seq, head_hash, tail_seq, tail_hash FROM chain")
	if errors.Is(err, sql.ErrNoRows) {
		return e, &TamperError{0, "the note of where it begins and ends is gone"}
	}
	if err != nil {
		return e, err
	}
	var badHead, badTail bool
	e.headHash, badHead = asHash(head)
	e.tailHash, badTail = asHash(tail)
	if badHead || badTail || e.headSeq < e.tailSeq || e.tailSeq < 0 {
		return e, &TamperError{0, "the note of where it begins and ends was edited"}
	}
	return e, nil
}

func (v *verifier) run(ctx context.Context, tx *statedb.Tx) (err error) {
	if v.head, err = readEnds(ctx, tx); err != nil {
		return err
	}
	v.seq, v.hash = v.head.tailSeq, v.head.tailHash
	err = tx.Each(ctx, func(scan func(dest ...any) error) error {
		var s stored
		if err := s.scan(scan); err != nil {
			return err
		}
		return v.row(&s)
	}, "SELECT "+columns+" FROM record ORDER BY seq")
	if err != nil {
		return err
	}
	return v.end()
}

// row checks the next row.
func (v *verifier) row(s *stored) error {
	want := v.seq + 1
	switch {
	case s.seq < want:
		return &TamperError{s.seq, "it was inserted before the record's first row"}
	case s.seq > v.head.headSeq:
		return &TamperError{s.seq, fmt.Sprintf("it was added behind the record's last row, %d", v.head.headSeq)}
	case s.badHash || s.badPrev:
		return &TamperError{s.seq, "it was edited: its hash is no hash"}
	case s.sum() != s.hash:
		return v.explainSum(s, want)
	case s.seq > want:
		return &TamperError{want, removed(want, s.seq-1)}
	case s.prev != v.hash:
		return &TamperError{s.seq, "it does not follow the row before: that one was replaced, or this one inserted"}
	}
	r := s.row()
	if v.rep.Rows == 0 {
		v.rep.First = r.Time
	}
	v.rep.Rows++
	v.rep.Last = r.Time
	v.seq, v.hash = s.seq, s.hash
	if s.kind == kindPruned {
		v.pruned = prunedData{}
		if json.Unmarshal(r.Data, &v.pruned) != nil {
			return &TamperError{s.seq, "it does not say what was removed"}
		}
	}
	return nil
}

// explainSum says what happened to a row that does not have its hash: it may be another one
// in this one's place.
func (v *verifier) explainSum(s *stored, want int64) error {
	was := *s
	for was.seq = v.head.tailSeq + 1; was.seq <= v.head.headSeq; was.seq++ {
		if was.seq != s.seq && was.sum() == s.hash {
			return &TamperError{s.seq, fmt.Sprintf("what stands there was row %d: rows were reordered, removed or inserted", was.seq)}
		}
	}
	if s.seq > want {
		return &TamperError{want, removed(want, s.seq-1) + ", and the next one was edited"}
	}
	return &TamperError{s.seq, "it was edited, or put in: its content does not have its hash"}
}

func removed(from, to int64) string {
	if from == to {
		return "it was removed"
	}
	return fmt.Sprintf("rows %d to %d were removed", from, to)
}

// end checks what the rows alone do not show.
func (v *verifier) end() error {
	switch {
	case v.seq < v.head.headSeq:
		return &TamperError{v.seq + 1, removed(v.seq+1, v.head.headSeq) + " from the record's end"}
	case v.hash != v.head.headHash:
		return &TamperError{v.seq, "it was replaced: the record's last row had another hash"}
	case v.pruned.Through != v.head.tailSeq || v.pruned.Through > 0 && v.pruned.Hash != v.head.tailHash.String():
		return &TamperError{v.head.tailSeq, "the rows up to this one were removed, and not by airlock"}
	}
	v.rep.Seq, v.rep.Hash, v.rep.Removed = v.head.headSeq, v.head.headHash, v.head.tailSeq
	return nil
}
