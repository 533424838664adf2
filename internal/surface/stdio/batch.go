package stdio

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// batch makes calls, up to Jobs of them at once, and gives their answers as a list in the
// order of the calls, on one line without an end.
func (s *Server) batch(ctx context.Context, calls []call) (line []byte, ok bool) {
	jobs, limit := s.Jobs, s.MaxHeld
	if jobs < 1 {
		jobs = defaultJobs
	}
	if limit < 1 {
		limit = defaultHeld
	}
	var (
		next, held atomic.Int64
		failed     atomic.Bool
		workers    sync.WaitGroup
	)
	answers := make([][]byte, len(calls))
	for range min(jobs, len(calls)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(calls)); i = next.Add(1) - 1 {
				c := &calls[i]
				if held.Load() > int64(limit) {
					c = &call{wrong: fmt.Sprintf("Not started: this batch's answers have more than %d bytes already; call it in another", limit)}
				}
				text, ok := s.one(ctx, c)
				if !ok {
					failed.Store(true)
				}
				answers[i] = text
				held.Add(int64(len(text)))
			}
		})
	}
	workers.Wait()
	line = make([]byte, 0, int(held.Load())+len(answers)+3) // and the line's end
	line = append(line, '[')
	for i, text := range answers {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, text...)
		answers[i] = nil // so that it need not be there twice
	}
	return append(line, ']'), !failed.Load()
}
