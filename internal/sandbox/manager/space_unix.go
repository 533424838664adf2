//go:build linux || darwin

package manager

import "golang.org/x/sys/unix"

// freeSpace is how many bytes a folder's disk has left for this user.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
