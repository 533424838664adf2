package hostview_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/hostview"
)

func TestForeignProc(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"/proc", "/proc/self/environ", dir, filepath.Join(dir, "none")} {
		if hostview.ForeignProc(path) {
			t.Errorf("ForeignProc(%q) = true", path)
		}
	}
	if err := unix.Mount("proc", dir, "proc", 0, ""); errors.Is(err, os.ErrPermission) {
		t.Skip("a process file system can only be mounted by the superuser: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{dir, filepath.Join(dir, "self/environ"), filepath.Join(dir, "1/status")} {
		if !hostview.ForeignProc(path) {
			t.Errorf("ForeignProc(%q) = false", path)
		}
	}
}
