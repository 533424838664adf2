package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	defaultWait = 30 * time.Second
	firstPause  = 2 * time.Millisecond
	mostPause   = 100 * time.Millisecond
)

// errHeld is tryLock's error where somebody else has the lock.
var errHeld = errors.New("held by another command")

// A hold is a lock that is held. Its file is locked by the system, so that the lock ends with
// the program, however that ends, and goes when it is let go of.
type hold struct {
	file   *flock.Flock
	path   string
	shared bool
}

// release lets go. The file goes first: whoever locked it meanwhile sees that it is no longer
// there and begins again. Of those who share one, the last removes it.
func (h *hold) release() {
	if h.shared {
		_ = h.file.Unlock()
		if ok, err := h.file.TryLock(); !ok || err != nil || !current(h.file, h.path) {
			_ = h.file.Unlock()
			return
		}
	}
	_ = os.Remove(h.path)
	_ = h.file.Unlock()
}

// heldKey is the context's key of a lock that whoever has the context holds.
type heldKey struct{ path string }

func (m *Manager) lockPath(key string) string { return filepath.Join(m.opts.Dir, "locks", key) }

// lock takes the lock of a key for a step, and waits for who has it. What it returns lets go.
// Where ctx comes from With, which has it already, nothing is done.
func (m *Manager) lock(ctx context.Context, key, verb string) (release func(), err error) {
	return m.waitLock(ctx, key, verb, false)
}

// lockShared is lock for steps that may go on beside each other, but not beside lock's.
func (m *Manager) lockShared(ctx context.Context, key, verb string) (release func(), err error) {
	return m.waitLock(ctx, key, verb, true)
}

func (m *Manager) waitLock(ctx context.Context, key, verb string, shared bool) (release func(), err error) {
	if ctx.Value(heldKey{m.lockPath(key)}) != nil {
		return func() {}, nil
	}
	pause := firstPause
	for end := time.Now().Add(m.opts.Wait); ; {
		h, err := m.tryLock(key, verb, shared)
		if err == nil {
			return h.release, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, m.busy(key)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// tryLock takes a lock if nobody has it; else its error is errHeld.
func (m *Manager) tryLock(key, verb string, shared bool) (*hold, error) {
	path := m.lockPath(key)
	if filepath.Base(path) != key {
		return nil, fmt.Errorf("%q is no name of a lock", key)
	}
	for {
		f := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
		try := f.TryLock
		if shared {
			try = f.TryRLock
		}
		ok, err := try()
		if errors.Is(err, fs.ErrNotExist) { // the folder
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !ok {
			return nil, errHeld
		}
		if !current(f, path) { // who had it let go between opening and locking
			_ = f.Unlock()
			continue
		}
		// Without the words, the others only do not know who has it.
		_ = os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", os.Getpid(), verb), 0o600)
		return &hold{f, path, shared}, nil
	}
}

// current reports whether what was locked still lies there.
func current(f *flock.Flock, path string) bool {
	locked, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(locked, there)
}

// busy is the error of who waited in vain.
func (m *Manager) busy(key string) error {
	e := &Busy{What: keyText(key), Wait: m.opts.Wait}
	e.PID, e.Verb = m.holder(key)
	return e
}

// holder is what a lock's file says of who has it.
func (m *Manager) holder(key string) (pid int, verb string) {
	text, err := readBounded(m.lockPath(key), 256)
	if err != nil {
		return 0, ""
	}
	number, verb, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if pid, err = strconv.Atoi(number); err != nil || pid <= 0 || !isName(verb) {
		return 0, ""
	}
	return pid, verb
}

// busyWith is what somebody does who has a lock; "": nobody has it.
func (m *Manager) busyWith(key string) string {
	_, verb := m.holder(key)
	if verb == "" {
		return "" // most of the time there is no file
	}
	if h, err := m.tryLock(key, "look", true); err == nil { // it was left behind
		h.release()
		return ""
	}
	return verb
}

// Keys of locks: a sandbox's is its ID.
func snapshotKey(name string) string { return "snapshot-" + name }
func templateKey(name string) string { return "template-" + name }

func keyText(key string) string {
	for _, kind := range []string{"snapshot", "template"} {
		if name, ok := strings.CutPrefix(key, kind+"-"); ok {
			return kind + " " + name
		}
	}
	return "sandbox " + key
}

// With holds up other steps at a sandbox that lives while do runs, which may take steps itself with the
// context it is given. Calls go on beside it. The Box is let go of afterwards.
func (m *Manager) With(ctx context.Context, id, verb string, do func(ctx context.Context, box *Box) error) error {
	r, err := m.find(ctx, id)
	if err != nil {
		return err
	}
	release, err := m.lock(ctx, r.info.ID, verb)
	if err != nil {
		return err
	}
	defer release()
	box, err := m.open(ctx, r.info.ID)
	if err != nil {
		return err
	}
	defer func() { _ = box.Release() }()
	return do(context.WithValue(ctx, heldKey{m.lockPath(r.info.ID)}, true), box)
}
