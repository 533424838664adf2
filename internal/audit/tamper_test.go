package audit_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/audit"
)

// filled makes a record of ten rows and closes it.
func filled(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "record.db")
	l, err := audit.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := l.Record(t.Context(), "call", "id", map[string]int{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// edit changes a record as somebody would who knows SQLite.
func edit(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const noTriggers = "DROP TRIGGER record_is_not_edited; DROP TRIGGER record_is_not_cut"

func TestTampering(t *testing.T) {
	for _, tt := range []struct {
		name string
		sql  string
		seq  int64
		what string
	}{
		{"an edited text", `UPDATE record SET data = '{"n":99}' WHERE seq = 4`, 4, "edited"},
		{"an edited time", `UPDATE record SET time = '2020-01-01T00:00:00.000000000Z' WHERE seq = 4`, 4, "edited"},
		{"an edited kind", `UPDATE record SET kind = 'undo' WHERE seq = 1`, 1, "edited"},
		{"an edited ID", `UPDATE record SET id = '' WHERE seq = 10`, 10, "edited"},
		{"an edited user", `UPDATE record SET uid = uid + 1 WHERE seq = 4`, 4, "edited"},
		{"a character moved to the next member", `UPDATE record SET kind = 'cal', id = 'lid' WHERE seq = 4`, 4, "edited"},
		{"an edited hash", `UPDATE record SET hash = zeroblob(32) WHERE seq = 4`, 4, "edited"},
		{"a hash that is none", `UPDATE record SET hash = x'00' WHERE seq = 4`, 4, "no hash"},
		{"two rows in each other's place", `UPDATE record SET seq = -1 WHERE seq = 4; UPDATE record SET seq = 4 WHERE seq = 6; UPDATE record SET seq = 6 WHERE seq = -1`, 4, "was row 6"},
		{"a row removed from the middle", `DELETE FROM record WHERE seq = 4`, 4, "it was removed"},
		{"several", `DELETE FROM record WHERE seq IN (4, 5, 6)`, 4, "rows 4 to 6 were removed"},
		{"a row removed, and the others moved up", `DELETE FROM record WHERE seq = 4; UPDATE record SET seq = seq - 1 WHERE seq > 4; UPDATE chain SET head_seq = 9`, 4, "was row 5"},
		{"rows removed from the end", `DELETE FROM record WHERE seq > 8`, 9, "rows 9 to 10 were removed from the record's end"},
		{"and the end's note adjusted, without the hash", `DELETE FROM record WHERE seq > 8; UPDATE chain SET head_seq = 8`, 8, "replaced"},
		{"rows removed from the beginning", `DELETE FROM record WHERE seq < 3`, 1, "rows 1 to 2 were removed"},
		{"and the beginning's note adjusted", `DELETE FROM record WHERE seq < 3; UPDATE chain SET tail_seq = 2, tail_hash = (SELECT prev FROM record WHERE seq = 3)`, 2, "not by airlock"},
		{"a row added at the end", `INSERT INTO record SELECT 11, time, kind, id, user, uid, pid, data, hash, hash FROM record WHERE seq = 10`, 11, "behind the record's last row"},
		{"and the end's note adjusted", `INSERT INTO record SELECT 11, time, kind, id, user, uid, pid, data, hash, hash FROM record WHERE seq = 10; UPDATE chain SET head_seq = 11`, 11, "put in"},
		{"a row before the first", `INSERT INTO record SELECT 0, time, kind, id, user, uid, pid, data, prev, hash FROM record WHERE seq = 1`, 0, "inserted before"},
		{"a row put in between", `UPDATE record SET seq = seq + 1000 WHERE seq > 4; UPDATE record SET seq = seq - 999 WHERE seq > 1000; INSERT INTO record SELECT 5, time, kind, id, user, uid, pid, data, hash, hash FROM record WHERE seq = 4; UPDATE chain SET head_seq = 11`, 5, "put in"},
		{"all rows removed", `DELETE FROM record`, 1, "rows 1 to 10 were removed from the record's end"},
		{"no note", `DELETE FROM chain`, 0, "is gone"},
		{"a note that is none", `UPDATE chain SET head_hash = x'00'`, 0, "edited"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filled(t)
			edit(t, path, noTriggers, tt.sql)
			l := open(t, path, nil)
			_, err := l.Verify(t.Context())
			var tampered *audit.TamperError
			if !errors.As(err, &tampered) {
				t.Fatalf("Verify: err = %v, want a TamperError", err)
			}
			if tampered.Seq != tt.seq || !strings.Contains(tampered.Error(), tt.what) {
				t.Errorf("Verify: %v (row %d), want row %d and %q", tampered, tampered.Seq, tt.seq, tt.what)
			}
		})
	}
}

// TestAccidents: without dropping the triggers, rows cannot be changed or removed.
func TestAccidents(t *testing.T) {
	path := filled(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"UPDATE record SET kind = 'x'", "DELETE FROM record WHERE seq = 3"} {
		if _, err := db.ExecContext(t.Context(), s); err == nil || !strings.Contains(err.Error(), "only added") {
			t.Errorf("%s: err = %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if rep, err := open(t, path, nil).Verify(t.Context()); err != nil || rep.Rows != 10 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}

// TestForgery is what a chain without a key cannot find: whoever rewrites all that follows.
// The head's hash differs then from the one that somebody has kept.
func TestForgery(t *testing.T) {
	path := filled(t)
	before, err := open(t, path, nil).Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, filepath.Join(t.TempDir(), "record.db"), nil)
	for i := range 10 {
		if err := other.Record(t.Context(), "call", "id", fmt.Sprint("forged ", i)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := other.Verify(t.Context())
	if err != nil || after.Seq != before.Seq || after.Hash == before.Hash {
		t.Errorf("Verify = %+v, %v; before it was %+v", after, err, before)
	}
}
