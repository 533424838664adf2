package material

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// kernelFiles are file systems whose files are the kernel's own: reading them can wait for
// ever, change something, or give away another process's environment.
var kernelFiles = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
	unix.SECURITYFS_MAGIC: true, unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.PSTOREFS_MAGIC: true,
	unix.BPF_FS_MAGIC: true, unix.EFIVARFS_MAGIC: true, unix.SELINUX_MAGIC: true, unix.SMACK_MAGIC: true,
}

// open opens a regular file, and nothing else even for a moment: opening a device may do
// something, opening a pipe may wait. It gives the path that the file has, with every link
// resolved, as the kernel knows it of the open file.
func open(name string) (*os.File, string, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, "", err
	}
	if err := regular(st.Mode); err != nil {
		return nil, "", err
	}
	var in unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &in) }); err != nil {
		return nil, "", err
	}
	if kernelFiles[int64(in.Type)] {
		return nil, "", errKernel
	}
	if st.Nlink == 0 {
		return nil, "", fs.ErrNotExist
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	real, err := os.Readlink(self)
	if err != nil {
		return nil, "", fmt.Errorf("find out what it is: %w", cause(err))
	}
	f, err := os.OpenFile(self, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, "", cause(err)
	}
	return f, real, nil
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func regular(mode uint32) error {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return errFolder
	case unix.S_IFIFO:
		return special("a named pipe")
	case unix.S_IFSOCK:
		return special("a socket")
	}
	return special("a device")
}
