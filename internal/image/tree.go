package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// measure adds up what is in a tree of which nobody else knows. mend opens folders to their owner and lets
// the owner read files: an ordinary user must be able to use and remove what an image closed to
// everybody but root.
func measure(dir string, mend bool) (totals, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return totals{}, err
	}
	defer root.Close()
	var t totals
	return t, t.add(root, mend)
}

// add goes by descriptors: a tree can be deeper than a path is long.
func (t *totals) add(root *os.Root, mend bool) error {
	names, err := namesIn(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		t.entries++
		mode := info.Mode()
		need := fs.FileMode(0)
		switch {
		case mode.IsDir():
			need = 0o700
		case mode.IsRegular():
			t.bytes += info.Size()
			need = 0o400
		}
		if mend && mode&need != need {
			if err := root.Chmod(name, mode&^fs.ModeType|need); err != nil {
				return err
			}
		}
		if mode.IsDir() {
			if err := within(root, name, func(sub *os.Root) error { return t.add(sub, mend) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func within(root *os.Root, name string, do func(*os.Root) error) error {
	sub, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return do(sub)
}

func namesIn(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// removeTree removes a tree whose folders may be closed to their own owner.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = os.Chmod(dir, 0o700)
	if root, err := os.OpenRoot(dir); err == nil {
		openFolders(root)
		_ = root.Close()
	}
	return os.RemoveAll(dir)
}

// openFolders lets folders be emptied. What it cannot open, RemoveAll will name.
func openFolders(root *os.Root) {
	names, _ := namesIn(root)
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			_ = root.Chmod(name, 0o700)
			_ = within(root, name, func(sub *os.Root) error { openFolders(sub); return nil })
		}
	}
}

// workingDir makes sure that an image's working folder exists. Where it cannot, it is "".
func workingDir(dir *os.Root, name string) (real string, made bool, err error) {
	if name == "" {
		return "", false, nil
	}
	name = path.Join("/", name)
	at, ok := resolve(dir, name)
	if !ok {
		return "", false, nil
	}
	info, err := dir.Stat(at)
	if err == nil && info.IsDir() {
		return name, false, nil
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err := dir.MkdirAll(at, 0o755); err != nil {
		return "", false, err
	}
	return name, true, nil
}

// resolve follows an absolute path's links as they are meant inside the image. What does not exist is
// taken as it is. ok is false where links go round or something on the way is no folder.
func resolve(dir *os.Root, name string) (real string, ok bool) {
	rest := split(name)
	var at []string
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			at = at[:max(len(at)-1, 0)]
			continue
		}
		at = append(at, part)
		here := strings.Join(at, "/")
		info, err := dir.Lstat(here)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", false
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := dir.Readlink(here)
			if links++; err != nil || links > 40 {
				return "", false
			}
			at = at[:len(at)-1]
			if strings.HasPrefix(text, "/") {
				at = nil
			}
			rest = slices.Concat(split(text), rest)
		case !info.IsDir() && len(rest) > 0:
			return "", false
		}
	}
	return filepath.FromSlash(path.Join(append([]string{"."}, at...)...)), true
}

func split(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}
