package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"airlock/internal/audit"
)

func open(t testing.TB, path string, opts *audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestRecordAndVerify(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "state", "record.db"), nil)
	if rep, err := l.Verify(t.Context()); err != nil || rep.Rows != 0 {
		t.Fatalf("Verify of an empty record = %+v, %v", rep, err)
	}
	for i := range 10 {
		if err := l.Record(t.Context(), "call", fmt.Sprintf("id%d", i%3), map[string]any{"n": i, "password": "hunter2"}); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := l.Verify(t.Context())
	if err != nil || rep.Rows != 10 || rep.Seq != 10 {
		t.Fatalf("Verify = %+v, %v", rep, err)
	}
	var got []string
	err = l.Query(t.Context(), audit.Filter{ID: "id1", Limit: 2}, func(r audit.Row) error {
		got = append(got, fmt.Sprint(r.Seq, " ", r.ID, " ", string(r.Data)))
		return nil
	})
	want := `[5 id1 {"n":4,"password":"[redacted:password]"} 8 id1 {"n":7,"password":"[redacted:password]"}]`
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("Query = %v, %v, want %v", got, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Record(ctx, "call", "x", nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Record: err = %v", err)
	}
}
