//go:build unix

package material

import (
	"io/fs"
	"os"
	"syscall"
)

// mine reports whether a file is the person's or root's. Root, who may work in anybody's
// folder, takes everybody's.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return ok && (me == 0 || st.Uid == 0 || int(st.Uid) == me)
}
