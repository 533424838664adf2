package statedb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/statedb"
)

func TestADiskThatIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	path := filepath.Join(dir, "x.db")
	d := open(t, path, things())
	must(t, add(t.Context(), d, "a"))
	f, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	must(t, f.Close())
	for range 10 {
		if err = add(t.Context(), d, strings.Repeat("x", 20_000)); err != nil {
			break
		}
	}
	if !statedb.Full(err) || !strings.Contains(err.Error(), "make room on its disk") {
		t.Errorf("Write: err = %v, want that there is no room", err)
	}
	must(t, os.Remove(f.Name()))
	must(t, add(t.Context(), d, "b"))
	got := names(t, d)
	if got[0] != "a" || got[len(got)-1] != "b" {
		t.Errorf("it holds %d", len(got))
	}
	must(t, d.Close())
}
