package hostview

import (
	"strings"

	"golang.org/x/sys/unix"
)

// ForeignProc reports whether a path, resolved, is in a process file system that is mounted
// elsewhere than at /proc: what is told of processes there, their environments among it, is
// nobody's business who reads files.
func ForeignProc(path string) bool {
	if path == "/proc" || strings.HasPrefix(path, "/proc/") {
		return false // known by its name
	}
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}
