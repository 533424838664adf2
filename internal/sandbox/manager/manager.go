// Package manager keeps sandboxes that last: it makes, finds, forks, saves and ends them for any
// number of programs at once, without one that runs all the time. What it knows of them is in
// sandboxes.db below the state folder; what runs is asked of the driver, and where the two
// differ after a crash, whoever comes next puts that right. It knows neither drivers nor images nor the
// network's gate: they come in Options.
package manager

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"airlock/internal/statedb"
)

// A Manager keeps sandboxes. It is safe for concurrent use, and other processes may have one on
// the same folder.
type Manager struct {
	opts Options
	log  *slog.Logger
	turn chan struct{} // held by who makes a sandbox

	lighter atomic.Bool // the ballast is gone

	mu     sync.Mutex
	db     *statedb.DB // nil: not yet
	closed bool
}

var errClosed = errors.New("the manager of sandboxes is closed")

const (
	defaultSnapshots = 64
	defaultBytes     = 32 << 30
)

// New gives a Manager. Nothing is opened or made before it is first used.
func New(opts *Options) *Manager {
	m := &Manager{opts: *opts, log: opts.Logger}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.opts.Wait == 0 {
		m.opts.Wait = defaultWait
	}
	if m.opts.MaxSnapshots == 0 {
		m.opts.MaxSnapshots = defaultSnapshots
	}
	if m.opts.MaxBytes == 0 {
		m.opts.MaxBytes = defaultBytes
	}
	if m.opts.Parallel == 0 {
		m.opts.Parallel = max(4, 2*runtime.NumCPU())
	}
	m.turn = make(chan struct{}, m.opts.Parallel)
	return m
}

// Close lets go of everything. The sandboxes go on. It may be called twice.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.db == nil {
		return nil
	}
	err := m.db.Close()
	m.db = nil
	if m.lighter.Load() {
		m.keepBallast()
	}
	return err
}

func (m *Manager) dbPath() string           { return filepath.Join(m.opts.Dir, "sandboxes.db") }
func (m *Manager) snapshotDir() string      { return filepath.Join(m.opts.Dir, "snapshots") }
func (m *Manager) templateDir() string      { return filepath.Join(m.opts.Dir, "templates") }
func (m *Manager) expiredDir() string       { return filepath.Join(m.opts.Dir, "expired") }
func (m *Manager) expired(id string) string { return filepath.Join(m.expiredDir(), id+".tar") }
func owner(id string) string                { return "sandbox-" + id }

// record writes the row of a step that is about to be taken.
func (m *Manager) record(ctx context.Context, verb, id string, data any) error {
	if m.opts.Record == nil {
		return nil
	}
	return m.opts.Record(ctx, "sandbox_"+verb, id, data)
}
