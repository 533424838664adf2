package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/internal/tool/bridge/journal"
	"airlock/internal/tool/bridge/metrics"
	"airlock/internal/tool/bridge/setup"
)

// files looks at the scripts, the log and the metrics.
func (d *doctor) files(ctx context.Context) {
	if d.file != nil {
		d.scripts()
		d.log()
	}
	if d.opts.Metrics != "" && (d.file == nil || d.file.Metrics.Collect) {
		d.metrics(ctx)
	}
}

func (d *doctor) scripts() {
	var seen []string
	for i := range d.file.Agents {
		a := &d.file.Agents[i]
		if a.Script == "" {
			continue
		}
		if slices.Contains(seen, a.Script) {
			continue
		}
		seen = append(seen, a.Script)
		d.script(a)
	}
}

// script looks at the script of an entry.
func (d *doctor) script(a *setup.Agent) {
	err := d.lookScript(a)
	if err != nil && a.Interpreter == "" && d.makeExecutable(a) {
		err = d.lookScript(a)
	}
	if err != nil {
		d.add(Files, Error, a.Name, err.Error(), d.mendScript(a, err))
		return
	}
	d.othersWrite(Files, a.Name, a.Script, "it is run with your rights")
	f, err := openRegular(a.Script)
	if err != nil {
		if a.Interpreter == "" { // it need not be readable to be run
			return
		}
		d.add(Files, Error, a.Name, "its script cannot be read: "+err.Error(), "chmod u+r "+quoted(a.Script))
		return
	}
	defer f.Close()
	if a.Interpreter == "" && !d.firstLine(a, f) {
		return
	}
	d.add(Files, OK, a.Name, a.Script, "")
}

// lookScript is what is wrong with a script, and not with its interpreter.
func (d *doctor) lookScript(a *setup.Agent) error {
	err := a.Look(d.file.Workspace)
	if p := d.program(a.Interpreter); err != nil && p != nil && p.err != nil && p.err.Error() == err.Error() {
		return nil
	}
	return err
}

func (d *doctor) mendScript(a *setup.Agent, err error) string {
	if _, ok := errors.AsType[*setup.NotFoundError](err); ok {
		return fmt.Sprintf("write it, or mend path of the entry %s (line %d)", a.Name, a.Line)
	}
	if st, statErr := os.Stat(a.Script); statErr == nil && a.Interpreter == "" && d.canFix(st) {
		return "chmod +x " + quoted(a.Script) + fixDoes
	}
	return ""
}

// firstLine looks whether the system can start a script by itself.
func (d *doctor) firstLine(a *setup.Agent, f *os.File) bool {
	head, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return true
	}
	program, found := shebang(head)
	switch {
	case !found && (len(head) == 0 || bytes.IndexByte(head, 0) < 0): // a program has some
		d.add(Files, Warning, a.Name, a.Script+" has no line #! at its beginning, so the system does not know what runs it",
			"write one, such as #!/usr/bin/env python3, or name its interpreter with command")
	case strings.HasSuffix(program, "\r"):
		d.add(Files, Error, a.Name, a.Script+" has Windows' line ends, so that the system looks for a program whose name ends in \\r", "dos2unix "+quoted(a.Script))
	case program != "" && !isRegular(program):
		d.add(Files, Error, a.Name, a.Script+" begins with #!"+program+", which is not there", "install it, or mend that line")
	default:
		return true
	}
	return false
}

// shebang is the program that a script's first line names. A line end of Windows stays.
func shebang(head []byte) (program string, found bool) {
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", false
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	line = bytes.TrimLeft(line, " \t")
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		line = line[:i]
	}
	return string(line), true
}

// log looks whether lines can be written.
func (d *doctor) log() {
	l := &d.file.Logging
	if l.File == os.DevNull {
		return
	}
	if err := journal.Check(l); err != nil {
		d.add(Files, Warning, "log", err.Error(), "")
		return
	}
	folder := filepath.Dir(l.File)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if !d.opts.Fix {
			d.add(Files, Info, "log", "its folder "+folder+" is made with the first line", "")
			return
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			d.add(Files, Warning, "log", "its folder cannot be made: "+err.Error(), "name another one as logging.file")
			return
		}
		d.fixed(Files, "log", "made its folder "+folder)
	}
	if st, err := os.Stat(l.File); err == nil && ownersKnown && st.Mode().Perm()&0o077 != 0 {
		d.add(Files, Warning, "log", fmt.Sprintf("others may read %s (mode %#o)", l.File, st.Mode().Perm()), "chmod 600 "+quoted(l.File))
		return
	}
	d.add(Files, OK, "log", l.File, "")
}

// metrics looks whether the file of the metrics is sound.
func (d *doctor) metrics(ctx context.Context) {
	path := d.opts.Metrics
	err := metrics.Check(ctx, path)
	if ctx.Err() != nil {
		return
	}
	if err != nil && d.opts.Fix && metrics.Damaged(err) {
		aside, moveErr := putAside(path)
		if moveErr == nil {
			d.fixed(Files, "metrics", path+" was damaged; moved it to "+aside+", and a new one is begun")
			return
		}
		err = errors.Join(err, moveErr)
	}
	switch {
	case err != nil && metrics.Damaged(err):
		d.add(Files, Error, "metrics", err.Error(), "airlock bridge diagnose --fix moves it aside")
	case err != nil:
		d.add(Files, Error, "metrics", err.Error(), "")
	case !isRegular(path):
		d.add(Files, OK, "metrics", path+" is made with the first call", "")
	default:
		d.add(Files, OK, "metrics", path, "")
	}
}

// putAside renames a database, and what SQLite keeps beside it, to a name that is free.
func putAside(path string) (string, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || !mine(st) {
		return "", errors.New("it is not a file of yours, so it is left where it is")
	}
	aside := path + ".damaged-" + time.Now().Format("20060102150405")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if _, err := os.Lstat(aside + suffix); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s is there already", aside+suffix)
		}
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}
