//go:build unix

package shellhook

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxWaiting is how much may wait for a shell that does not come back to its prompt.
const maxWaiting = 1 << 20

// leave appends text to a file of the person's own, in a folder of the person's own.
func leave(file, text string) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, folderBits); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() || !ours(st) {
		return fmt.Errorf("%s is not a folder that is yours alone; remove it", dir)
	}
	sweep(dir)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, fileBits)
	if err != nil {
		return err
	}
	st, err = f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular() || !ours(st) || links(st) != 1:
		err = fmt.Errorf("%s is not a file that is yours alone; remove it", file)
	case st.Size()+int64(len(text)) > maxWaiting:
		err = fmt.Errorf("%s holds %d bytes that the shell has not taken", file, st.Size())
	default:
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// ours reports whether a file is this user's, and nobody else may touch it.
func ours(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && st.Mode().Perm()&0o077 == 0
}

func links(st os.FileInfo) uint64 {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(s.Nlink)
}

// sweep removes the files of shells that have ended.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there is nothing that could be swept
	}
	for _, e := range entries {
		pid, _, ok := parseName(e.Name())
		if !ok {
			continue
		}
		n, err := strconv.Atoi(pid)
		if err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
}

// ownGroup makes a command a process group, which is ended as one.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
