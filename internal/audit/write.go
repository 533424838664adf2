package audit

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"airlock/internal/statedb"
)

// add appends rows to the chain within a transaction.
func (l *Log) add(ctx context.Context, tx *statedb.Tx, entries []*entry) error {
	var seq int64
	var last []byte
	if err := tx.Row(ctx, []any{&seq, &last}, "SELECT head_seq, head_hash FROM chain"); err != nil {
		return fmt.Errorf("find the last row of the record %s: %w", l.Path(), err)
	}
	hash, bad := asHash(last)
	if bad {
		return fmt.Errorf("the record %s: its last row's hash is no hash: somebody edited it", l.Path())
	}
	for _, e := range entries {
		s := &e.stored
		seq++
		s.seq, s.prev = seq, hash
		hash = s.sum()
		s.hash = hash
		if _, err := tx.Exec(ctx, insert, s.seq, s.time, s.kind, s.id, s.user, s.uid, s.pid, s.data, s.prev[:], s.hash[:]); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "UPDATE chain SET head_seq = ?, head_hash = ?", seq, hash[:])
	return err
}

const insert = "INSERT INTO record (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

// An entry is a row that is to be written.
type entry struct {
	stored
	done chan error // takes one error, or nil once the row is durable
}

// Bounds of what callers give.
const (
	maxKind = 64
	maxID   = 256
)

// Record adds a row and returns once it is on the disk. data is what json.Marshal makes of
// it, without secrets and bounded. id says what the row belongs to: all rows of a run, a
// plan or a change set have that one's. Where ctx ends while the row waits for its turn, it
// is not written, and the error is ctx's.
//
// Several calls at once share a transaction. An error means that what was to be recorded
// must not be done.
func (l *Log) Record(ctx context.Context, kind, id string, data any) error {
	wait, err := l.Queue(kind, id, data)
	if err != nil {
		return err
	}
	return wait(ctx)
}

// Queue puts a row behind those that wait to be written: the next one that is waited for
// takes it along, in the same transaction. The row is on the disk when wait says so, which
// may be called once, and is Record's second half. A row that nobody waits for, nor for a
// later one, is lost with the process.
func (l *Log) Queue(kind, id string, data any) (wait func(context.Context) error, err error) {
	e, err := l.enqueue(kind, id, data)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return l.wait(ctx, e) }, nil
}

func (l *Log) enqueue(kind, id string, data any) (*entry, error) {
	switch {
	case kind == "" || len(kind) > maxKind || !utf8.ValidString(kind):
		return nil, fmt.Errorf("record: a kind has 1 to %d bytes of text, not %d", maxKind, len(kind))
	case kind == kindPruned:
		return nil, fmt.Errorf("record: rows of kind %s are the record's own", kind)
	case len(id) > maxID || !utf8.ValidString(id):
		return nil, fmt.Errorf("record: an ID has at most %d bytes of text, not %d", maxID, len(id))
	}
	text, err := encode(data)
	if err != nil {
		return nil, fmt.Errorf("record %s %s: %w", kind, id, err)
	}
	e := &entry{stored: l.stamp(kind, id, text), done: make(chan error, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	l.queue = append(l.queue, e)
	return e, nil
}

// wait returns when an entry is written; whoever finds nobody else at it writes it.
func (l *Log) wait(ctx context.Context, e *entry) (err error) {
	select {
	case err = <-e.done:
	case l.lead <- struct{}{}:
		for len(e.done) == 0 { // it is in the queue, or a leader before has written it
			l.commit(ctx)
		}
		<-l.lead
		err = <-e.done
	case <-ctx.Done():
		if l.withdraw(e) {
			return ctx.Err()
		}
		err = <-e.done // it is being written
	}
	return err
}

// withdraw takes an entry out of the queue, unless a leader has taken it already.
func (l *Log) withdraw(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, e)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}

// stamp makes a row, without its place in the chain.
func (l *Log) stamp(kind, id, data string) stored {
	return stored{
		time: l.opts.Now().UTC().Format(timeForm), kind: kind, id: id,
		user: l.who.user, uid: l.who.uid, pid: l.who.pid, data: data,
	}
}

// batch is how many rows a transaction takes at most.
const batch = 256

// commit writes those that have waited longest. The caller is the leader.
func (l *Log) commit(ctx context.Context) {
	// One caller's end must not be that of the others. What bounds it is the format's wait.
	ctx = context.WithoutCancel(ctx)
	l.mu.Lock()
	n := min(len(l.queue), batch)
	taken := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.mu.Unlock()
	if n == 0 {
		return
	}
	err := l.db.Write(ctx, func(tx *statedb.Tx) error { return l.add(ctx, tx, taken) })
	for _, e := range taken {
		e.done <- err
	}
	if err == nil && taken[0].seq/pruneEvery != (taken[n-1].seq+1)/pruneEvery {
		l.prune(ctx)
	}
}

// fail ends all that wait.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.queue {
		e.done <- err
	}
	l.queue = nil
}
