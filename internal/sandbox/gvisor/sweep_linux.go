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
	lock, ok, err := takeLock(path, 0)
	if err != nil || !ok {
		return false, nil // it is in use, or has just been removed
	}
	defer lock.Close()
	if !names(path, lock) {
		return false, nil // removed between opening and locking
	}
	if err := removeCgroup(cgroupOf(filepath.Base(dir))); err != nil {
		return false, err // the folder stays: it is what the next sweep finds the group by
	}
	return true, removeRun(dir)
}

// names reports whether path is still the name of f.
func names(path string, f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, now)
}

// removeRun removes a sandbox's folder.
func removeRun(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the sandbox's folder: %w", err)
	}
	return nil
}

// cgroupPatience is how long the processes of a control group may take to be gone once
// they are killed: the system frees their memory first, and on a busy machine it takes its time.
const cgroupPatience = 5 * time.Second

// removeCgroup ends what is left in a sandbox's control group and removes it, in every
// hierarchy there is.
func removeCgroup(path string) error {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*" + path)
	dirs = append(dirs, "/sys/fs/cgroup"+path)
	deadline := time.Now().Add(cgroupPatience)
	var errs []error
	for _, dir := range dirs {
		err := unix.Rmdir(dir)
		for err != nil && !noCgroup(err) && time.Now().Before(deadline) {
			killCgroup(dir)
			time.Sleep(5 * time.Millisecond)
			err = unix.Rmdir(dir)
		}
		if err != nil && !noCgroup(err) {
			errs = append(errs, fmt.Errorf("remove the control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// noCgroup reports whether there is nothing to remove, or nothing that could have been made.
func noCgroup(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES)
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
