package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

func TestHostPathsNeverLeadOut(t *testing.T) {
	root := t.TempDir()
	out := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(out, "secret"), []byte("secret"), 0o644),
		os.Mkdir(filepath.Join(root, "d"), 0o755),
		os.WriteFile(filepath.Join(root, "d/f"), []byte("f"), 0o644),
		os.Symlink(out, filepath.Join(root, "abs")),
		os.Symlink("../"+filepath.Base(out), filepath.Join(root, "rel")),
		os.Symlink("d", filepath.Join(root, "inside")),
		os.Symlink("/proc/self/root", filepath.Join(root, "magic")),
		unix.Mkfifo(filepath.Join(root, "fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, walk := range []bool{false, true} {
		for _, tt := range []struct {
			name string
			path changes.Path
			want error
		}{
			{"a real file", "/d/f", nil},
			{"through an absolute link", "/abs/secret", fs.ErrNotExist},
			{"through a relative link", "/rel/secret", fs.ErrNotExist},
			{"through a link that stays inside", "/inside/f", fs.ErrNotExist},
			{"through a magic link", "/magic/etc/passwd", fs.ErrNotExist},
			{"through a file", "/d/f/x", fs.ErrNotExist},
			{"upwards", "/../" + changes.Path(filepath.Base(out)) + "/secret", fs.ErrInvalid},
			{"upwards from below", "/d/../../x", fs.ErrInvalid},
			{"not absolute", "d/f", fs.ErrInvalid},
			{"with NUL", "/d/f\x00", fs.ErrInvalid},
			{"nothing", "/none", fs.ErrNotExist},
		} {
			t.Run(fmt.Sprintf("%s, openat2 %t", tt.name, !walk), func(t *testing.T) {
				_, err := changes.HostLstat(root, tt.path, walk)
				if !errors.Is(err, tt.want) {
					t.Errorf("Lstat(%q): err = %v, want %v", tt.path, err, tt.want)
				}
				f, err := changes.HostOpen(root, tt.path, walk)
				if (err == nil) != (tt.want == nil) {
					t.Errorf("Open(%q): err = %v", tt.path, err)
				}
				_ = f.Close()
			})
		}
		for _, p := range []changes.Path{"/abs", "/fifo", "/d", "/"} {
			if f, err := changes.HostOpen(root, p, walk); err == nil {
				_ = f.Close()
				t.Errorf("Open(%q) opened what is no regular file", p)
			}
		}
		if n, err := changes.HostLstat(root, "/abs", walk); err != nil || n.Type != changes.Symlink || string(n.Target) != out {
			t.Errorf("Lstat of a link: %+v, %v", n, err)
		}
		deep := changes.Path(strings.Repeat("/"+strings.Repeat("n", 250), 20))
		if _, err := changes.HostLstat(root, deep, walk); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Lstat of a path longer than PATH_MAX: %v", err)
		}
	}
}

// swapper exchanges a folder and a link to a victim's folder as fast as it can.
func swapper(t *testing.T, a, b string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil || n%2 == 1; n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	})
	return func() { cancel(); wg.Wait() }
}

func TestRaceOfLookingThroughASwappedFolder(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(out, "f"), []byte("secret"), 0o644),
		os.Mkdir(filepath.Join(root, "d"), 0o755),
		os.WriteFile(filepath.Join(root, "d/f"), []byte("mine"), 0o644),
		os.Symlink(out, filepath.Join(root, "x")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer swapper(t, filepath.Join(root, "d"), filepath.Join(root, "x"))()
	seen := 0
	for i := range 20000 {
		f, err := changes.HostOpen(root, "/d/f", i%2 == 0)
		if err != nil {
			continue
		}
		data, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil || string(data) != "mine" {
			t.Fatalf("read %q, %v through a swapped folder", data, err)
		}
		seen++
	}
	t.Logf("opened %d of 20000", seen)
}

func TestRaceOfCommittingIntoASwappedFolder(t *testing.T) {
	w := newWorldIn(t, inMemory(t), "", small, smallChanged)
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o755))
	w.write(victim, "one", "the victim's")
	w.must(os.Symlink(victim, filepath.Join(w.dir, "trap")))
	was := snapshot(t, victim, true)
	done, refused := 0, 0
	rounds := 90 // each of the steps at which the attack begins comes twice
	if underRace {
		rounds = 45
	}
	for i := range rounds {
		// The attack begins at another step each time, so that it is not always seen at once.
		var stop func()
		o, n := &changes.CommitOptions{Root: w.host}, 0
		o.OnStep(func(string) {
			if n++; n == i%45 {
				stop = swapper(t, filepath.Join(w.host, "w/sub"), filepath.Join(w.dir, "trap"))
			}
		}, i%4 == 3)
		_, err := w.store.Commit(t.Context(), testID, o)
		if stop == nil {
			stop = swapper(t, filepath.Join(w.host, "w/sub"), filepath.Join(w.dir, "trap"))
		}
		if err == nil {
			done++
			_, err = w.undo(nil)
		}
		if err != nil {
			refused++
		}
		stop()
		if d := differ(snapshot(t, victim, true), was); d != "" {
			t.Fatalf("the victim's folder was changed:\n%s", d)
		}
		for range 2 { // whatever was begun can be taken back now
			if _, err := w.undo(nil); err != nil && !errors.Is(err, changes.ErrNotUndoable) {
				t.Fatalf("Undo afterwards: %v", err)
			}
		}
		if d := differ(snapshot(t, w.host, false), withoutTimes(w.was)); d != "" {
			t.Fatalf("the host is not as it was:\n%s", d)
		}
	}
	t.Logf("%d committed, %d refused", done, refused)
}

