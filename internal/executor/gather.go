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
	opts := &changes.ReadOptions{
		Started: sb.Started(), Hidden: hidden, IDs: r.ids(),
	}
	if len(r.Homes) > 0 {
		opts.Home = changes.Path(r.Homes[0])
	}
	if err := r.read(ctx, sb, w, opts); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	set, err := w.Finish()
	if err != nil {
		return nil, fmt.Errorf("keep what was changed: %w", err)
	}
	return set, nil
}

func (r *Runner) read(ctx context.Context, sb sandbox.Sandbox, w *changes.Writer, opts *changes.ReadOptions) error {
	pr, pw := io.Pipe()
	upper := make(chan error, 1)
	go func() {
		err := sb.Upper(ctx, pw)
		pw.CloseWithError(err)
		upper <- err
	}()
	readErr := changes.Read(ctx, pr, w, opts)
	pr.CloseWithError(readErr)
	upperErr := <-upper
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
