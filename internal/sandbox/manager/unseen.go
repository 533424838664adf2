package manager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkUnseen refuses to go on from a state over the host's files that is older than something which is hidden from
// sandboxes: what is hidden is part of the state, so that a new sandbox would see it. What of it cannot be read
// anyway is left out: sockets, and what the system keeps from the person.
func (m *Manager) checkUnseen(i *Info) error {
	if !i.OverHost() || m.opts.View == nil {
		return nil
	}
	_, now, err := m.opts.View(i.WorkDir, i.Hide, i.Show)
	if err != nil {
		return err
	}
	for _, p := range now {
		if covered(p, i.Hidden) || !readable(p) {
			continue
		}
		mend := "take a new snapshot, of a sandbox that is made now"
		if i.Template != "" {
			mend = "airlock template build " + i.Template + " makes it anew"
		}
		return problem("%s has come to be since this state was saved; it is hidden from sandboxes, and what goes on from there would see it: %s", p, mend)
	}
	return nil
}

// covered reports whether a path is one of those, or lies in one.
func covered(p string, those []string) bool {
	return slices.ContainsFunc(those, func(q string) bool { return p == q || strings.HasPrefix(p, q+"/") })
}

// mostLooked bounds how much of a folder is looked at; one with more is taken to have something to read.
const mostLooked = 10_000

var errReadable = errors.New("there is something to read")

// readable reports whether there is a file at a path, or below it, that could be read.
func readable(path string) bool {
	looked := 0
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		looked++
		switch {
		case looked > mostLooked:
			return errReadable
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil:
			return err
		case d.IsDir(), d.Type()&fs.ModeSocket != 0:
			return nil
		case d.Type().IsRegular():
			f, err := os.Open(p)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				err = f.Close()
			}
			return errors.Join(err, errReadable)
		}
		return errReadable // a link or a pipe
	})
	return err != nil
}
