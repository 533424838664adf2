//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

// ownersKnown says that files have owners and modes here.
const ownersKnown = true

// owner is the user that a file belongs to; -1 where that is not known.
func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
