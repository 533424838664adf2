package gvisor

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hiding: the upper layer starts with a whiteout, the overlay's mark of a deletion, at
// each hidden path, so that inside the path does not exist. Nothing reveals what lies
// under a whiteout again: what is made there is new.

// writeHidden writes the upper layer to start from and reports whether it is needed: not
// when none of the paths exists.
//
// One folder, through, stays to be reached nevertheless, if it is not empty: what is hidden above it is an empty folder, in
// which there is the way to it and nothing else.
func writeHidden(file string, paths []string, through string) (bool, error) {
	hidden, err := existing(paths)
	if err != nil || len(hidden) == 0 {
		return false, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf := bufio.NewWriter(f)
	if err := hiddenTar(tar.NewWriter(buf), hidden, through); err != nil {
		return false, err
	}
	return true, errors.Join(buf.Flush(), f.Close())
}

// existing gives the paths that exist, resolved and sorted, without those below another.
// A symbolic link is hidden itself, and so is what it leads to.
func existing(paths []string) ([]string, error) {
	var found []string
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("%q is not absolute", p)
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(filepath.Clean(p)))
		if err != nil {
			continue // the way to it does not exist, or is not ours to see
		}
		name := filepath.Join(parent, filepath.Base(p))
		st, err := os.Lstat(name)
		if err != nil {
			continue
		}
		found = append(found, name)
		if st.Mode()&fs.ModeSymlink != 0 {
			if target, err := filepath.EvalSymlinks(name); err == nil {
				found = append(found, target)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	var top []string
	for _, p := range found {
		if p == "/" {
			return nil, errors.New("the root folder cannot be hidden")
		}
		if len(top) > 0 && strings.HasPrefix(p, top[len(top)-1]+"/") {
			continue
		}
		top = append(top, p)
	}
	return top, nil
}

// hiddenTar writes whiteouts with the folders above them as the host has them, which
// the overlay shows in their place.
func hiddenTar(w *tar.Writer, hidden []string, through string) error {
	if err := folderEntry(w, "/"); err != nil {
		return err
	}
	seen := map[string]bool{"/": true}
	for _, p := range hidden {
		for _, dir := range ancestors(p) {
			if !seen[dir] {
				seen[dir] = true
				if err := folderEntry(w, dir); err != nil {
					return err
				}
			}
		}
		if strings.HasPrefix(through, p+"/") {
			if err := wayThrough(w, p, through); err != nil {
				return err
			}
			continue
		}
		h := &tar.Header{Name: "." + p, Typeflag: tar.TypeChar, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return w.Close()
}

// ancestors are the folders above p below the root, the outermost first.
func ancestors(p string) []string {
	var dirs []string
	for dir := filepath.Dir(p); dir != "/"; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// wayThrough writes the folders from p to through as the overlay has those that were made anew: nothing
// below them shines through.
func wayThrough(w *tar.Writer, p, through string) error {
	for _, dir := range append(ancestors(through), through) {
		if dir != p && !strings.HasPrefix(dir, p+"/") {
			continue
		}
		h := &tar.Header{Name: "." + dir + "/", Typeflag: tar.TypeDir, Format: tar.FormatPAX, Mode: 0o755, ModTime: time.Now()}
		h.PAXRecords = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

func folderEntry(w *tar.Writer, dir string) error {
	st, err := lstat(dir)
	if err != nil {
		return err
	}
	name := "." + dir
	if dir != "/" {
		name += "/"
	}
	return w.WriteHeader(&tar.Header{
		Name: name, Typeflag: tar.TypeDir, Format: tar.FormatPAX, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
	})
}

func lstat(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return &st, nil
}
