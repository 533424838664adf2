//go:build unix

package setup

import (
	"io/fs"
	"os"
	"syscall"
)

// distrust says why a file that decides what is run is not trusted; "" where it is.
func distrust(st fs.FileInfo) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok || sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return "it belongs to another user, who could change what is run; make a copy of your own"
	case st.Mode().Perm()&0o002 != 0:
		return "everybody can write it, so it is not trusted; chmod o-w it"
	}
	return ""
}
