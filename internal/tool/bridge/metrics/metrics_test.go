package metrics_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/metrics"
)

const config = "/home/me/config.yaml"

func open(t *testing.T, path string, opts *metrics.Options) *metrics.Store {
	t.Helper()
	s := metrics.Open(path, config, 0, opts)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func place(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state", "bridge.db")
}

func calls(agent string, good, bad int) []bridge.Sample {
	var all []bridge.Sample
	for i := range good + bad {
		p := bridge.Sample{At: time.Now(), Agent: agent, Outcome: bridge.OutcomeOK, OK: true, Took: time.Second}
		if i >= good {
			p.Outcome, p.OK, p.Took = bridge.OutcomeExit, false, 3*time.Second
		}
		all = append(all, p)
	}
	return all
}

func add(s *metrics.Store, samples ...bridge.Sample) {
	for _, p := range samples {
		s.Add(p)
	}
}

func health(t *testing.T, s *metrics.Store) bridge.Health {
	t.Helper()
	h, err := s.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		samples []bridge.Sample
		want    bridge.Health
	}{
		"no call is no error": {nil, bridge.NewHealth()},
		"calls that went well are healthy": {calls("a", 2, 0), bridge.Health{Status: "healthy", TotalCalls: 2, Agents: map[string]bridge.AgentHealth{
			"a": {Calls: 2, SuccessRate: 1, AvgDuration: 1},
		}}},
		"less than one error in ten is healthy": {calls("a", 15, 1), bridge.Health{Status: "healthy", TotalCalls: 16, TotalErrors: 1, ErrorRate: 1.0 / 16, Agents: map[string]bridge.AgentHealth{
			"a": {Calls: 16, SuccessRate: 15.0 / 16, AvgDuration: 1.125},
		}}},
		"one in ten is degraded": {calls("a", 9, 1), bridge.Health{Status: "degraded", TotalCalls: 10, TotalErrors: 1, ErrorRate: 0.1, Agents: map[string]bridge.AgentHealth{
			"a": {Calls: 10, SuccessRate: 0.9, AvgDuration: 1.2},
		}}},
		"what never reached the agent counts, and took no time": {
			append(calls("a", 1, 0),
				bridge.Sample{At: time.Now(), Agent: "a", Outcome: bridge.OutcomeInvalid}, bridge.Sample{At: time.Now(), Agent: "b", Outcome: bridge.OutcomeRefused}),
			bridge.Health{Status: "degraded", TotalCalls: 3, TotalErrors: 2, ErrorRate: 2.0 / 3, Agents: map[string]bridge.AgentHealth{
				"a": {Calls: 2, SuccessRate: 0.5, AvgDuration: 1}, "b": {Calls: 1},
			}},
		},
		"agents are summed up one by one": {append(calls("a", 1, 0), calls("b", 0, 1)...), bridge.Health{Status: "degraded", TotalCalls: 2, TotalErrors: 1, ErrorRate: 0.5, Agents: map[string]bridge.AgentHealth{
			"a": {Calls: 1, SuccessRate: 1, AvgDuration: 1}, "b": {Calls: 1, AvgDuration: 3},
		}}},
		"a clock that went back is no time": {[]bridge.Sample{{At: time.Now(), Agent: "a", OK: true, Took: -time.Second}}, bridge.Health{Status: "healthy", TotalCalls: 1, Agents: map[string]bridge.AgentHealth{
			"a": {Calls: 1, SuccessRate: 1},
		}}},
		"a name of any bytes": {[]bridge.Sample{{At: time.Now(), Agent: "a\x00b\xff'; DROP TABLE sample", OK: true}}, bridge.Health{Status: "healthy", TotalCalls: 1, Agents: map[string]bridge.AgentHealth{
			"a�b�'; DROP TABLE sample": {Calls: 1, SuccessRate: 1},
		}}},
		"a name without an end": {[]bridge.Sample{{At: time.Now(), Agent: strings.Repeat("é", 1<<20), OK: true}}, bridge.Health{Status: "healthy", TotalCalls: 1, Agents: map[string]bridge.AgentHealth{
			strings.Repeat("é", 128): {Calls: 1, SuccessRate: 1},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			s := open(t, path, nil)
			add(s, c.samples...)
			check := func(h bridge.Health) {
				t.Helper()
				agents := h.Agents
				if !maps.Equal(agents, c.want.Agents) || h.Status != c.want.Status || h.TotalCalls != c.want.TotalCalls || h.TotalErrors != c.want.TotalErrors || h.ErrorRate != c.want.ErrorRate {
					t.Errorf("Health = %+v, want %+v", h, c.want)
				}
			}
			check(health(t, s))
			must(t, s.Close(t.Context()))
			check(health(t, open(t, path, nil)))
		})
	}
}

func TestNothingIsMadeBeforeTheFirstCall(t *testing.T) {
	path := place(t)
	s := open(t, path, nil)
	health(t, s)
	must(t, metrics.Check(t.Context(), path))
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder before the first call: err = %v, want that there is none", err)
	}
	add(s, calls("a", 1, 0)...)
	health(t, s)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("files: %q, %v", files, err)
	}
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", f, st.Mode(), err)
		}
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v, want mode 0700", st.Mode(), err)
	}
}

