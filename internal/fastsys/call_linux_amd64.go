package fastsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's own functions around a system call, so that others run while it lasts. They may be linked to, and keep
// their signatures, since others do (see the comments at them).

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// All have four arguments and the kernel's own result: an error as its negative.

//go:noescape
func rawRead(a int, b *byte, c, d int) int

//go:noescape
func rawWrite(a int, b *byte, c, d int) int

//go:noescape
func rawClose(a, b, c, d int) int

//go:noescape
func rawFstat(a int, b *unix.Stat_t, c, d int) int

//go:noescape
func rawFchmod(a, b, c, d int) int

//go:noescape
func rawFchown(a, b, c, d int) int

//go:noescape
func rawOpenat(a int, b *byte, c, d int) int

//go:noescape
func rawMkdirat(a int, b *byte, c, d int) int

//go:noescape
func rawUtimensat(a, b int, c *[2]unix.Timespec, d int) int

// result is what the kernel's result means.
func result(r int) (int, error) {
	if r < 0 && r > -4096 {
		return -1, unix.Errno(-r)
	}
	return r, nil
}

// none is where nothing begins: the kernel looks at the place all the same.
var none byte

func first(p []byte) *byte {
	if len(p) == 0 {
		return &none
	}
	return unsafe.SliceData(p)
}

// Openat is unix.Openat.
func Openat(dir int, name string, flags int, perm uint32) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	return result(openat(dir, p, flags|unix.O_LARGEFILE, int(perm)))
}

// Mkdirat is unix.Mkdirat.
func Mkdirat(dir int, name string, perm uint32) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, err = result(mkdirat(dir, p, int(perm)))
	return err
}

// Read is unix.Read.
func Read(fd int, p []byte) (int, error) { return result(read(fd, first(p), len(p))) }

// Write is unix.Write.
func Write(fd int, p []byte) (int, error) { return result(write(fd, first(p), len(p))) }

// Close is unix.Close.
func Close(fd int) error {
	_, err := result(closeFD(fd))
	return err
}

// Fstat is unix.Fstat.
func Fstat(fd int, st *unix.Stat_t) error {
	_, err := result(fstat(fd, st))
	return err
}

// Fchmod is unix.Fchmod.
func Fchmod(fd int, mode uint32) error {
	_, err := result(fchmod(fd, int(mode)))
	return err
}

// Fchown is unix.Fchown.
func Fchown(fd, uid, gid int) error {
	_, err := result(fchown(fd, uid, gid))
	return err
}

// Futimens sets the times of an open file, for which package unix has no function: utimensat without a name.
func Futimens(fd int, times *[2]unix.Timespec) error {
	_, err := result(futimens(fd, times))
	return err
}

// What stands between the two calls of the runtime may not grow the stack, nor be looked at by the race detector.

//go:nosplit
//go:norace
func openat(dir int, name *byte, flags, perm int) int {
	entersyscall()
	r := rawOpenat(dir, name, flags, perm)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func mkdirat(dir int, name *byte, perm int) int {
	entersyscall()
	r := rawMkdirat(dir, name, perm, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func read(fd int, p *byte, n int) int {
	entersyscall()
	r := rawRead(fd, p, n, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func write(fd int, p *byte, n int) int {
	entersyscall()
	r := rawWrite(fd, p, n, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func closeFD(fd int) int {
	entersyscall()
	r := rawClose(fd, 0, 0, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func fstat(fd int, st *unix.Stat_t) int {
	entersyscall()
	r := rawFstat(fd, st, 0, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func fchmod(fd, mode int) int {
	entersyscall()
	r := rawFchmod(fd, mode, 0, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func fchown(fd, uid, gid int) int {
	entersyscall()
	r := rawFchown(fd, uid, gid, 0)
	exitsyscall()
	return r
}

//go:nosplit
//go:norace
func futimens(fd int, times *[2]unix.Timespec) int {
	entersyscall()
	r := rawUtimensat(fd, 0, times, 0)
	exitsyscall()
	return r
}
