package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func syncFolder(d *os.File) error { return d.Sync() }

// syncTree waits until everything written below dir's file system is on the disk.
func syncTree(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(d.Fd())))
}

// freeBytes is how much an ordinary user can still write to dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func deviceOf(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Dev) }

// stamp is what tells a file's states apart beside its time of modification, which can be set back.
func stamp(info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d %d.%d %d", st.Uid, st.Gid, st.Ctim.Sec, st.Ctim.Nsec, st.Rdev)
}

// checkOwner refuses a store of somebody else: sudo keeps the home folder on some systems, and what root unpacks
// there is of no use to its owner.
func checkOwner(dir string, info fs.FileInfo) error {
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		return fmt.Errorf("images: %s belongs to user %d, you are %d; set AIRLOCK_HOME to a folder of your own", dir, uid, os.Geteuid())
	}
	return nil
}
