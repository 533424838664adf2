//go:build !linux

package unpack

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Elsewhere than on Linux a folder is an os.Root, which leads nowhere else either. A link that is swapped in
// at the wrong moment may be followed, but not out of the folder; named pipes, owners
// and attributes are not made.

type folder struct{ root *os.Root }

var (
	errAbsent = fs.ErrNotExist
	errThere  = fs.ErrExist
)

func openRoot(path string) (folder, error) {
	root, err := os.OpenRoot(path)
	return folder{root}, err
}

func (f folder) close()               { _ = f.root.Close() }
func (f folder) dup() (folder, error) { return f.openAny(".") }

func (f folder) openAny(name string) (folder, error) {
	root, err := f.root.OpenRoot(name)
	return folder{root}, cause(err)
}

func (f folder) open(name string) (folder, error) {
	st, err := f.lstat(name)
	if err != nil {
		return folder{}, err
	}
	if !st.isFolder() {
		return folder{}, errNoFolder
	}
	return f.openAny(name)
}

func (f folder) mkdir(name string, perm uint32) error {
	return cause(f.root.Mkdir(name, fs.FileMode(perm)))
}
func (f folder) symlink(text, name string) error  { return cause(f.root.Symlink(text, name)) }
func (f folder) rename(from, to string) error     { return cause(f.root.Rename(from, to)) }
func (f folder) remove(name string, _ bool) error { return cause(f.root.Remove(name)) }
func (f folder) readlink(name string) (string, error) {
	s, err := f.root.Readlink(name)
	return s, cause(err)
}
func (f folder) lown(string, int, int) error    { return nil }
func (f folder) ltimes(string, time.Time) error { return nil }
func (f folder) mkfifo(string) (file, error)    { return file{}, errors.ErrUnsupported }
func (f folder) asFile() file                   { return file{root: f.root} }
func (f folder) stat() (stat, error)            { return f.lstat(".") }

// link works within one folder alone: an os.Root has no names in another.
func (f folder) link(from folder, old, name string) error {
	here, err := f.root.Stat(".")
	if err != nil {
		return cause(err)
	}
	there, err := from.root.Stat(".")
	if err != nil {
		return cause(err)
	}
	if os.SameFile(here, there) {
		return cause(f.root.Link(old, name))
	}
	return copyFile(from, old, f, name)
}

// copyFile does for a hard link between two folders.
func copyFile(from folder, old string, to folder, name string) error {
	in, st, err := from.read(old)
	if err != nil {
		return err
	}
	defer in.close()
	out, err := to.create(name, st.perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(out.f, in.f)
	return errors.Join(err, out.close())
}

func (f folder) lstat(name string) (stat, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return stat{}, cause(err)
	}
	return statOf(info), nil
}

func statOf(info fs.FileInfo) stat {
	st := stat{perm: uint32(info.Mode().Perm()), size: info.Size(), mtime: info.ModTime(), links: 1}
	switch info.Mode().Type() {
	case 0:
		st.kind = kindFile
	case fs.ModeDir:
		st.kind = kindFolder
	case fs.ModeSymlink:
		st.kind = kindLink
	case fs.ModeNamedPipe:
		st.kind = kindFIFO
	case fs.ModeSocket:
		st.kind = kindSocket
	default:
		st.kind = kindChar
	}
	return st
}

func (f folder) names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, cause(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return names, cause(err)
}

// each calls do with the names in the folder, in no order.
func (f folder) each(do func(name string, kind uint32) error) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(name, 0); err != nil {
			return err
		}
	}
	return nil
}

func (f folder) create(name string, perm uint32) (file, error) {
	out, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(perm))
	return file{f: out, in: f.root, name: name}, cause(err)
}

// read opens a regular file.
func (f folder) read(name string) (file, stat, error) {
	st, err := f.lstat(name)
	if err != nil {
		return file{}, st, err
	}
	if st.kind != kindFile {
		return file{}, st, ErrKind
	}
	in, err := f.root.Open(name)
	if err != nil {
		return file{}, st, cause(err)
	}
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		in.Close()
		return file{}, st, errors.Join(cause(err), ErrKind)
	}
	return file{f: in}, statOf(info), nil
}

func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// A file is an open file, or with root a folder.
type file struct {
	f    *os.File
	in   *os.Root // where it lies, under name
	name string
	root *os.Root
}

func (f file) Write(p []byte) (int, error) { return f.f.Write(p) }
func (f file) Read(p []byte) (int, error)  { return f.f.Read(p) }

func (f file) hole(n int64) error {
	_, err := f.f.Seek(n, io.SeekCurrent)
	return err
}

func (f file) truncate(size int64) error { return cause(f.f.Truncate(size)) }
func (f file) own(int, int) error        { return nil }
func (f file) xattr(string, string) error {
	return nil
}

func (f file) close() error {
	if f.f == nil {
		return nil
	}
	return cause(f.f.Close())
}

func (f file) chmod(perm uint32) error {
	if f.root != nil {
		return cause(f.root.Chmod(".", fs.FileMode(perm&0o777)))
	}
	return cause(f.f.Chmod(fs.FileMode(perm & 0o777)))
}

func (f file) times(t time.Time) error {
	if f.root != nil {
		return cause(f.root.Chtimes(".", time.Time{}, t))
	}
	return cause(f.in.Chtimes(f.name, time.Time{}, t))
}

func notOurs(error) bool     { return true }
func unsupported(error) bool { return true }
func isRoot() bool           { return false }

// nameAllowed tells what can be one name in a folder: on Windows, not what leads into another.
func nameAllowed(name string) bool {
	return runtime.GOOS != "windows" || filepath.IsLocal(name) && !strings.ContainsAny(name, `\:`)
}
