package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/sandbox"
)

// Sweep removes what sandboxes left behind whose keeper no longer runs.
func (d *Driver) Sweep(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.runDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var removed []string
	var errs []error
	for _, e := range entries {
		id := strings.TrimPrefix(e.Name(), youngPrefix)
		if !sandbox.ValidID(id) {
			continue
		}
		ok, err := sweepOne(filepath.Join(d.runDir(), e.Name()))
		if ok {
			removed = append(removed, "sandbox "+id)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// A folder whose name begins with youngPrefix, or without a lock file, is being made. After
// youngRun it is nobody's.
const (
	youngPrefix = "new-"
	youngRun    = 10 * time.Second
)

func sweepOne(dir string) (bool, error) {
	path := filepath.Join(dir, "lock")
	if _, err := os.Lstat(path); err != nil || strings.HasPrefix(filepath.Base(dir), youngPrefix) {
		st, err := os.Lstat(dir)
		if err != nil || time.Since(st.ModTime()) < youngRun {
			return false, nil
		}
		return true, os.RemoveAll(dir)
	}
	lock, ok, err := takeLock(path)
	if err != nil || !ok {
		return false, nil // it is in use
	}
	defer lock.Close()
	removeCgroup(cgroupOf(filepath.Base(dir)))
	return true, removeRun(dir)
}

// removeRun removes a sandbox's folder.
func removeRun(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the sandbox's folder: %w", err)
	}
	return nil
}

// removeCgroup ends what is left in a sandbox's control group and removes it, in every
// hierarchy there is.
func removeCgroup(path string) {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*" + path)
	dirs = append(dirs, "/sys/fs/cgroup"+path)
	for _, dir := range dirs {
		for range 20 {
			err := unix.Rmdir(dir)
			if err == nil || err == unix.ENOENT || err == unix.EROFS || err == unix.EACCES {
				break
			}
			killCgroup(dir)
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func killCgroup(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for f := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}
