package changes

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errHost is every host call's answer where the host is not Linux.
var errHost = errors.New("files of the host are read and changed on Linux only")

// shown is p for an error message: quoted where it holds what a terminal would obey or
// hide.
func shown(p Path) string {
	s := string(p)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// parentOf is the folder that p is in; the root is in itself.
func parentOf(p Path) Path {
	i := strings.LastIndexByte(string(p), '/')
	if i <= 0 {
		return "/"
	}
	return p[:i]
}

// baseOf is p's last component.
func baseOf(p Path) string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// child is name in the folder dir.
func child(dir Path, name string) Path {
	if dir == "/" {
		return Path("/" + name)
	}
	return dir + "/" + Path(name)
}

// within reports whether p is dir or below it.
func within(p, dir Path) bool {
	if dir == "/" || p == dir {
		return true
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}
