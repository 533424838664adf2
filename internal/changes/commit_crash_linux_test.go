package changes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

// TestCrashChild is not a test: it is the process that the crash tests kill.
func TestCrashChild(t *testing.T) {
	spec := os.Getenv("AIRLOCK_TEST_CRASH") // what, at which step, store, root
	if spec == "" {
		t.Skip("only as a child of the crash tests")
	}
	part := strings.Split(spec, "\x1f")
	at, err := strconv.Atoi(part[1])
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	step := func(name string) {
		if steps++; steps == at {
			fmt.Printf("killed before: %q\n", name)
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // until it arrives
		}
	}
	s, err := changes.OpenStore(part[2])
	if err != nil {
		t.Fatal(err)
	}
	switch part[0] {
	case "commit":
		o := &changes.CommitOptions{Root: part[3]}
		o.OnStep(step, part[4] == "true")
		_, err = s.Commit(t.Context(), testID, o)
	case "undo":
		o := &changes.UndoOptions{}
		o.OnStep(step, part[4] == "true")
		_, err = s.Undo(t.Context(), testID, o)
	}
	if err != nil && !strings.Contains(err.Error(), "nothing to undo") {
		t.Fatal(err)
	}
	fmt.Println("lived to the end")
}

// killedAt runs what in a child that dies before its k-th step; false when it had fewer.
func (w *world) killedAt(what string, k int) (where string, killed bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashChild$", "-test.v")
	cmd.Env = append(os.Environ(), "AIRLOCK_TEST_CRASH="+strings.Join([]string{what, strconv.Itoa(k), w.sets, w.host, strconv.FormatBool(w.plain)}, "\x1f"))
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "lived to the end") {
		return "", false
	}
	if !strings.Contains(string(out), "killed before") {
		w.t.Fatalf("step %d: %v: %s", k, err, out)
	}
	return string(out), true
}

// whole checks that the host is old or new, or that the store knows that it is neither.
func (w *world) whole() {
	w.t.Helper()
	got := snapshot(w.t, w.host, false)
	isNew := differ(got, snapshot(w.t, w.box, false)) == ""
	isOld := differ(snapshot(w.t, w.host, true), w.was) == ""
	list, err := w.store.Interrupted()
	if err != nil {
		w.t.Errorf("Interrupted: %v", err)
	}
	if !isNew && !isOld && len(list) == 0 {
		w.t.Errorf("neither old nor new, and no journal says so:\n%s", differ(got, w.was))
	}
}

func TestKillAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts hundreds of processes")
	}
	for i, tt := range []struct {
		name, killed string
		after        func(w *world)
	}{
		{"a killed commit is finished by the next commit", "commit", func(w *world) {
			r, err := w.commit(nil)
			if err != nil {
				w.t.Fatalf("Commit: %v", err)
			}
			if r.State != changes.Committed {
				w.t.Errorf("Commit: state %s, want committed", r.State)
			}
			w.isBox()
			if _, err := w.undo(nil); err != nil {
				w.t.Fatalf("Undo: %v", err)
			}
			w.isOld()
		}},
		{"a killed commit is finished or dropped by Recover", "commit", func(w *world) {
			if _, err := w.store.Recover(w.t.Context(), testID, nil); err != nil {
				w.t.Fatalf("Recover: %v", err)
			}
			if list, err := w.store.Interrupted(); len(list) != 0 || err != nil {
				w.t.Errorf("Interrupted: %v, %v, want none", list, err)
			}
			w.whole()
		}},
		{"a killed commit is rolled back by undo", "commit", func(w *world) {
			if r, err := w.undo(nil); err != nil && !strings.Contains(err.Error(), "nothing to undo") {
				w.t.Fatalf("Undo: %v, %+v", err, r)
			}
			w.isOld()
			if _, err := w.commit(nil); err != nil {
				w.t.Fatalf("Commit after it: %v", err)
			}
			w.isBox()
		}},
		{"a killed undo is finished by the next undo", "undo", func(w *world) {
			if _, err := w.undo(nil); err != nil && !strings.Contains(err.Error(), "nothing to undo") {
				w.t.Fatalf("Undo: %v", err)
			}
			w.isOld()
			if _, err := w.commit(nil); err != nil {
				w.t.Fatalf("Commit after it: %v", err)
			}
			w.isBox()
		}},
	} {
		for j, on := range []struct {
			name             string
			elsewhere, plain bool
		}{
			{"", false, false},
			{", the store on another file system", true, false},
			{", names cannot be exchanged", false, true},
		} {
			t.Run(tt.name+on.name, func(t *testing.T) {
				stride := strideOfKills(on.name == "")
				// Not all from the first, so that together they come by more steps.
				for k := 1 + (2*i+j)%stride; ; k += stride {
					if !killOnce(t, tt.killed, k, on.elsewhere, on.plain, tt.after) {
						t.Logf("fewer than %d steps", k)
						break
					}
					if t.Failed() {
						break
					}
				}
			})
		}
	}
}

