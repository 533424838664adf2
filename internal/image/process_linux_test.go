package image_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/image"
)

const (
	childDir = "IMAGE_TEST_CHILD_DIR" // the store of a test's child process
	childRef = "IMAGE_TEST_CHILD_REF" // what it pulls
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir, os.Getenv(childRef)))
	}
	os.Exit(m.Run())
}

// child pulls an image and says where it is.
func child(dir, ref string) int {
	s, err := image.Open(dir, &image.Options{Backoff: time.Millisecond})
	if err == nil {
		var img *image.Image
		if img, err = s.Pull(context.Background(), ref, &image.PullOptions{Owner: fmt.Sprint("child-", os.Getpid())}); err == nil {
			fmt.Println(img.RootDir)
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func childCommand(t *testing.T, dir, ref string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRef+"="+ref)
	return cmd
}

func TestProcessesShareTheWork(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	l := layerOf(t, file("a", noise(500_000, 1)))
	h.push(t, "a:1", imageOf(t, l))
	dir := filepath.Join(fastDir(t), "images")
	var children []*exec.Cmd
	for range 4 {
		cmd := childCommand(t, dir, h.ref("a:1"))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a child: %v", err)
		}
	}
	if n := h.asked("GET " + blobPath("a", digestOf(t, l))); n != 1 {
		t.Errorf("the layer was fetched %d times", n)
	}
	s := storeAt(t, dir, nil)
	if holders, err := s.Holders(t.Context()); err != nil || len(holders) != 4 {
		t.Errorf("Holders = %v, %v; want four", holders, err)
	}
	leftovers(t, s)
}

func TestKilledAtAnyMoment(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	var want []string
	var items []item
	for i := range 400 {
		items = append(items, file(fmt.Sprintf("d/f%03d", i), fmt.Sprint(i)))
		want = append(want, fmt.Sprintf("d/f%03d=%d", i, i))
	}
	want = append(want, "d/", "big="+noise(1_000_000, 7))
	h.push(t, "a:1", imageOf(t, layerOf(t, items...), layerOf(t, file("big", noise(1_000_000, 7)))))
	for _, moment := range []string{
		"locks/root-*", "partial/*", "blobs/*", "temp/*", "temp/*/fs/d", "temp/*/fs/d/f300", "temp/*/fs/big", "temp/*/fs/proc", "roots/*", "images/*.json", "refs/*.json", "holds/*",
	} {
		t.Run(strings.NewReplacer("/", " ", "*", "").Replace(moment), func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "images")
			// Some moments are so short that they are missed on a busy machine, again and again.
			for end := time.Now().Add(2 * time.Minute); !killWhen(t, childCommand(t, dir, h.ref("a:1")), filepath.Join(dir, moment)); {
				if time.Now().After(end) {
					t.Fatalf("it always ended before there was %s", moment)
				}
				if err := os.RemoveAll(dir); err != nil { // memory is scarcer than disks
					t.Fatal(err)
				}
			}
			s := storeAt(t, dir, nil)
			images, err := s.List(t.Context())
			if err != nil {
				t.Fatalf("List after the kill: %v", err)
			}
			for _, img := range images {
				wantTree(t, img.RootDir, want...)
			}
			wantTree(t, pull(t, s, h.ref("a:1"), nil).RootDir, want...)
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			leftovers(t, s)
		})
	}
}

// killWhen kills the child when something matches the pattern, and reports whether it did: it may have ended before.
func killWhen(t *testing.T, cmd *exec.Cmd, pattern string) bool {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it was killed
	}()
	for {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			_ = cmd.Process.Kill()
			<-ended
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(100 * time.Microsecond): // the child needs the processor, too
		}
	}
}

func TestAnOrdinaryUsersFilesAreItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	h := newHub(t, nil)
	below := layerOf(t, item{name: "closed/", mode: -1, uid: 7}, item{name: "closed/a", body: "1", mode: -1, uid: 7}, item{name: "su", mode: 0o4755})
	h.push(t, "a:base", imageOf(t, below))
	h.push(t, "a:1", imageOf(t, below, layerOf(t, file("closed/b", "2"), file("closed/.wh.a", ""))))
	const nobody = 65534
	dir := t.TempDir()
	if err := errors.Join(os.Chown(dir, nobody, nobody), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	as := func(ref string) string {
		cmd := childCommand(t, filepath.Join(dir, "images"), ref)
		cmd.Env = append(cmd.Env, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pull %s as nobody: %v", ref, err)
		}
		return strings.TrimSpace(string(out))
	}
	base, one := as(h.ref("a:base")), as(h.ref("a:1"))
	wantTree(t, base, "closed/", "closed/a=1", "su=")
	wantTree(t, one, "closed/", "closed/b=2", "su=")
	for path, mode := range map[string]fs.FileMode{"closed": 0o700 | fs.ModeDir, "closed/a": 0o400, "su": 0o755 | fs.ModeSetuid, "proc": 0o755 | fs.ModeDir} {
		info, err := os.Lstat(filepath.Join(base, path))
		if err != nil || info.Mode() != mode || ownerOf(info) != nobody {
			t.Errorf("%s: %v of %d, %v; want %v of nobody", path, info.Mode(), ownerOf(info), err, mode)
		}
	}
	_, err := image.Open(filepath.Join(dir, "images"), nil)
	wantError(t, err, nil, "belongs to user 65534", "AIRLOCK_HOME")
}

// small gives a store on a file system of its own.
func small(t *testing.T, options string) *image.Store {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return storeAt(t, filepath.Join(dir, "images"), nil)
}

func TestAFullDiskLeavesNothingHalfMade(t *testing.T) {
	home(t, "")
	var many []item
	for i := range 300 {
		many = append(many, file(fmt.Sprint("f", i), ""))
	}
	tests := []struct {
		name, options string
		layer         []item
		fill          bool // when the layer is asked for
	}{
		{"layers that are longer than what is free are not fetched", "size=1m", []item{file("a", noise(2<<20, 1))}, false},
		{"files that take more than what is free are not unpacked", "size=2m", []item{file("a", strings.Repeat("a", 4<<20))}, false},
		{"no more files", "size=4m,nr_inodes=150", many, false},
		{"the disk fills while a layer comes", "size=2m", []item{file("a", noise(1<<20, 1))}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			l := layerOf(t, test.layer...)
			h.push(t, "a:1", imageOf(t, l))
			s := small(t, test.options)
			filler := filepath.Join(s.Dir(), "filler")
			h.answer(func(_ http.ResponseWriter, r *http.Request) bool {
				if test.fill && strings.Contains(r.URL.Path, digestOf(t, l).Hex) {
					_ = os.WriteFile(filler, make([]byte, 4<<20), 0o600) // as far as it goes
				}
				return false
			})
			_, err := s.Pull(t.Context(), h.ref("a:1"), nil)
			wantError(t, err, image.ErrSpace)
			leftovers(t, s)
			if images, err := s.List(t.Context()); err != nil || len(images) != 0 {
				t.Errorf("List = %v, %v", images, err)
			}
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		})
	}
}
