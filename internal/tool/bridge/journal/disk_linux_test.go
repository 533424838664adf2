package journal_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/tool/bridge/setup"
)

// TestFullDisk: lines that have no room are missing, and those that come when there is room
// again are lines of their own.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk, which wants root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	defer func() { must(t, syscall.Unmount(disk, syscall.MNT_DETACH)) }()
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 32<<10), 0o600))
	l := &setup.Logging{File: filepath.Join(disk, "bridge.log")}
	log, closer := rotating(t, l)
	for range 30 {
		record(slog.LevelInfo, strings.Repeat("x", 10_000))(log)
	}
	must(t, os.Remove(ballast))
	log.Info("there is room again")
	if err := closer.Close(); err == nil || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), "missing: ") {
		t.Errorf("Close: err = %v, want one that says what to do and counts", err)
	}
	lines := strings.Split(strings.TrimSuffix(read(t, l.File), "\n"), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "[") || !strings.HasSuffix(last, ": there is room again") {
		t.Errorf("the last line is %q", last)
	}
	if torn := lines[len(lines)-2]; len(torn) >= 10_000 {
		t.Errorf("no line was torn, so nothing was tried: the last but one has %d bytes", len(torn))
	}
}
