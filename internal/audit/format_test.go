package audit_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"airlock/internal/audit"
)

// older makes the record that an older airlock left.
func older(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/format1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "record.db")
	edit(t, path, string(text))
	return path
}

func TestARecordOfAnOlderAirlockGoesOn(t *testing.T) {
	l := open(t, older(t), nil)
	rep, err := l.Verify(t.Context())
	if want := "e709e5c334a798a418984aa0bbe98ab543b4148f2f5c8cd93003ad1695869085"; err != nil || rep.Rows != 3 || rep.Hash.String() != want {
		t.Fatalf("Verify = %+v, %v, want three rows and the hash %s", rep, err, want)
	}
	record(t, l, 1, "new")
	if rep, err = l.Verify(t.Context()); err != nil || rep.Rows != 4 || rep.Removed != 0 {
		t.Errorf("Verify = %+v, %v, want four rows", rep, err)
	}
	var kinds []string
	err = l.Query(t.Context(), audit.Filter{}, func(r audit.Row) error { kinds = append(kinds, r.Kind); return nil })
	if want := []string{"run", "decision", "commit", "call"}; err != nil || !slices.Equal(kinds, want) {
		t.Errorf("Query: kinds %q, %v, want %q", kinds, err, want)
	}
}

func TestAnOlderAirlockFindsWhatItKnows(t *testing.T) {
	made := filepath.Join(t.TempDir(), "record.db")
	open(t, made, nil)
	if got, want := shape(t, made), shape(t, older(t)); got != want {
		t.Errorf("a new record is %+v, want %+v", got, want)
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
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(t.Context(), `SELECT application_id, user_version, journal_mode, (SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name))
		FROM pragma_application_id, pragma_user_version, pragma_journal_mode`).Scan(&s.app, &s.version, &s.mode, &s.tables)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