func TestAWriteBetweenCheckAndSwitchIsNotLost(t *testing.T) {
	for _, tt := range []struct{ name, at, path string }{
		{"a changed file", "switch /w/edit", "edit"},
		{"a deleted file", "switch /w/gone", "gone"},
		{"a file in a deleted folder", "switch /w/tree", "tree/x"},
		{"a new file in a deleted folder", "switch /w/tree", "tree/new"},
		{"a file where one is added", "switch /w/sub/two", "sub/two"},
		{"a file whose mode is set", "set /w/mode", "mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, small, smallChanged)
			o := &changes.CommitOptions{Root: w.host}
			o.OnStep(func(name string) {
				if name == tt.at {
					w.write(w.host+"/w", tt.path, "written at the last moment")
				}
			}, false)
			_, err := w.store.Commit(t.Context(), testID, o)
			var c *changes.ConflictError
			if !errors.As(err, &c) || !errors.Is(err, changes.ErrRolledBack) {
				t.Fatalf("Commit: err = %v, want a conflict, rolled back", err)
			}
			if got := w.read("w/" + tt.path); got != "written at the last moment" {
				t.Errorf("%s = %q", tt.path, got)
			}
			got, want := snapshot(t, w.host, false), withoutTimes(w.was)
			delete(got, "/w/"+tt.path)
			delete(want, "/w/"+tt.path)
			if d := differ(got, want); d != "" {
				t.Errorf("the rest is not as it was:\n%s", d)
			}
			w.noLeftovers()
		})
	}
}

func TestCancelAtEveryStep(t *testing.T) {
	for k := 1; ; k++ {
		w := fastWorld(t, k%2 == 0)
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		o := &changes.CommitOptions{Root: w.host}
		o.OnStep(func(string) {
			if steps++; steps == k {
				cancel()
			}
		}, k%3 == 0)
		_, err := w.store.Commit(ctx, testID, o)
		cancel()
		if err == nil {
			w.isBox()
		} else {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, changes.ErrRolledBack) {
				t.Fatalf("step %d: err = %v, want canceled and rolled back", k, err)
			}
			w.isOld()
		}
		w.noLeftovers()
		if t.Failed() {
			t.Fatalf("step %d", k)
		}
		if steps < k {
			break
		}
	}
}

func TestAFullDiskRollsBack(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	host := filepath.Join(dir, "small")
	w := newWorld(t, small, func(w *world, r string) {
		smallChanged(w, r)
		w.write(r, "zz-large", strings.Repeat("large", 400<<10))
	})
	if err := exec.CommandContext(t.Context(), "cp", "-a", w.host, host).Run(); err != nil {
		t.Fatal(err)
	}
	w.host = host
	w.was = snapshot(t, w.host, true)
	_, err := w.commit(nil)
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, changes.ErrRolledBack) {
		t.Fatalf("Commit: err = %v, want no space, rolled back", err)
	}
	w.isOld()
	w.noLeftovers()
	if list, err := w.store.Interrupted(); len(list) != 0 || err != nil {
		t.Errorf("Interrupted: %v, %v", list, err)
	}
}

func TestTwoAtOnceIsBusy(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	unlock, err := w.store.Lock(testID)
	w.must(err)
	if _, err := w.commit(nil); !errors.Is(err, changes.ErrBusy) {
		t.Errorf("Commit: err = %v, want ErrBusy", err)
	}
	if _, err := w.undo(nil); !errors.Is(err, changes.ErrBusy) {
		t.Errorf("Undo: err = %v, want ErrBusy", err)
	}
	unlock()
	if _, err := w.commit(nil); err != nil {
		t.Errorf("Commit: %v", err)
	}
}

func TestWithoutTheRightNothingIsTouched(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root has every right; TestAsAnOrdinaryUser runs this")
	}
	for _, tt := range []struct {
		name   string
		meddle func(w *world, r string)
	}{
		{"a folder that may not be written", func(w *world, r string) { w.must(os.Chmod(filepath.Join(r, "sub"), 0o555)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, small, smallChanged)
			tt.meddle(w, filepath.Join(w.host, "w"))
			w.was = snapshot(t, w.host, true)
			if _, err := w.commit(nil); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "/w/sub") {
				t.Errorf("Commit: err = %v, want permission denied by name", err)
			}
			w.isOld()
		})
	}
}

// TestAsAnOrdinaryUser runs the tests of this part once more without root's rights.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user")
	}
	dir, err := os.MkdirTemp("", "airlock-nobody-") //nolint:usetesting // T.TempDir lies in a folder that is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := filepath.Join(dir, "changes.test")
	for _, err := range []error{
		exec.CommandContext(t.Context(), "cp", os.Args[0], bin).Run(),
		os.Chmod(bin, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Chown(filepath.Join(dir, "tmp"), 65534, 65534),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run", "Conflicts|Force|Named|CommitAndUndo|Notable|DryRun|Right|Cancel|LastMoment|Undo|Owner|Remove")
	cmd.Dir = filepath.Join(dir, "tmp")
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as user 65534: %v\n%s", err, out)
	}
}
