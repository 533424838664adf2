package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"airlock/internal/changes"
	"airlock/internal/sandbox"
)

// gather reads the sandbox's upper layer into a change set, and begins to end the
// sandbox as soon as that is read.
func (r *Runner) gather(ctx context.Context, sb sandbox.Sandbox, header changes.Header, hidden []string) (*changes.Set, error) {
	store, err := r.Store()
	if err != nil {
		return nil, err
	}
	header.ID, header.Created, header.UID = sb.ID(), time.Now(), r.UID
	w, err := store.Create(header)
	if err != nil {
		return nil, err
	}
	if err := readInto(ctx, sb.Upper, w, r.readOptions(sb.Started(), hidden)); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	go func() { _ = sb.Close() }() // whoever closes it after us waits for this, and has its error
	set, err := w.Finish()
	if err != nil {
		return nil, fmt.Errorf("keep what was changed: %w", err)
	}
	return set, nil
}

func (r *Runner) readOptions(started time.Time, hidden []string) *changes.ReadOptions {
	opts := &changes.ReadOptions{Started: started, Hidden: hidden, IDs: r.ids()}
	if len(r.Homes) > 0 {
		opts.Home = changes.Path(r.Homes[0])
	}
	return opts
}

// readInto reads the upper layer that upper writes. It streams, so that a sandbox is
// frozen for no longer than its layer takes to be read.
func readInto(ctx context.Context, upper func(context.Context, io.Writer) error, w *changes.Writer, opts *changes.ReadOptions) error {
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := upper(ctx, pw)
		pw.CloseWithError(err)
		written <- err
	}()
	readErr := changes.Read(ctx, pr, w, opts)
	pr.CloseWithError(readErr)
	upperErr := <-written
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case readErr != nil:
		return readErr
	default:
		return upperErr
	}
}

// overflow is the owner that a sandbox shows for every one it does not know, and
// nobodyElse one that it never shows.
const (
	overflow   = 65534
	nobodyElse = math.MaxUint32 - 1
)

// ids are the owners that mean the same inside and outside: all for root, who can map
// them, and only its own for an ordinary user. A user whose ID is the overflow's cannot be
// told from the unknown: what was there keeps its owner then, and what is new is the user's.
func (r *Runner) ids() *changes.IDMap {
	if r.UID == 0 {
		return nil
	}
	own := func(id uint32) []changes.IDRange {
		inside := id
		if id == overflow {
			inside = nobodyElse
		}
		return []changes.IDRange{{Sandbox: inside, Host: id, Count: 1}}
	}
	return &changes.IDMap{UIDs: own(r.UID), GIDs: own(r.GID)}
}
