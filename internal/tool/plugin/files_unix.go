//go:build unix

package plugin

import (
	"io/fs"
	"os"
	"syscall"
)

// trusted refuses what somebody else than this user and the superuser can change. The
// group counts as somebody else, unless it is its owner's own, which by custom has the
// owner's number.
func trusted(st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return errOwner
	}
	if sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return errOwner
	}
	mode := st.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && sys.Gid != sys.Uid {
		return errOthers
	}
	return nil
}

func mayRun(st fs.FileInfo) bool { return st.Mode().Perm()&0o111 != 0 }
