package changes

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// commitLock keeps commits and undos of different sets apart. It is not the store's own
// lock, which is held for moments only.
const commitLock = "commit.lock"

// Commit lets changes of the set out to the host. Either all that was chosen is done or
// nothing is: everything is checked before anything is touched, every replaced or
// deleted object is kept for Undo, and an error on the way puts everything back
// (ErrRolledBack). After a crash, or where even putting back failed, the set is
// Interrupted: the next Commit of it first finishes what was begun, Undo rolls it back.
//
// A set of which some changes were committed stays Kept; a later Commit does the rest.
// It becomes Committed when nothing of scope Work remains.
//
// The errors are *ConflictError, ErrNoMatch and ErrRefused for a named path, ErrBusy,
// ErrNotFound, ErrState, ErrInterrupted when another set is, fs.ErrPermission for all
// that the user has no right to change, and those of the file system.
func (s *Store) Commit(ctx context.Context, id string, opts *CommitOptions) (*CommitReport, error) {
	o := CommitOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Force && len(o.Paths) == 0 {
		return nil, fmt.Errorf("commit %s: force needs the paths that it is for: %w", id, ErrNoMatch)
	}
	m, err := s.open(ctx, id, o.Root, o.test)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.set.State == Discarded {
		return nil, fmt.Errorf("commit change set %s, which is discarded: %w", m.id, ErrState)
	}
	var before *CommitReport
	if m.pending != nil {
		if o.DryRun {
			return nil, fmt.Errorf("commit change set %s: %w", m.id, ErrInterrupted)
		}
		if before, err = m.goOn(ctx, o.Force); err != nil {
			return nil, err
		}
		if before != nil && before.Remaining == 0 && len(o.Paths) == 0 {
			return before, nil
		}
	}
	r, err := m.commit(ctx, &o)
	if err == nil && before != nil {
		r.Committed = append(before.Committed, r.Committed...)
		r.Notes = append(before.Notes, r.Notes...)
	}
	return r, err
}

// Recover finishes a commit or undo that was interrupted, and does nothing where none
// was. Forward is the way, because that is what a person asked for; a conflict or an
// error on it puts back the state from before. Undo goes back instead.
func (s *Store) Recover(ctx context.Context, id string, opts *CommitOptions) (*CommitReport, error) {
	o := CommitOptions{}
	if opts != nil {
		o = *opts
	}
	m, err := s.open(ctx, id, o.Root, o.test)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.pending == nil {
		return m.report(nil, nil), nil
	}
	r, err := m.goOn(ctx, o.Force)
	if err == nil && r == nil {
		r = m.report(nil, nil)
	}
	return r, err
}

// Interrupted lists the sets whose commit or undo was not finished, or whose journal
// cannot be read.
func (s *Store) Interrupted() ([]string, error) { return s.interrupted("") }

// interrupted is Interrupted without the set except.
func (s *Store) interrupted(except string) ([]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	var out []string
	for _, id := range ids {
		if id == except {
			continue
		}
		nums, err := journalNums(s.Dir(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil || len(nums) > 0 && !endsClosed(filepath.Join(s.Dir(id), journalName(nums[len(nums)-1]))) {
			out = append(out, id)
		}
	}
	return out, nil
}

// endsClosed reads the end of a journal alone, which is all that is needed of the many.
func endsClosed(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	tail := make([]byte, min(info.Size(), 1<<10))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil || len(tail) == 0 || tail[len(tail)-1] != '\n' {
		return false
	}
	tail = tail[:len(tail)-1]
	r, err := decodeLine(tail[bytes.LastIndexByte(tail, '\n')+1:])
	return err == nil && r.Type == recClosed
}

// journalNums lists the numbers of a set's journals, in order.
func journalNums(dir string) ([]int, error) {
	names, err := readNames(dir)
	if err != nil {
		return nil, fmt.Errorf("read the journals: %w", err)
	}
	var nums []int
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "journal-"); ok {
			if n, err := strconv.Atoi(rest); err == nil && n > 0 && journalName(n) == name {
				nums = append(nums, n)
			}
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// A committer is one set under its lock, with its journals read.
type committer struct {
	store   *Store
	id      string
	dir     string
	rootDir string
	set     *heldSet
	entries []*journal // finished ones, by number
	pending *journal   // the one that is not, or nil
	test    testHooks
	unlock  []func()
}

func (s *Store) open(ctx context.Context, id, root string, test testHooks) (*committer, error) {
	if err := hostWorks(); err != nil {
		return nil, err
	}
	id, err := s.Resolve(id)
	if err != nil {
		return nil, err
	}
	if root == "" {
		root = "/"
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if test.step == nil {
		test.step = func(string) {}
	}
	m := &committer{store: s, id: id, dir: s.Dir(id), rootDir: root, test: test}
	if err := m.lock(ctx); err != nil {
		m.close()
		return nil, err
	}
	if m.set, err = s.hold(id); err == nil {
		m.entries, m.pending, err = readEntries(m.dir)
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// lock takes the set's lock, then the one that keeps all commits of the store apart,
// for which it waits: another set's commit is a matter of seconds.
func (m *committer) lock(ctx context.Context) error {
	lock := m.store.Lock
	if h, err := m.store.readHeader(m.id); err == nil && h.Live {
		lock = func(id string) (func(), error) { return m.store.lockWaiting(ctx, id, liveWait) }
	}
	unlock, err := lock(m.id)
	if err != nil {
		return err
	}
	m.unlock = append(m.unlock, unlock)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l := flock.New(filepath.Join(m.store.dir, commitLock), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("another change set is being committed: %w: %w", ErrBusy, err)
	}
	m.unlock = append(m.unlock, func() { _ = l.Close() })
	return nil
}

func (m *committer) close() {
	for _, u := range slices.Backward(m.unlock) {
		u()
	}
}

// readEntries reads the set's journals: the finished ones, and one that is not.
func readEntries(dir string) (done []*journal, pending *journal, err error) {
	nums, err := journalNums(dir)
	if err != nil {
		return nil, nil, err
	}
	for k, n := range nums {
		f, err := os.Open(filepath.Join(dir, journalName(n)))
		if err != nil {
			return nil, nil, fmt.Errorf("read the journals: %w", err)
		}
		j, err := readJournal(f)
		_ = f.Close() // only read
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w; what it replaced is in %s", f.Name(), err, filepath.Join(dir, "backup", strconv.Itoa(n)))
		}
		j.num = n
		switch {
		case j.phase == recClosed:
			done = append(done, j)
		case k == len(nums)-1:
			pending = j
		default:
			return nil, nil, fmt.Errorf("%s: %w: it is not finished, and others follow it", f.Name(), ErrJournal)
		}
	}
	return done, pending, nil
}

// executor makes one for j.
func (m *committer) executor(j *journal) (*executor, error) {
	host, err := openHost(j.entry.Root)
	if err != nil {
		return nil, err
	}
	set, err := openHost(m.dir)
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	return &executor{
		store: m.store, id: m.id, dir: m.dir, host: host, set: set, j: j,
		step: m.test.step, plain: m.test.plain, root: os.Geteuid() == 0,
	}, nil
}

// entry makes the journal of a new entry.
func (m *committer) entry(kind string) *journal {
	num := 1
	if len(m.entries) > 0 {
		num = m.entries[len(m.entries)-1].num + 1
	}
	return &journal{
		num: num, after: make(map[int]*Node),
		entry: entry{Kind: kind, Root: m.rootDir, Token: strings.ToLower(rand.Text()[:12]), Time: time.Now().UTC()},
	}
}
