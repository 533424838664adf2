package changes

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// shown is p for an error message: quoted where it holds what a terminal would obey or
// hide.
func shown(p Path) string {
	s := string(p)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// child is name in the folder dir.
func child(dir Path, name string) Path {
	if dir == "/" {
		return Path("/" + name)
	}
	return dir + "/" + Path(name)
}

// A place is a path in one of the trees a commit works in: the host's, or the folder of
// the change set.
type place struct {
	fs   *hostFS
	path Path
}

// errExists is renameNew's answer where something has the new name already.
var errExists = os.ErrExist

// errNotEmpty is the answer of Remove for a folder that holds something.
var errNotEmpty error = syscall.ENOTEMPTY

// errNoSwap is swap's answer on a file system that cannot exchange two names.
var errNoSwap = errors.New("this file system cannot exchange two names")

// A given says what setMeta could not do as asked.
type given struct {
	owner bool // the owner or group is not the one asked for
	suid  bool // set-uid or set-gid was taken off because the owner could not be given
}

// blocked reports whether nothing was found because a component on the way is a link or
// no folder. That says nothing of the folder that was there before: it may return.
func blocked(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EXDEV)
}

// gone reports whether err says that there is really nothing.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) && !blocked(err) }
