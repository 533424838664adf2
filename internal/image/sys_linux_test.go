package image_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

func attribute(t *testing.T, path, name string) []byte {
	t.Helper()
	buf := make([]byte, 256)
	n, err := unix.Lgetxattr(path, name, buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}
