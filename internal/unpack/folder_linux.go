package unpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/fastsys"
)

// A folder is an open folder. What it does, it does to a single name in it, and it never
// follows a link of that name.
type folder struct{ fd int }

const (
	openFlags   = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	direntBytes = 16 << 10
	folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | openFlags
)

// openRoot opens the folder that everything happens below. Links on the way to it are followed: it is the caller's word.
func openRoot(path string) (folder, error) {
	fd, err := openat(unix.AT_FDCWD, path, folderFlags&^unix.O_NOFOLLOW, 0)
	if err != nil {
		return folder{-1}, fmt.Errorf("open %s: %w", path, err)
	}
	return folder{fd}, nil
}

func openat(at int, name string, flags int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = fastsys.Openat(at, name, flags, perm)
		return err
	})
	return fd, err
}

// retry repeats a system call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (f folder) close() { _ = fastsys.Close(f.fd) }

// open opens the folder of a name; errNoFolder says that it is something else.
func (f folder) open(name string) (folder, error) {
	fd, err := openat(f.fd, name, folderFlags, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = errNoFolder
	}
	return folder{fd}, err
}

func (f folder) mkdir(name string, perm uint32) error { return fastsys.Mkdirat(f.fd, name, perm) }
func (f folder) symlink(text, name string) error      { return unix.Symlinkat(text, f.fd, name) }
func (f folder) rename(from, to string) error         { return unix.Renameat(f.fd, from, f.fd, to) }

// link gives the file that has a name in from, and if that is a link the link itself, another name.
func (f folder) link(from folder, old, name string) error {
	return unix.Linkat(from.fd, old, f.fd, name, 0)
}

func (f folder) remove(name string, isFolder bool) error {
	flags := 0
	if isFolder {
		flags = unix.AT_REMOVEDIR
	}
	return unix.Unlinkat(f.fd, name, flags)
}

func (f folder) lstat(name string) (stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return stat{}, err
	}
	return statOf(&st), nil
}

func (f folder) stat() (stat, error) { return fstat(f.fd) }

func fstat(fd int) (stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return fastsys.Fstat(fd, &st) }); err != nil {
		return stat{}, err
	}
	return statOf(&st), nil
}

func statOf(st *unix.Stat_t) stat {
	return stat{
		kind: st.Mode & unix.S_IFMT, perm: st.Mode & 0o7777,
		dev: uint64(st.Dev), ino: st.Ino, links: uint64(st.Nlink), rdev: st.Rdev,
		uid: int(st.Uid), gid: int(st.Gid),
		size: st.Size, blocks: st.Blocks, mtime: time.Unix(st.Mtim.Unix()),
	}
}

func (f folder) readlink(name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(f.fd, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// names lists what is in the folder, in no order.
func (f folder) names() ([]string, error) {
	fd, err := openat(f.fd, ".", folderFlags, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return names, cause(err)
}

// cause is the system's own error, without the words of package os.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// lown and ltimes are for links, which have nothing to open.
func (f folder) lown(name string, uid, gid int) error {
	return unix.Fchownat(f.fd, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

func (f folder) ltimes(name string, t time.Time) error {
	ts := times(t)
	return unix.UtimesNanoAt(f.fd, name, ts[:], unix.AT_SYMLINK_NOFOLLOW)
}

// times are an access time of now and a modification time that file systems can hold.
func times(t time.Time) [2]unix.Timespec {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		ts = unix.Timespec{}
	}
	return [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}
}

// mkfifo makes a named pipe and opens it, without anybody at its other end.
func (f folder) mkfifo(name string) (file, error) {
	if err := unix.Mknodat(f.fd, name, unix.S_IFIFO|0o600, 0); err != nil {
		return file{-1}, err
	}
	fd, err := openat(f.fd, name, unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return file{-1}, err
	}
	if st, err := fstat(fd); err != nil || st.kind != kindFIFO {
		_ = fastsys.Close(fd)
		return file{-1}, errors.Join(err, ErrExists)
	}
	return file{fd}, nil
}

// create makes a file that was not there.
func (f folder) create(name string, perm uint32) (file, error) {
	fd, err := openat(f.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, perm)
	return file{fd}, err
}

// asFile is the folder, for its modes, times and owner. It stays the folder's to close.
func (f folder) asFile() file { return file(f) }

// A file is an open file, or what else has modes and times.
type file struct{ fd int }

func (f file) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		var n int
		err := retry(func() (err error) {
			n, err = fastsys.Write(f.fd, p[done:])
			return err
		})
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrShortWrite
		}
		done += n
	}
	return done, nil
}

// hole moves on without writing.
func (f file) hole(n int64) error {
	_, err := unix.Seek(f.fd, n, io.SeekCurrent)
	return err
}

func (f file) truncate(size int64) error {
	return retry(func() error { return unix.Ftruncate(f.fd, size) })
}

func (f file) close() error               { return fastsys.Close(f.fd) }
func (f file) own(uid, gid int) error     { return fastsys.Fchown(f.fd, uid, gid) }
func (f file) chmod(perm uint32) error    { return fastsys.Fchmod(f.fd, perm) }
func (f file) xattr(name, v string) error { return unix.Fsetxattr(f.fd, name, []byte(v), 0) }

func (f file) times(t time.Time) error {
	ts := times(t)
	// The name is empty: the descriptor itself is meant. Kernels without AT_EMPTY_PATH here know it by /proc.
	err := fastsys.Futimens(f.fd, &ts)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(f.fd), ts[:], 0)
	}
	return err
}

var (
	errAbsent = error(unix.ENOENT)
	errThere  = error(unix.EEXIST)
)

// unsupported are the errors of attributes that a file system does not have, or does not let us set.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
}

// notOurs are the errors of an owner that nobody here may give to, or that does not exist here.
func notOurs(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) }

func isRoot() bool { return unix.Geteuid() == 0 }

// dup is the folder once more, to be closed by itself.
func (f folder) dup() (folder, error) {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	return folder{fd}, err
}

// nameAllowed tells what can be one name in a folder.
func nameAllowed(string) bool { return true }

// read opens a regular file and nothing else.
func (f folder) read(name string) (file, stat, error) {
	fd, err := openat(f.fd, name, unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return file{-1}, stat{}, err
	}
	st, err := fstat(fd)
	if err == nil && st.kind != kindFile {
		err = ErrKind
	}
	if err != nil {
		_ = fastsys.Close(fd)
		return file{-1}, st, err
	}
	return file{fd}, st, nil
}

func (f file) Read(p []byte) (n int, err error) {
	err = retry(func() error {
		n, err = fastsys.Read(f.fd, p)
		return err
	})
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// each calls do with the names in the folder, in no order, and with their kinds where the file system tells
// them and 0 where not. It keeps few of them in memory. The folder is read once.
func (f folder) each(do func(name string, kind uint32) error) error {
	buf := make([]byte, direntBytes)
	for {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Getdents(f.fd, buf)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			name, _, _ := bytes.Cut(rest[19:size], []byte{0})
			kind := uint32(rest[18]) << 12 // DT_REG and the like are S_IFREG's upper bits
			rest = rest[size:]
			if s := string(name); s != "." && s != ".." {
				if err := do(s, kind); err != nil {
					return err
				}
			}
		}
	}
}
