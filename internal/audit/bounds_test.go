package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/audit"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func record(t *testing.T, l *audit.Log, n int, data any) {
	t.Helper()
	for range n {
		if err := l.Record(t.Context(), "call", "id", data); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOldRowsGo(t *testing.T) {
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	l := open(t, filepath.Join(t.TempDir(), "record.db"), &audit.Options{MaxAge: 24 * time.Hour, Now: c.Now})
	record(t, l, 1500, "old")
	c.now = c.now.Add(48 * time.Hour)
	record(t, l, 300, "new")
	rep, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A thousand rows stay whatever their age; 256 rows later at most, the others are gone.
	if rep.Removed < 500 || rep.Rows < 1000 || rep.Rows+rep.Removed != rep.Seq {
		t.Errorf("Verify = %+v", rep)
	}
	kinds := 0
	err = l.Query(t.Context(), audit.Filter{Kinds: []string{"pruned"}}, func(r audit.Row) error {
		kinds++
		if !strings.Contains(string(r.Data), `"why":"age"`) {
			t.Errorf("data = %s", r.Data)
		}
		return nil
	})
	if err != nil || kinds == 0 {
		t.Errorf("%d rows say what was removed (%v)", kinds, err)
	}
	if err := l.Record(t.Context(), "pruned", "", nil); err == nil {
		t.Error("a caller can say that rows were pruned")
	}
}

func TestTooManyRowsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.db")
	const most = 1 << 20
	l := open(t, path, &audit.Options{MaxBytes: most})
	record(t, l, 1500, strings.Repeat("some text ", 200))
	rep, err := l.Verify(t.Context())
	if err != nil || rep.Removed == 0 || rep.Rows == 0 {
		t.Fatalf("Verify = %+v, %v", rep, err)
	}
	// Between two looks at the bounds, 256 rows of 2 KiB can come.
	if st, err := os.Stat(path); err != nil || st.Size() > most+256*4096 {
		t.Errorf("the database has %d bytes (%v), want not many more than %d", st.Size(), err, most)
	}
	// Who removes rows as airlock does, but does not say so, is found out.
	edit(t, path, noTriggers, "DELETE FROM record WHERE seq <= (SELECT min(seq) FROM record)",
		"UPDATE chain SET tail_seq = tail_seq + 1, tail_hash = (SELECT prev FROM record ORDER BY seq LIMIT 1)")
	var tampered *audit.TamperError
	if _, err := l.Verify(t.Context()); !errors.As(err, &tampered) || !strings.Contains(tampered.What, "not by airlock") {
		t.Errorf("Verify: err = %v", err)
	}
}

func TestClockThatGoesBack(t *testing.T) {
	c := &clock{time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	l := open(t, filepath.Join(t.TempDir(), "record.db"), &audit.Options{Now: c.Now})
	record(t, l, 2, "today")
	c.now = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	record(t, l, 2, "long ago")
	c.now = time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	record(t, l, 2, "tomorrow")
	if rep, err := l.Verify(t.Context()); err != nil || rep.Rows != 6 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
	var got []string
	err := l.Query(t.Context(), audit.Filter{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)},
		func(r audit.Row) error { got = append(got, string(r.Data)); return nil })
	if want := `"today" "today"`; err != nil || strings.Join(got, " ") != want {
		t.Errorf("Query = %q, %v, want %s", got, err, want)
	}
}

func TestLargeData(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "record.db"), nil)
	large := strings.Repeat("ä line of output\n", 1<<16)
	sum := sha256.Sum256([]byte(large))
	record(t, l, 1, map[string]any{"stdout": large, "n": 12345678901234567})
	many := make([]string, 50_000)
	for i := range many {
		many[i] = "some text"
	}
	record(t, l, 1, many)
	record(t, l, 1, "bytes that are \xff no text")
	var rows []audit.Row
	if err := l.Query(t.Context(), audit.Filter{}, func(r audit.Row) error { rows = append(rows, r); return nil }); err != nil {
		t.Fatal(err)
	}
	var data struct {
		Stdout string
		N      int64
	}
	if err := json.Unmarshal(rows[0].Data, &data); err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(sum[:]); len(data.Stdout) > 16<<10 || !strings.Contains(data.Stdout, "bytes, sha256 "+want+"]") || data.N != 12345678901234567 {
		t.Errorf("data = %.100s … %s, %d", data.Stdout, data.Stdout[len(data.Stdout)-120:], data.N)
	}
	if n := len(rows[1].Data); n > 256<<10 || !strings.HasPrefix(string(rows[1].Data), `{"cut":`) {
		t.Errorf("a large list took %d bytes: %.80s", n, rows[1].Data)
	}
	for i, r := range rows {
		if !json.Valid(r.Data) {
			t.Errorf("row %d is not valid JSON", i)
		}
	}
	for _, data := range []any{func() {}, make(chan int)} {
		if err := l.Record(t.Context(), "call", "id", data); err == nil {
			t.Errorf("Record of %T: err = nil", data)
		}
	}
}