// strideOfKills is 1 where every step is tried: elsewhere the steps are the same but for a
// few, and all of them take minutes. AIRLOCK_TEST_EVERY_KILL asks for these minutes.
func strideOfKills(usual bool) int {
	switch {
	case os.Getenv("AIRLOCK_TEST_EVERY_KILL") != "":
		return 1
	case underRace && usual:
		return 7
	case underRace:
		return 23
	case usual:
		return 1
	}
	return 7
}

func killOnce(t *testing.T, what string, k int, elsewhere, plain bool, after func(w *world)) (killed bool) {
	t.Run(strconv.Itoa(k), func(t *testing.T) {
		w := fastWorld(t, elsewhere)
		w.plain = plain
		if what == "undo" {
			if _, err := w.commit(nil); err != nil {
				t.Fatalf("Commit: %v", err)
			}
		}
		var where string
		if where, killed = w.killedAt(what, k); !killed {
			return
		}
		w.whole()
		after(w)
		w.noLeftovers()
		if t.Failed() {
			t.Logf("step %d, %s", k, where)
		}
	})
	return killed
}

func TestKillTheRecoveryToo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts hundreds of processes")
	}
	// Primes, so that the pairs of steps fall everywhere without being chosen.
	rounds := 90
	if underRace && os.Getenv("AIRLOCK_TEST_EVERY_KILL") == "" {
		rounds = 12
	}
	for i := range rounds {
		first, second, third := 1+i*37%92, 1+i*53%89, 1+i*71%83
		what := []string{"commit", "undo"}
		t.Run(fmt.Sprint(first, second, third), func(t *testing.T) {
			w := fastWorld(t, i%4 == 1)
			w.plain = i%5 == 1
			if _, killed := w.killedAt("commit", first); !killed {
				return
			}
			a, _ := w.killedAt(what[i%2], second)
			w.whole()
			b, _ := w.killedAt(what[i/2%2], third)
			w.whole()
			if i%3 == 0 {
				if _, err := w.undo(nil); err != nil && !strings.Contains(err.Error(), "nothing to undo") {
					t.Fatalf("Undo: %v\n%s%s", err, a, b)
				}
			}
			if _, err := w.commit(nil); err != nil {
				t.Fatalf("Commit: %v\n%s%s", err, a, b)
			}
			w.isBox()
			if _, err := w.undo(nil); err != nil {
				t.Fatalf("Undo: %v\n%s%s", err, a, b)
			}
			w.isOld()
			w.noLeftovers()
			if t.Failed() {
				t.Logf("%s%s", a, b)
			}
		})
	}
}

// fastWorld is the world of everything, in memory where that can be: a kill does not
// depend on the disk, and syncs are what takes the time. With elsewhere, the store is
// on another file system.
func fastWorld(t *testing.T, elsewhere bool) *world {
	t.Helper()
	dir := inMemory(t)
	if !elsewhere {
		return newWorldIn(t, dir, "", everything, everythingChanged)
	}
	sets := t.TempDir()
	var a, b unix.Stat_t
	if unix.Stat(dir, &a) != nil || unix.Stat(sets, &b) != nil || a.Dev == b.Dev {
		t.Skip("/dev/shm and the temporary folder are one file system")
	}
	w := newWorldIn(t, dir, sets, everything, everythingChanged)
	w.loose = true
	return w
}

// inMemory is T.TempDir in memory, where that can be.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "airlock-test-") //nolint:usetesting // T.TempDir cannot be put in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
