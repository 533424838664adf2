package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"unicode/utf8"
)

// A writer adds rows over a connection of its own. It is used by one goroutine at a time.
type writer struct {
	conn                *sql.Conn
	head, insert, moved *sql.Stmt
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn}
	if err := prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	for _, s := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&w.head, "SELECT head_seq, head_hash FROM chain"},
		{&w.insert, "INSERT INTO record (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{&w.moved, "UPDATE chain SET head_seq = ?, head_hash = ?"},
	} {
		if *s.stmt, err = conn.PrepareContext(ctx, s.query); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *writer) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{w.head, w.insert, w.moved} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// add appends rows to the chain within a transaction.
func (w *writer) add(ctx context.Context, entries []*entry) error {
	var seq int64
	var last []byte
	if err := w.head.QueryRowContext(ctx).Scan(&seq, &last); err != nil {
		return fmt.Errorf("find its last row: %w", err)
	}
	hash, bad := asHash(last)
	if bad {
		return errors.New("its last row's hash is no hash: somebody edited it")
	}
	for _, e := range entries {
		s := &e.stored
		seq++
		s.seq, s.prev = seq, hash
		hash = s.sum()
		s.hash = hash
		if _, err := w.insert.ExecContext(ctx, s.seq, s.time, s.kind, s.id, s.user, s.uid, s.pid, s.data, s.prev[:], s.hash[:]); err != nil {
			return fmt.Errorf("add row %d: %w", s.seq, err)
		}
	}
	if _, err := w.moved.ExecContext(ctx, seq, hash[:]); err != nil {
		return fmt.Errorf("name its last row: %w", err)
	}
	return nil
}

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
	// One caller's end must not be that of the others. What bounds it is busyTime.
	ctx = context.WithoutCancel(ctx)
	l.mu.Lock()
	n := min(len(l.queue), batch)
	taken := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.mu.Unlock()
	if n == 0 {
		return
	}
	err := l.inPlace()
	if err == nil {
		err = explain(l.path, inTransaction(ctx, l.write.conn, func() error { return l.write.add(ctx, taken) }))
	}
	for _, e := range taken {
		e.done <- err
	}
	if err == nil && taken[0].seq/pruneEvery != (taken[n-1].seq+1)/pruneEvery {
		l.prune(ctx)
	}
}

// inPlace finds that the record was moved away, deleted or replaced since it was opened:
// rows would go into a file that nobody finds again.
func (l *Log) inPlace() error {
	st, err := os.Lstat(l.path)
	if err == nil && !os.SameFile(st, l.file) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return &FileError{l.path, err, "it was taken away or replaced while airlock used it: run the command again"}
	}
	return nil
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
