package audit_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"airlock/internal/audit"
)

func TestWhatIsQueuedIsWrittenWithTheNextRowThatIsWaitedFor(t *testing.T) {
	log, err := audit.Open(filepath.Join(t.TempDir(), "record.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	kinds := func() []string {
		t.Helper()
		var out []string
		if err := log.Query(t.Context(), audit.Filter{}, func(r audit.Row) error {
			out = append(out, r.Kind)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var waits []func(context.Context) error
	for _, kind := range []string{"one", "two"} {
		wait, err := log.Queue(kind, "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	if got := kinds(); len(got) != 0 {
		t.Errorf("what nobody waited for was written: %q", got)
	}
	if err := log.Record(t.Context(), "three", "x", nil); err != nil {
		t.Fatal(err)
	}
	if got := kinds(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("the rows are %q", got)
	}
	for _, wait := range waits {
		if err := wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := log.Queue("", "x", nil); err == nil {
		t.Error("a row without a kind was taken")
	}
	wait, err := log.Queue("four", "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rep, err := log.Verify(t.Context()); err != nil || rep.Rows != 4 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}
