package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/audit"
)

// TestFullDisk: a disk without room is an error that says so, and leaves a chain.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk, which wants root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	l, err := audit.Open(filepath.Join(disk, "record.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	written := int64(0)
	for range 1000 {
		if err = l.Record(t.Context(), "call", "id", strings.Repeat("some text ", 1000)); err != nil {
			break
		}
		written++
	}
	if err == nil || !strings.Contains(err.Error(), "room") {
		t.Errorf("Record on a full disk: err = %v, after %d rows", err, written)
	}
	if rep, err := l.Verify(t.Context()); err != nil || rep.Rows != written {
		t.Errorf("Verify = %+v, %v, want %d rows", rep, err, written)
	}
}
