package metrics

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"airlock/internal/statedb"
	"airlock/internal/tool/bridge"
)

const (
	batch      = 512                    // samples of a transaction
	gather     = 100 * time.Millisecond // between two transactions, where nobody waits
	pruneEvery = 4096
	pruneMost  = 20_000
	maxRows    = 1_000_000            // of a file; the oldest are removed
	maxAge     = 366 * 24 * time.Hour // of samples of configurations that are no longer used
)

// run writes what comes, until the store is closed and nothing is left.
func (s *Store) run(ctx context.Context) {
	defer close(s.ended)
	written := pruneEvery // the first batch is reason enough
	for {
		samples, waiting, last := s.next()
		if len(samples) > 0 {
			err := s.write(ctx, samples)
			s.note(ctx, len(samples), err)
			if written += len(samples); err == nil && written >= pruneEvery {
				written = 0
				s.prune(ctx)
			}
		}
		for _, w := range waiting {
			close(w)
		}
		if last {
			return
		}
		if len(samples) == 0 {
			<-s.wake
			continue
		}
		s.rest()
	}
}

// rest lets samples come together: a transaction for each would take from the calls that
// are made meanwhile. It ends at once where somebody waits.
func (s *Store) rest() {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for !s.urgent() {
		select {
		case <-timer.C:
			return
		case <-s.wake:
		}
	}
}

func (s *Store) urgent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || len(s.waiting) > 0 || len(s.queue) >= batch
}

// next takes what is to be written, and those who wait for the last of it; last says that
// nothing comes any more.
func (s *Store) next() (samples []bridge.Sample, waiting []chan struct{}, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), batch)
	samples, s.queue = s.queue[:n:n], s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil // what was written need not be kept in memory
		waiting, s.waiting = s.waiting, nil
	}
	return samples, waiting, s.closed && len(s.queue) == 0
}

// note keeps how writing n samples went.
func (s *Store) note(ctx context.Context, n int, err error) {
	s.mu.Lock()
	known := err == nil || s.err != nil && s.err.Error() == err.Error()
	s.err = err
	if err != nil {
		s.lost += n
		if s.failures == nil {
			s.failures = err
		}
	}
	s.mu.Unlock()
	if !known {
		s.log.LogAttrs(ctx, slog.LevelWarn, "calls are not kept in the metrics", slog.String("err", err.Error()))
	}
}

var errLate = errors.New("there was no time left to write")

// write adds samples in one transaction.
func (s *Store) write(ctx context.Context, samples []bridge.Sample) error {
	if ctx.Err() != nil {
		return s.failed(errLate)
	}
	return s.change(ctx, func(tx *statedb.Tx) error {
		for i := range samples {
			p := &samples[i]
			at := p.At
			if at.IsZero() {
				at = s.now()
			}
			_, err := tx.Exec(ctx, "INSERT INTO sample (time, config, agent, outcome, ok, ms) VALUES (?, ?, ?, ?, ?, ?)",
				at.UnixMilli(), s.config, text(p.Agent, 256), text(p.Outcome, 64), p.OK, max(0, p.Took.Milliseconds()))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) change(ctx context.Context, do func(tx *statedb.Tx) error) error {
	return s.with(ctx, func(db *statedb.DB) error { return db.Write(ctx, do) })
}

// text is a string that SQLite gives back as it is, of at most n bytes.
func text(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "�"), "�")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// prune removes what is too old or too much. What it cannot do now, a later one does.
func (s *Store) prune(ctx context.Context) {
	err := s.change(ctx, func(tx *statedb.Tx) error {
		now := s.now()
		var errs [3]error
		if s.retention > 0 {
			_, errs[0] = tx.Exec(ctx, "DELETE FROM sample WHERE id IN (SELECT id FROM sample WHERE config = ? AND time < ? LIMIT ?)",
				s.config, now.Add(-s.retention).UnixMilli(), pruneMost)
		}
		// Rows are nearly in the order of time: the first ones are enough to look at.
		_, errs[1] = tx.Exec(ctx, "DELETE FROM sample WHERE time < ? AND config <> ? AND id IN (SELECT id FROM sample ORDER BY id LIMIT ?)",
			now.Add(-maxAge).UnixMilli(), s.config, pruneMost)
		_, errs[2] = tx.Exec(ctx, "DELETE FROM sample WHERE id IN (SELECT id FROM sample WHERE id <= (SELECT max(id) FROM sample) - ? ORDER BY id LIMIT ?)",
			maxRows, pruneMost)
		return errors.Join(errs[:]...)
	})
	if err != nil && ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "old metrics are not removed", slog.String("err", err.Error()))
	}
}

// sum is the health of the store's configuration.
func (s *Store) sum(ctx context.Context) (h bridge.Health, err error) {
	since := int64(0)
	if s.retention > 0 {
		since = s.now().Add(-s.retention).UnixMilli()
	}
	err = s.with(ctx, func(db *statedb.DB) error {
		h = bridge.NewHealth()
		return db.Read(ctx, func(tx *statedb.Tx) error {
			// What never reached its agent took no time of it, and would make it look fast.
			return tx.Each(ctx, func(scan func(dest ...any) error) error { return addAgent(&h, scan) },
				"SELECT agent, count(*), sum(ok), coalesce(avg(CASE WHEN outcome IN (?, ?) THEN NULL ELSE ms END), 0) "+
					"FROM sample WHERE config = ? AND time >= ? GROUP BY agent LIMIT 10000", bridge.OutcomeInvalid, bridge.OutcomeRefused, s.config, since)
		})
	})
	if h.TotalCalls > 0 {
		h.ErrorRate = float64(h.TotalErrors) / float64(h.TotalCalls)
	}
	if h.ErrorRate >= bridge.DegradedFrom {
		h.Status = bridge.Degraded
	}
	return h, err
}

// addAgent adds an agent's calls.
func addAgent(h *bridge.Health, scan func(dest ...any) error) error {
	var name string
	var calls, good int64
	var ms float64
	if err := scan(&name, &calls, &good, &ms); err != nil {
		return err
	}
	h.Agents[name] = bridge.AgentHealth{Calls: calls, SuccessRate: float64(good) / float64(calls), AvgDuration: ms / 1000}
	h.TotalCalls += calls
	h.TotalErrors += calls - good
	return nil
}
