package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

const (
	metaLock   = "store"
	rootPrefix = "root-"
)

// metaWait is how long one waits for the records: others hold them for moments.
const metaWait = 30 * time.Second

// lockMeta locks the records, references and holds, and what is in which folder under its last
// name. Whoever has it waits for no other lock.
func (s *Store) lockMeta(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, metaWait, fmt.Errorf("%w: its lock was not free for %s", ErrBusy, metaWait))
	defer cancel()
	return s.lock(ctx, metaLock, false)
}

// rootLock is the lock of an image's root file system: of its own while it is made or removed,
// shared while others are made from it.
func rootLock(id string) string { return rootPrefix + hexOf(id) }

// lock waits for a lock: a file that is locked while its holder's process lives, however it ends.
func (s *Store) lock(ctx context.Context, name string, shared bool) (unlock func(), err error) {
	wait := time.Millisecond
	for {
		unlock, ok, err := s.tryLock(name, shared)
		if err != nil || ok {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another command: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

// tryLock takes a lock if it is free.
func (s *Store) tryLock(name string, shared bool) (unlock func(), ok bool, err error) {
	path := s.path(lockFolder, name)
	f := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	try := f.TryLock
	if shared {
		try = f.TryRLock
	}
	if ok, err = try(); err != nil || !ok {
		return nil, false, errors.Join(err, f.Close())
	}
	// Prune removes lock files. One that was removed between its opening and its locking
	// keeps nobody out.
	mine, err := f.Stat()
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, true, nil
}