func TestConfigurationsAreKeptApart(t *testing.T) {
	path := place(t)
	s, other := open(t, path, nil), metrics.Open(path, "/etc/other.yaml", 0, nil)
	add(s, calls("a", 1, 0)...)
	add(other, calls("a", 2, 0)...)
	must(t, other.Close(t.Context()))
	if h := health(t, s); h.TotalCalls != 1 {
		t.Errorf("Health = %+v, want one call", h)
	}
}

func TestSeveralStores(t *testing.T) {
	path := place(t)
	stores := []*metrics.Store{open(t, path, nil), open(t, path, nil), open(t, path, nil)}
	for range 200 {
		for _, s := range stores {
			add(s, calls("a", 1, 0)...)
		}
	}
	for _, s := range stores[1:] {
		must(t, s.Close(t.Context()))
	}
	if h := health(t, stores[0]); h.TotalCalls != 600 {
		t.Errorf("Health = %+v, want 600 calls", h)
	}
}

func TestRetention(t *testing.T) {
	now := time.Now()
	old := func(days int) bridge.Sample {
		return bridge.Sample{At: now.AddDate(0, 0, -days), Agent: "a", OK: true}
	}
	for name, c := range map[string]struct {
		retention time.Duration
		counted   int64
		kept      int
	}{
		"thirty days are the default": {0, 2, 2},
		"a week":                      {7 * 24 * time.Hour, 1, 1},
		"never removed":               {-1, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			s := metrics.Open(path, config, c.retention, &metrics.Options{Now: func() time.Time { return now }})
			add(s, old(1), old(20), old(40))
			if h := health(t, s); h.TotalCalls != c.counted {
				t.Errorf("Health = %+v, want %d calls", h, c.counted)
			}
			must(t, s.Close(t.Context()))
			if n := rows(t, path); n != c.kept {
				t.Errorf("%d rows are kept, want %d", n, c.kept)
			}
		})
	}
}

func TestWhatNobodyUsesAnyMoreIsRemoved(t *testing.T) {
	path := place(t)
	gone := metrics.Open(path, "/gone.yaml", -1, nil)
	add(gone, bridge.Sample{At: time.Now().AddDate(-2, 0, 0), Agent: "a"}, bridge.Sample{At: time.Now().AddDate(0, -2, 0), Agent: "a"})
	must(t, gone.Close(t.Context()))
	s := open(t, path, nil)
	add(s, calls("b", 1, 0)...)
	must(t, s.Close(t.Context()))
	if n := rows(t, path); n != 2 {
		t.Errorf("%d rows are kept, want the one of two months ago and today's", n)
	}
}

func rows(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sample").Scan(&n))
	return n
}

func TestAfterTheEnd(t *testing.T) {
	s := open(t, place(t), nil)
	add(s, calls("a", 1, 0)...)
	for range 2 {
		must(t, s.Close(t.Context()))
	}
	if _, err := s.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Health: err = %v, want that it is closed", err)
	}
	s.Add(calls("a", 1, 0)[0])
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "missing in the bridge's metrics: 1") {
		t.Errorf("Close: err = %v, want one that counts", err)
	}
}

func TestAStoreThatWasNeverUsed(t *testing.T) {
	s := metrics.Open(place(t), config, 0, nil)
	must(t, s.Close(t.Context()))
	s = metrics.Open(place(t), config, 0, nil)
	s.Add(bridge.Sample{Agent: "a"})
	must(t, s.Close(t.Context()))
}
