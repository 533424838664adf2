package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// share makes the root from the image whose layers are the most of this one's lowest ones: files are hard
// links to its. That is safe because nobody writes to either, and unpacking puts new files in
// the place of old ones. below is 0 where there is no such image, or sharing does not go.
func (r *root) share(ctx context.Context) (below int, err error) {
	base, unlock, err := r.base(ctx)
	if err != nil || base == nil {
		return 0, err
	}
	defer unlock()
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return 0, err
	}
	if err := cloneTree(ctx, base.RootDir, r.fs()); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, nil // too many links of one file, or a file system without any
	}
	r.sum = totals{base.Size, base.Entries}
	r.left = base.Skipped
	return len(base.Layers), nil
}

// base finds the image to be made from, and keeps it from being removed.
func (r *root) base(ctx context.Context) (base *Image, release func(), err error) {
	want := layersOf(r.m)
	s := r.store
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	ids, err := s.ids()
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		img, err := s.readImage(id)
		if err != nil || len(img.Layers) == 0 || len(img.Layers) > len(want) || base != nil && len(img.Layers) <= len(base.Layers) {
			continue
		}
		same := slices.EqualFunc(img.Layers, want[:len(img.Layers)], func(a, b Layer) bool { return a.DiffID == b.DiffID })
		if _, err := os.Lstat(filepath.Join(filepath.Dir(img.RootDir), ownMark)); !same || err == nil {
			continue
		}
		unlock, ok, err := s.tryLock(rootLock(id), true)
		if err != nil || !ok {
			continue // being removed
		}
		if release != nil {
			release()
		}
		base, release = img, unlock
	}
	return base, release, nil
}

// cloneTree makes to a tree like from, whose files are the same files.
func cloneTree(ctx context.Context, from, to string) error {
	type folder struct {
		path string
		info fs.FileInfo
	}
	var folders []folder
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		target := to + path[len(from):]
		if !d.IsDir() {
			return os.Link(path, target) // of a link itself, too
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		folders = append(folders, folder{path, info})
		return os.Mkdir(target, 0o700)
	})
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(folders) { // the innermost first: filling a folder changes its time
		if err := dressFolder(f.path, to+f.path[len(from):], f.info); err != nil {
			return err
		}
	}
	return nil
}

func dressFolder(from, to string, info fs.FileInfo) error {
	st := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 {
		if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := copyAttributes(from, to); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to, info.Mode()), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// copyAttributes copies what user.* attributes a folder has.
func copyAttributes(from, to string) error {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(from, buf)
	if err != nil || n == 0 {
		return nil //nolint:nilerr // a file system without attributes has none to copy
	}
	value := make([]byte, 64<<10)
	for _, name := range split0(buf[:n]) {
		if len(name) < 5 || name[:5] != "user." {
			continue
		}
		n, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

func split0(b []byte) []string {
	var out []string
	for start, i := 0, 0; i < len(b); i++ {
		if b[i] == 0 {
			out = append(out, string(b[start:i]))
			start = i + 1
		}
	}
	return out
}
