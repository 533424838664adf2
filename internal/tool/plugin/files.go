package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"airlock/internal/tool/plugin/manifest"
)

var (
	errNotRegular = errors.New("not a regular file, and no link is followed")
	errOthers     = errors.New("others than its owner can write to it")
	errOwner      = errors.New("it belongs to another user, who can change it at any time")
)

// openFolder opens a folder that nobody else can put plugins into.
func openFolder(dir string) (*os.Root, *Problem) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &Problem{Text: "the folder cannot be read: " + cause(err).Error(), Mend: "give yourself the right to read it", Err: err}
	}
	st, err := root.Stat(".")
	if err == nil {
		err = trusted(st)
	}
	if err != nil {
		root.Close()
		return nil, distrust("the folder", dir, err)
	}
	return root, nil
}

// distrust is the Problem of a file or folder that trusted does not take.
func distrust(what, path string, err error) *Problem {
	p := &Problem{Text: what + ": " + err.Error(), Err: err}
	switch {
	case errors.Is(err, errOthers):
		p.Mend = "take that right away: chmod go-w " + path
	case errors.Is(err, errOwner):
		p.Mend = "make a copy of your own"
	}
	return p
}

// readRegular reads a file of at most limit bytes, which must be one that nobody else
// can change.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, cause(err)
	}
	if !before.Mode().IsRegular() {
		return nil, errNotRegular
	}
	// A pipe that takes the file's place meanwhile must not keep us waiting.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, cause(err)
	}
	if !st.Mode().IsRegular() || !os.SameFile(before, st) {
		return nil, errNotRegular
	}
	if err := trusted(st); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, cause(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d KiB", limit>>10)
	}
	return data, nil
}

// checkExecutable looks at the executable that a manifest names.
func checkExecutable(root *os.Root, m *manifest.Manifest) (fs.FileInfo, *Problem) {
	st, err := root.Lstat(m.Executable)
	path := root.Name() + string(os.PathSeparator) + m.Executable
	say := func(p *Problem) (fs.FileInfo, *Problem) {
		p.Line, p.Column = m.ExecutableAt.Line, m.ExecutableAt.Column
		return nil, p
	}
	what := "executable: " + m.Executable
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return say(&Problem{Text: what + ": there is no such file beside the manifest", Mend: "put it there, or mend the name", Err: err})
	case err != nil:
		return say(&Problem{Text: what + ": " + cause(err).Error(), Err: err})
	case !st.Mode().IsRegular():
		return say(&Problem{Text: what + ": " + errNotRegular.Error(), Mend: "put the file itself beside the manifest", Err: errNotRegular})
	case !mayRun(st):
		return say(&Problem{Text: what + ": it is not executable", Mend: "chmod +x " + path})
	}
	if err := trusted(st); err != nil {
		return say(distrust(what, path, err))
	}
	return st, nil
}
