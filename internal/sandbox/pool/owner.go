package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"airlock/internal/sandbox"
)

// Label marks the sandboxes that wait in a pool, for whoever keeps a list of them; its value is
// the Owner's name. Make sets it, and who takes one takes it off. One that has it, and whose owner does not
// live, belongs to nobody and is to be ended.
const Label = "airlock.pool"

// An Owner is a program that has a pool, as others see it: a file that is locked for as long as the
// program runs, however it ends.
type Owner struct {
	name string
	lock *flock.Flock
}

// NewOwner makes this program an owner, known below dir, which is the person's own.
func NewOwner(dir string) (*Owner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("own a pool: %w", err)
	}
	o := &Owner{name: sandbox.NewID()}
	o.lock = flock.New(ownerFile(dir, o.name), flock.SetPermissions(0o600))
	ok, err := o.lock.TryLock()
	if err == nil && !ok {
		err = errors.New("another has locked it")
	}
	if err != nil {
		return nil, fmt.Errorf("own a pool: lock %s: %w", o.lock.Path(), err)
	}
	return o, nil
}

func ownerFile(dir, name string) string { return filepath.Join(dir, "pool-"+name) }

// Name is the value of Label on the sandboxes of this owner's pools.
func (o *Owner) Name() string { return o.name }

// Close ends the ownership: after the pools were closed.
func (o *Owner) Close() error {
	return errors.Join(os.Remove(o.lock.Path()), o.lock.Close())
}

// Lives reports whether the owner of that name runs. What is no name of an owner has none. Where it cannot be known
// it is an error, and the sandbox is to be left alone.
func Lives(dir, name string) (bool, error) {
	if !sandbox.ValidID(name) {
		return false, nil
	}
	path := ownerFile(dir, name)
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err != nil {
		return false, fmt.Errorf("look for the owner of a pool: %s: %w", path, err)
	}
	lock := flock.New(path, flock.SetPermissions(0o600))
	free, err := lock.TryLock()
	if err != nil {
		return false, fmt.Errorf("look for the owner of a pool: lock %s: %w", path, err)
	}
	if !free {
		return true, nil
	}
	// It has ended without a word. A name is never used twice, so that nobody else can have it by now.
	if err := errors.Join(os.Remove(path), lock.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("forget the owner of a pool: %w", err)
	}
	return false, nil
}
