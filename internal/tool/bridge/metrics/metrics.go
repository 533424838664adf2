// Package metrics keeps what came of a bridge's calls in a SQLite database, for
// health_check: how many there were, how many were errors, how long they took. It holds no
// parameters and no answers. A call never waits for it, nor fails because of it. It knows
// nothing of how an agent is run.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"airlock/internal/statedb"
	"airlock/internal/tool/bridge"
)

// Options change how samples are kept.
type Options struct {
	// Logger takes what goes wrong; nil discards. It is told once of the same failure.
	Logger *slog.Logger

	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

const (
	defaultRetention = 30 * 24 * time.Hour
	maxQueue         = 16384 // samples that wait to be written; what is more is not kept
)

// A Store keeps the samples of one configuration in a file, which may hold those of others.
// It is safe for concurrent use, and other processes may have the same file open.
type Store struct {
	path, config string
	retention    time.Duration
	log          *slog.Logger
	now          func() time.Time

	ended chan struct{} // closed when the writer has ended
	wake  chan struct{} // of the writer; holds one

	mu       sync.Mutex
	queue    []bridge.Sample
	waiting  []chan struct{}    // each is closed when the queue as it is now is written, or has failed
	cancel   context.CancelFunc // ends what the writer waits for; nil: there is none yet
	closed   bool
	lost     int
	err      error // the last failure; nil after a success
	failures error // the first there was

	dbMu sync.Mutex
	db   *statedb.DB
	shut bool
}

var _ bridge.Metrics = (*Store)(nil)

// Open gives a store of the samples of the configuration whose path is config. Nothing is
// opened or made before the first Add. Samples older than retention are removed; 0: after
// 30 days, negative: never.
func Open(path, config string, retention time.Duration, opts *Options) *Store {
	s := &Store{
		path: path, config: text(config, 4096), retention: retention,
		log: slog.New(slog.DiscardHandler), now: time.Now,
		ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if s.retention == 0 {
		s.retention = defaultRetention
	}
	if opts != nil && opts.Logger != nil {
		s.log = opts.Logger
	}
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	return s
}

// Add implements bridge.Metrics. It waits for nothing; after Close the sample is not kept.
func (s *Store) Add(sample bridge.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) >= maxQueue {
		s.lost++
		return
	}
	s.queue = append(s.queue, sample)
	s.wakeLocked()
}

// wakeLocked has the writer look at the queue.
func (s *Store) wakeLocked() {
	if s.cancel == nil {
		// It outlives the calls. Close ends it.
		var ctx context.Context
		ctx, s.cancel = context.WithCancel(context.Background())
		go s.run(ctx)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Health implements bridge.Metrics, for the store's configuration alone.
func (s *Store) Health(ctx context.Context) (bridge.Health, error) {
	if err := s.flush(ctx); err != nil {
		return bridge.Health{}, err
	}
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		return bridge.NewHealth(), nil
	}
	h, err := s.sum(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return bridge.Health{}, ctx.Err() // which is why
	case err != nil:
		return bridge.Health{}, err
	}
	return h, nil
}

// flush waits until what was added is written. The error is that of writing it.
func (s *Store) flush(ctx context.Context) error {
	s.mu.Lock()
	if s.cancel == nil || s.closed {
		err := s.err
		s.mu.Unlock()
		return err
	}
	written := make(chan struct{})
	s.waiting = append(s.waiting, written)
	s.wakeLocked()
	s.mu.Unlock()
	select {
	case <-written:
	case <-s.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close writes what was added, as long as ctx allows it, and closes the file. It returns
// when nothing of the store runs any more, may be called more than once, and says how many
// samples were not kept.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	cancel := s.cancel
	s.closed = true
	if cancel != nil {
		s.wakeLocked()
	}
	s.mu.Unlock()
	if cancel != nil {
		stop := context.AfterFunc(ctx, cancel)
		<-s.ended
		stop()
		cancel()
	}
	err := s.closeDB()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == 0 {
		return err
	}
	return fmt.Errorf("calls that are missing in the bridge's metrics: %d: %w", s.lost, cmp.Or(s.failures, err, errFull))
}

// errFull is why samples are missing where none failed.
var errFull = errors.New("more came than could be written, or after the end")
