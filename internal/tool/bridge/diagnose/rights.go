package diagnose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"airlock/internal/tool/bridge/setup"
)

// fixDoes is behind a mend that --fix does.
const fixDoes = " (--fix does it)"

// canFix reports whether a file is one whose rights may be changed: a regular one of this
// user's, with no other name.
func (d *doctor) canFix(st fs.FileInfo) bool {
	return ownersKnown && st.Mode().IsRegular() && mine(st) && links(st) == 1
}

// othersWrite warns of a file that others could change, or mends that, and reports whether
// it did. Its folder is only warned of: who else works there is not known here.
func (d *doctor) othersWrite(section, name, path, why string) (mended bool) {
	if !ownersKnown {
		return false
	}
	// A link has no rights of its own, and where it leads is what is run.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	st, err := os.Stat(real)
	if err != nil {
		return false
	}
	if !mine(st) && !roots(st) {
		d.add(section, Warning, name, fmt.Sprintf("%s belongs to another user, who can change it, and %s", real, why), "make a copy of your own")
		return false
	}
	if st.Mode().Perm()&0o002 != 0 {
		mended = d.takeWrite(section, name, real, why, st)
	}
	folder := filepath.Dir(real)
	if st, err := os.Stat(folder); err == nil && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		d.add(section, Warning, name, fmt.Sprintf("everybody can replace it, since everybody can write to its folder %s (mode %#o), and %s", folder, st.Mode().Perm(), why), "chmod o-w "+quoted(folder))
	}
	return mended
}

func (d *doctor) takeWrite(section, name, real, why string, st fs.FileInfo) bool {
	text := fmt.Sprintf("everybody can write to %s (mode %#o), and %s", real, st.Mode().Perm(), why)
	mend := "chmod o-w " + quoted(real)
	if !d.opts.Fix || !d.canFix(st) {
		if d.canFix(st) {
			mend += fixDoes
		}
		d.add(section, Warning, name, text, mend)
		return false
	}
	if err := d.chmod(real, st, func(m fs.FileMode) fs.FileMode { return m &^ 0o002 }); err != nil {
		d.add(section, Warning, name, text+"; that could not be mended: "+err.Error(), mend)
		return false
	}
	d.fixed(section, name, "others cannot write to "+real+" any more; they could until now, so see that it is what you wrote")
	return true
}

// makeExecutable lets a script that is run without an interpreter be run, and reports
// whether it did.
func (d *doctor) makeExecutable(a *setup.Agent) bool {
	if !d.opts.Fix {
		return false
	}
	real, err := filepath.EvalSymlinks(a.Script)
	if err != nil || within(d.file.Workspace, a.Script) && !within(d.file.Workspace, real) {
		return false
	}
	st, err := os.Stat(real)
	if err != nil || !d.canFix(st) || st.Mode().Perm()&0o111 != 0 {
		return false
	}
	// Whoever may read it may run it, as chmod +x has it.
	err = d.chmod(real, st, func(m fs.FileMode) fs.FileMode { return m | m&0o444>>2 })
	if err != nil {
		d.add(Files, Warning, a.Name, "it could not be made executable: "+err.Error(), "chmod +x "+quoted(real))
		return false
	}
	d.fixed(Files, a.Name, "made "+real+" executable")
	return true
}

var errSwapped = errors.New("it was replaced meanwhile")

// chmod changes the rights of a file that was looked at, and of no other that has come to
// its name since.
func (d *doctor) chmod(path string, was fs.FileInfo, change func(fs.FileMode) fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking|noFollow, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(st, was) || !d.canFix(st) {
		return errSwapped
	}
	return f.Chmod(change(st.Mode().Perm() | st.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)))
}

// quoted is a word as a person would type it into a shell.
func quoted(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:@%+,", r))
	}) < 0
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
