package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A hostFS is a tree of real files seen through a descriptor of its root. No method
// follows a symbolic link in any component, and none can leave the tree: not by a link,
// not by "..", not by a folder that somebody swaps for a link between two calls.
//
// It is safe for concurrent use until Close.
type hostFS struct {
	root   int
	walker atomic.Bool // openat2 is missing here: walk component by component
}

// beneath is how every path is resolved.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openHost opens the tree below root. The root itself is the caller's word: links in
// its own name are followed.
func openHost(root string) (*hostFS, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the folder %s: %w", root, err)
	}
	return &hostFS{root: fd}, nil
}

// Close gives the root back. A second Close does nothing.
func (h *hostFS) Close() error {
	if h == nil || h.root < 0 {
		return nil
	}
	fd := h.root
	h.root = -1
	return unix.Close(fd)
}

// Lstat describes what is at p itself. Where there is nothing, or where a component on
// the way is a link or no folder, the error is fs.ErrNotExist: through real folders,
// nothing is there.
func (h *hostFS) Lstat(p Path) (*Node, error) {
	fd, err := h.handle(p)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := nodeOf(fd)
	if err != nil {
		return nil, hostError("look at", p, err)
	}
	return n, nil
}

// Open opens the regular file at p for reading, and nothing else: not a folder, not a
// device, and not a FIFO, on which it would wait.
func (h *hostFS) Open(p Path) (*os.File, error) {
	fd, err := h.openAt(p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, hostError("open", p, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, hostError("open", p, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, fmt.Errorf("open %s: not a regular file", shown(p))
	}
	return os.NewFile(uintptr(fd), string(p)), nil
}

// ReadDir returns the names in the folder at p, sorted as bytes.
func (h *hostFS) ReadDir(p Path) ([]string, error) {
	fd, err := h.openAt(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, hostError("list", p, err)
	}
	f := os.NewFile(uintptr(fd), string(p))
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", shown(p), err)
	}
	slices.Sort(names)
	return names, nil
}

// handle opens p itself, whatever it is, without reading or writing it.
func (h *hostFS) handle(p Path) (int, error) {
	fd, err := h.openAt(p, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, hostError("look at", p, err)
	}
	return fd, nil
}

// openAt opens p below the root. The last component may be a link only with O_PATH and
// O_NOFOLLOW, which open the link itself.
func (h *hostFS) openAt(p Path, flags int) (int, error) {
	rel, err := relative(p)
	if err != nil {
		return -1, err
	}
	flags |= unix.O_CLOEXEC
	if rel == "." {
		return retry(func() (int, error) { return unix.Openat(h.root, ".", flags, 0) })
	}
	if !h.walker.Load() {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: beneath}
		fd, err := retry(func() (int, error) { return unix.Openat2(h.root, rel, &how) })
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM) && !h.hasOpenat2():
			h.walker.Store(true) // an old kernel, or a seccomp filter that does not know the call
		case errors.Is(err, unix.ENAMETOOLONG): // the whole path may be, where no component is
		default:
			return -1, err
		}
	}
	return h.walk(rel, flags)
}

// hasOpenat2 tells a filter that forbids openat2 from a file that may not be opened.
func (h *hostFS) hasOpenat2() bool {
	fd, err := unix.Openat2(h.root, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: beneath})
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// walk opens rel one component at a time. O_NOFOLLOW with O_DIRECTORY refuses a link at
// each, so it resolves as openat2 does; ".." never gets here.
func (h *hostFS) walk(rel string, flags int) (int, error) {
	dir := h.root
	closeDir := func() {
		if dir != h.root {
			unix.Close(dir)
		}
	}
	for {
		name, rest, more := strings.Cut(rel, "/")
		how := flags | unix.O_NOFOLLOW
		if more {
			how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		fd, err := retry(func() (int, error) { return unix.Openat(dir, name, how, 0) })
		closeDir()
		if err != nil || !more {
			return fd, err
		}
		dir, rel = fd, rest
	}
}

// relative turns a Path into what *at calls take, and refuses what is not absolute and
// clean: "..", empty components and NUL.
func relative(p Path) (string, error) {
	rest, ok := strings.CutPrefix(string(p), "/")
	if !ok || strings.IndexByte(rest, 0) >= 0 {
		return "", fs.ErrInvalid
	}
	if rest == "" {
		return ".", nil
	}
	for name := range strings.SplitSeq(rest, "/") {
		if name == "" || name == "." || name == ".." {
			return "", fs.ErrInvalid
		}
	}
	return rest, nil
}

// retry repeats a call that a signal, or a rename elsewhere in the tree, cut short.
// Those end by themselves; the bound is for a machine on which they do not.
func retry(call func() (int, error)) (int, error) {
	for range 1000 {
		n, err := call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
	return -1, unix.EAGAIN
}

// hostError says what was tried. ELOOP, ENOTDIR and EXDEV on the way to a path all mean
// that nothing is there through real folders.
func hostError(what string, p Path, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("%s %s: %w: %w", what, shown(p), fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s %s: %w", what, shown(p), err)
}

// nodeOf describes an open handle.
func nodeOf(fd int) (*Node, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	n := &Node{
		Size: st.Size, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid,
		MTime: time.Unix(st.Mtim.Unix()).UTC(), CTime: time.Unix(st.Ctim.Unix()).UTC(),
		Dev: st.Dev, Ino: st.Ino, Nlink: uint64(st.Nlink), //nolint:unconvert // 32 bits wide on arm64
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		n.Type = File
	case unix.S_IFDIR:
		n.Type = Dir
	case unix.S_IFLNK:
		n.Type = Symlink
	case unix.S_IFIFO:
		n.Type = Fifo
	default:
		n.Type = Device // sockets too: neither is ever committed
	}
	var err error
	switch n.Type {
	case Symlink:
		n.Target, err = readLink(fd)
	case File, Dir:
		n.Xattrs, err = userXattrs(fd)
	}
	if n.Type != File {
		n.Size = 0
	}
	return n, err
}

func readLink(fd int) (Path, error) {
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return Path(buf[:n]), nil
}

// procPath names an open handle, for the calls that take no descriptor made by O_PATH.
// It leads to the object itself, whatever has become of its name.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// userXattrs reads the user.* attributes; where there cannot be any, or none may be
// read, there are none.
func userXattrs(fd int) (map[string][]byte, error) {
	name := procPath(fd)
	names, err := xattrBytes(func(buf []byte) (int, error) { return unix.Listxattr(name, buf) })
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var out map[string][]byte
	for key := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if !strings.HasPrefix(key, "user.") {
			continue
		}
		value, err := xattrBytes(func(buf []byte) (int, error) { return unix.Getxattr(name, key, buf) })
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make(map[string][]byte)
		}
		out[key] = value
	}
	return out, nil
}

// xattrBytes calls get with a buffer that is large enough, even while it grows.
func xattrBytes(get func([]byte) (int, error)) ([]byte, error) {
	var buf []byte
	for range 100 {
		n, err := get(buf)
		switch {
		case errors.Is(err, unix.ERANGE):
			buf = nil
			continue
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENODATA), errors.Is(err, unix.EACCES),
			errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOENT):
			return nil, nil
		case err != nil:
			return nil, err
		case n <= len(buf):
			return buf[:n:n], nil
		}
		buf = make([]byte, n)
	}
	return nil, unix.ERANGE
}

// hostWorks is nil where commits can be made.
func hostWorks() error { return nil }
