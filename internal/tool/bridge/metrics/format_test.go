package metrics_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/metrics"
)

// older makes the file that an older airlock left.
func older(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/format1.sql")
	must(t, err)
	path := filepath.Join(t.TempDir(), "bridge.db")
	execute(t, path, string(text))
	return path
}

func TestAFileOfAnOlderAirlockGoesOn(t *testing.T) {
	path := older(t)
	must(t, metrics.Check(t.Context(), path))
	s := metrics.Open(path, config, -1, nil)
	add(s, bridge.Sample{At: time.Now(), Agent: "a", Outcome: bridge.OutcomeOK, OK: true, Took: 2 * time.Second})
	if h := health(t, s); h.TotalCalls != 3 || h.TotalErrors != 1 || h.Agents["a"].AvgDuration != 2 {
		t.Errorf("Health = %+v, want two calls from before and one", h)
	}
	must(t, s.Close(t.Context()))
}

func TestAnOlderAirlockFindsWhatItKnows(t *testing.T) {
	made := place(t)
	s := open(t, made, nil)
	add(s, calls("a", 1, 0)...)
	must(t, s.Close(t.Context()))
	if got, want := shape(t, made), shape(t, older(t)); got != want {
		t.Errorf("a new file is %+v, want %+v", got, want)
	}
}

// A fileShape is what a program looks at before it takes a database for its own, and its tables.
type fileShape struct {
	app, version int64
	mode, tables string
}

func shape(t *testing.T, path string) (s fileShape) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), `SELECT application_id, user_version, journal_mode, (SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name))
		FROM pragma_application_id, pragma_user_version, pragma_journal_mode`).Scan(&s.app, &s.version, &s.mode, &s.tables))
	return s
}
