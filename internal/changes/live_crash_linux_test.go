package changes_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

// TestLivingChild is not a test: it is the process that reads a living set over and over
// until it is killed.
func TestLivingChild(t *testing.T) {
	spec := os.Getenv("AIRLOCK_TEST_LIVING") // store, root
	if spec == "" {
		t.Skip("only as a child of the test below")
	}
	sets, root, _ := strings.Cut(spec, "\x1f")
	l := &living{host: &host{t: t, root: root}, sets: sets, id: testID}
	l.open()
	for n := 0; ; n++ {
		now := up()
		for i := range 50 {
			now.file(fmt.Sprintf("./w/f%02d", i), fmt.Sprintf("%d of %d-%d", i, os.Getpid(), n))
		}
		if _, err := l.tryRead(now, true); err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 {
			if _, err := l.store.Commit(t.Context(), testID, &changes.CommitOptions{Root: root, Paths: []changes.Path{"/w/f00"}}); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println("read", n)
	}
}

func TestAReaderThatIsKilledLeavesOneWholeSet(t *testing.T) {
	l := newLiving(t, nil)
	for kill := range 12 {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLivingChild$")
		cmd.Env = append(os.Environ(), "AIRLOCK_TEST_LIVING="+l.sets+"\x1f"+l.root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n <= kill%4 && lines.Scan(); n++ {
			if !strings.HasPrefix(lines.Text(), "read ") {
				t.Errorf("the child says: %s", lines.Text())
			}
		}
		// It is somewhere in the next one by now.
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		l.open()
		set, err := l.store.Load(testID)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		// All of it is of one reading, and its contents are there.
		readings := map[string]bool{}
		for _, c := range set.Changes {
			f, err := l.store.Blob(testID, c.Blob)
			if err != nil {
				t.Fatalf("%s: %v", c.Path, err)
			}
			data, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			_, of, _ := strings.Cut(string(data), " of ")
			readings[of] = true
		}
		if len(set.Changes) < 49 || len(readings) != 1 {
			t.Fatalf("%d changes of the readings %v", len(set.Changes), readings)
		}
		if _, err := l.store.Recover(t.Context(), testID, nil); err != nil {
			t.Fatalf("Recover: %v", err)
		}
	}
	now := up()
	for i := range 50 {
		now.file(fmt.Sprintf("./w/f%02d", i), "the end")
	}
	if _, err := l.tryRead(now, true); err != nil {
		t.Fatal(err)
	}
	l.commit()
	l.want(now)
	for _, pattern := range []string{filepath.Join(l.sets, "draft-*"), filepath.Join(l.store.Dir(testID), "read-*", "set.json")} {
		if left, _ := filepath.Glob(pattern); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(l.store.Dir(testID), "read-*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestAFullDiskLeavesTheSetAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	l := newLiving(t, nil)
	l.sets = filepath.Join(dir, "sets")
	l.open()
	l.want(up().file("./w/a", "1"), `added "/w/a" new:file`)
	if _, err := l.tryRead(up().file("./w/a", "1").file("./w/large", strings.Repeat("large", 400<<10)), true); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("read: %v", err)
	}
	if set, err := l.store.Load(l.id); err != nil || show(set) != "added \"/w/a\" new:file\n" {
		t.Errorf("the set: %v, %v", set, err)
	}
	if left, _ := filepath.Glob(filepath.Join(l.sets, "draft-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	l.commit()
	l.has("/w/a", "1")
}

func FuzzInheritedIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"path":"/w/a","time":"2026-01-02T03:04:05Z","out":true,"node":{"type":"file","size":1,"mode":420,"uid":0,"gid":0,"mtime":"2026-01-02T03:04:05Z"},"known":true,"left":null}`))
	f.Add([]byte(`{"path":"/w","out":true,"node":{"type":"dir"},"known":true,"left":{"type":"dir"}}` + "\n" + `{"path":"/w/a/b/c","out":true,"node":{}}`))
	f.Add([]byte(`{"path":"/","out":true,"node":{"type":"file"}}`))
	f.Add([]byte(`{"path":"/../x"}`))
	f.Add([]byte(`{"path":"/w/secret","out":true}{"path":{"base64":"L3f/"},"out":true,"before":{"type":"dir"}}`))
	dir := f.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "w", "keep"), 0o755); err != nil {
		f.Fatal(err)
	}
	store, err := changes.OpenStore(filepath.Join(dir, "sets"))
	if err != nil {
		f.Fatal(err)
	}
	head := changes.Header{ID: testID, WorkDir: "/w", Live: true}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := store.Renew(t.Context(), head)
		if err == nil {
			err = w.Abort()
		}
		if err != nil && !strings.Contains(err.Error(), "inherited") {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(store.Dir(testID), "inherited.jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if w, err = store.Renew(t.Context(), head); err != nil {
			return
		}
		opts := &changes.ReadOptions{HostRoot: root, Hidden: []string{"/w/secret"}, Started: time.Unix(1, 0)}
		if err := changes.Read(t.Context(), bytes.NewReader(up().file("./w/a", "1").bytes(t)), w, opts); err != nil {
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			return
		}
		set, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range set.Changes {
			if c.Path.Below("/w/secret") && c.Refused == "" {
				t.Errorf("%s came out", c.Path)
			}
		}
	})
}
