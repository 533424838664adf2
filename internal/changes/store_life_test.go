package changes_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/changes"
)

func TestStatesOfASet(t *testing.T) {
	s := newStore(t)
	set := keep(t, s, testID, time.Now(), "x")
	if err := s.SetState(testID, changes.Committed); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(testID); !errors.Is(err, changes.ErrState) {
		t.Errorf("Discard of a committed set: err = %v, want ErrState", err)
	}
	if err := s.SetState(testID, changes.Kept); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Discard(testID); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Load(testID)
	if err != nil || got.State != changes.Discarded || len(got.Changes) != 1 {
		t.Errorf("after Discard: %+v, %v, want the list, discarded", got, err)
	}
	if _, err := s.Blob(testID, set.Changes[0].Blob); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Blob after Discard: err = %v, want that it is gone", err)
	}
	if err := s.Remove(testID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(testID); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("Load after Remove: err = %v, want ErrNotFound", err)
	}
}

func TestOneCommandAtATime(t *testing.T) {
	s := newStore(t)
	keep(t, s, testID, time.Unix(1, 0), "x")
	unlock, err := s.Lock(testID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(testID); !errors.Is(err, changes.ErrBusy) {
		t.Errorf("second Lock: err = %v, want ErrBusy", err)
	}
	if err := s.Discard(testID); !errors.Is(err, changes.ErrBusy) {
		t.Errorf("Discard: err = %v, want ErrBusy", err)
	}
	if removed, err := s.Sweep(&changes.SweepOptions{Kept: time.Second}); err != nil || len(removed) != 0 {
		t.Errorf("Sweep = %v, %v, want it to leave the locked set", removed, err)
	}
	unlock()
	unlock()
	again, err := s.Lock(testID)
	if err != nil {
		t.Fatalf("Lock after unlock: %v", err)
	}
	again()
}

func TestAnInterruptedSetIsNotThrownAway(t *testing.T) {
	s := newStore(t)
	keep(t, s, testID, time.Unix(1, 0), "x")
	journal := filepath.Join(s.Dir(testID), "journal-1")
	if err := os.WriteFile(journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(testID); !errors.Is(err, changes.ErrInterrupted) {
		t.Errorf("Discard: err = %v, want ErrInterrupted", err)
	}
	if err := s.Remove(testID); !errors.Is(err, changes.ErrInterrupted) {
		t.Errorf("Remove: err = %v, want ErrInterrupted", err)
	}
	if removed, err := s.Sweep(&changes.SweepOptions{Kept: time.Second}); err != nil || len(removed) != 0 {
		t.Errorf("Sweep = %v, %v, want it to leave the set", removed, err)
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(testID); err != nil {
		t.Error(err)
	}
}

func TestSweepByAge(t *testing.T) {
	s := newStore(t)
	now := time.Unix(1_000_000, 0)
	keep(t, s, "aaaaaaaaaaaaaaaa", now.Add(-3*time.Hour), "x")
	keep(t, s, "bbbbbbbbbbbbbbbb", now.Add(-time.Hour), "x")
	keep(t, s, "cccccccccccccccc", now.Add(-3*time.Hour), "x")
	if err := s.SetState("cccccccccccccccc", changes.Committed); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Sweep(nil); err != nil || removed != nil {
		t.Errorf("Sweep(nil) = %v, %v, want nothing", removed, err)
	}
	removed, err := s.Sweep(&changes.SweepOptions{Now: now, Kept: 2 * time.Hour})
	if err != nil || !slices.Equal(removed, []string{"aaaaaaaaaaaaaaaa"}) {
		t.Errorf("Sweep = %v, %v, want the old kept set alone", removed, err)
	}
}

func TestADamagedSetCanBeRemoved(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(header string) error
	}{
		{"a header that is cut off", func(h string) error { return os.Truncate(h, 5) }},
		{"no header", os.Remove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			keep(t, s, testID, time.Now(), "x")
			if list, err := s.Damaged(); err != nil || len(list) != 0 {
				t.Errorf("Damaged before = %v, %v, want none", list, err)
			}
			if err := tt.damage(filepath.Join(s.Dir(testID), "set.json")); err != nil {
				t.Fatal(err)
			}
			if list, err := s.Damaged(); err != nil || !slices.Equal(list, []string{testID}) {
				t.Errorf("Damaged = %v, %v, want it", list, err)
			}
			journal := filepath.Join(s.Dir(testID), "journal-1")
			if err := os.WriteFile(journal, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(testID); !errors.Is(err, changes.ErrInterrupted) {
				t.Errorf("Remove of one that the host may need: err = %v, want ErrInterrupted", err)
			}
			if err := os.Remove(journal); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(testID); err != nil {
				t.Errorf("Remove: %v", err)
			}
			if list, err := s.Damaged(); err != nil || len(list) != 0 {
				t.Errorf("Damaged after = %v, %v, want none", list, err)
			}
			if err := s.Remove(testID); !errors.Is(err, changes.ErrNotFound) {
				t.Errorf("Remove of what is gone: err = %v, want ErrNotFound", err)
			}
		})
	}
}

func TestADamagedSetHidesNoOther(t *testing.T) {
	s := newStore(t)
	keep(t, s, "aaaaaaaaaaaaaaaa", time.Now(), "x")
	keep(t, s, "bbbbbbbbbbbbbbbb", time.Now(), "x", "y")
	for _, tt := range []struct{ name, file, content string }{
		{"no header", "set.json", ""},
		{"another version", "set.json", `{"version":2,"id":"bbbbbbbbbbbbbbbb"}`},
		{"another set's header", "set.json", `{"version":1,"id":"aaaaaaaaaaaaaaaa"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(s.Dir("bbbbbbbbbbbbbbbb"), tt.file)
			good, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load("b"); err == nil {
				t.Error("Load: no error")
			}
			if list, err := s.List(); err != nil || len(list) != 1 {
				t.Errorf("List = %v, %v, want the sound one", list, err)
			}
			if list, err := s.Damaged(); err != nil || !slices.Equal(list, []string{"bbbbbbbbbbbbbbbb"}) {
				t.Errorf("Damaged = %v, %v, want the other", list, err)
			}
			if err := os.WriteFile(name, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	name := filepath.Join(s.Dir("bbbbbbbbbbbbbbbb"), "changes.jsonl")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if err := os.WriteFile(name, good[:i], 0o600); err != nil {
			t.Fatal(err)
		}
		// Without the last line feed it is whole.
		if _, err := s.Load("b"); err == nil && i < len(good)-1 {
			t.Fatalf("Load of %d bytes of the list: no error", i)
		}
	}
}

// TestDraftsOfTheDead lets a second process die, and one live, with a draft open.
func TestDraftsOfTheDead(t *testing.T) {
	if dir := os.Getenv("CHANGES_TEST_DRAFT"); dir != "" {
		leaveDraft(dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "sets")
	s, err := changes.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDraftsOfTheDead$")
	cmd.Env = append(os.Environ(), "CHANGES_TEST_DRAFT="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	drafts := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "draft-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if _, err := s.Sweep(nil); err != nil || len(drafts()) != 1 {
		t.Errorf("Sweep: %v, drafts %v, want the living one's kept", err, drafts())
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v, want no draft in it", list, err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := changes.OpenStore(dir); err != nil || len(drafts()) != 0 {
		t.Errorf("OpenStore: %v, drafts %v, want the dead one's gone", err, drafts())
	}
}

func leaveDraft(dir string) {
	s, err := changes.OpenStore(dir)
	if err != nil {
		panic(err)
	}
	w, err := s.Create(changes.Header{ID: testID})
	if err != nil {
		panic(err)
	}
	if _, err := w.WriteBlob(strings.NewReader("x"), 1); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
