package changes_test

import (
	"os"
	"path/filepath"
	"testing"

	"airlock/internal/changes"
)

// aJournal is a real one.
func aJournal(t testing.TB) []byte {
	w := newWorld(t, small, smallChanged)
	if _, err := w.commit(nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(w.store.Dir(testID), "journal-1"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestATornJournalIsReadUpToTheTear(t *testing.T) {
	data := aJournal(t)
	last := ""
	order := map[string]int{"": 0, "ready": 1, "staged": 2, "done": 3, "closed": 4}
	for n := range len(data) + 1 {
		phase, _, err := changes.ReadJournalBytes(data[:n])
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if order[phase] < order[last] {
			t.Fatalf("cut at %d: phase %q after %q", n, phase, last)
		}
		last = phase
	}
	if last != "closed" {
		t.Errorf("the whole journal is %q, want closed", last)
	}
}

func TestAFlippedByteIsNeverBelieved(t *testing.T) {
	data := aJournal(t)
	_, whole, err := changes.ReadJournalBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	lastLine := len(data) - 2
	for lastLine > 0 && data[lastLine-1] != '\n' {
		lastLine--
	}
	for n := range data {
		bad := append([]byte(nil), data...)
		bad[n] ^= 1 << (n % 8)
		phase, ops, err := changes.ReadJournalBytes(bad)
		if err == nil && phase == "closed" && ops == whole {
			t.Fatalf("flipped at %d: nobody noticed", n)
		}
		if err == nil && n < lastLine-1 {
			t.Fatalf("flipped at %d, in the middle: no error, phase %q", n, phase)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("00000000 {}\n"))
	f.Add(aJournal(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = changes.ReadJournalBytes(data)
	})
}

func TestGarbageAfterTheJournalIsCutOff(t *testing.T) {
	w := fastWorld(t, false)
	if _, killed := w.killedAt("commit", 40); !killed {
		t.Fatal("it lived")
	}
	name := filepath.Join(w.store.Dir(testID), "journal-1")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	w.must(err)
	_, err = f.WriteString("deadbeef {\"n\":")
	w.must(err)
	w.must(f.Close())
	if _, err := w.commit(nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.isBox()
}
