package metrics_test

import (
	"path/filepath"
	"testing"
	"time"

	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/metrics"
)

func TestTotals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "bridge.db")
	s := metrics.Open(path, "/etc/a.yaml", 0, nil)
	for i := range 10 {
		s.Add(bridge.Sample{At: time.Now(), Agent: "a", Outcome: bridge.OutcomeOK, OK: i > 0, Took: 1500 * time.Millisecond})
	}
	h, err := s.Health(t.Context())
	t.Logf("%+v %v", h, err)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
