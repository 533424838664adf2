//go:build unix

package journal_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/tool/bridge/journal"
	"airlock/internal/tool/bridge/setup"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlacesThatAreNoLog: none of them stops who logs, or is written to, and each has an
// error that says what to do.
func TestPlacesThatAreNoLog(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want []string
	}{
		"a pipe that nobody reads": {func(t *testing.T, p string) { must(t, syscall.Mkfifo(p, 0o600)) }, []string{"no regular file", "logging.file"}},
		"a folder":                 {func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o700)) }, []string{"no regular file"}},
		"a link to a device":       {func(t *testing.T, p string) { must(t, os.Symlink("/dev/full", p)) }, []string{"no regular file"}},
		"a link in a circle":       {func(t *testing.T, p string) { must(t, os.Symlink(p, p)) }, []string{"links"}},
		"a link to nothing":        {func(t *testing.T, p string) { must(t, os.Symlink(p+".gone", p)) }, []string{"no such file"}},
		"a file for a folder": {func(t *testing.T, p string) {
			must(t, os.RemoveAll(filepath.Dir(p)))
			must(t, os.WriteFile(filepath.Dir(p), nil, 0o600))
		}, []string{"not a directory", "writable for you"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &setup.Logging{File: filepath.Join(t.TempDir(), "logs", "\x1b[2Jbridge.log"), Level: "INFO"}
			must(t, os.Mkdir(filepath.Dir(l.File), 0o700))
			c.make(t, l.File)
			log, closer, err := journal.Open(l)
			log.Info("x")
			if err == nil {
				err = closer.Close()
			}
			if err == nil {
				t.Fatal("nobody is told")
			}
			for _, want := range append(c.want, `\x1b[2Jbridge.log`) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "\x1b") {
				t.Errorf("err = %q controls a terminal", err)
			}
			if err := journal.Check(l); err == nil {
				t.Error("Check finds nothing")
			}
		})
	}
}

// TestALinkOfOnesOwn: where it leads is the log, and what is put aside lies there.
func TestALinkOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real.log")
	must(t, os.WriteFile(real, []byte("there before\n"), 0o644))
	l := &setup.Logging{File: filepath.Join(dir, "bridge.log"), Rotate: true, MaxBytes: 60, Backups: 1}
	must(t, os.Symlink(real, l.File))
	log, closer := rotating(t, l)
	log.Info("1")
	log.Info("2")
	must(t, closer.Close())
	if mode(t, l.File)&os.ModeSymlink == 0 {
		t.Error("the link is one no more")
	}
	if a, b := read(t, real+".1"), read(t, real); !strings.HasPrefix(a, "there before\n[") || !strings.HasSuffix(b, "2\n") {
		t.Errorf("the files hold %q and %q", a, b)
	}
}

// TestWhatComesLater: what was the log is not written to any more, and neither is what
// came in its place, if it is no file.
func TestWhatComesLater(t *testing.T) {
	for name, lay := range map[string]func(path string) error{
		"a link to a device":       func(p string) error { return os.Symlink("/dev/full", p) },
		"a pipe that nobody reads": func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &setup.Logging{}
			log, closer := rotating(t, l)
			log.Info("1")
			must(t, os.Remove(l.File))
			must(t, lay(l.File))
			log.Info("2")
			log.Info("3")
			err := closer.Close()
			if err == nil || !strings.Contains(err.Error(), "no regular file") || !strings.Contains(err.Error(), "lines that are missing: 2") {
				t.Errorf("Close: err = %v, want one that says why and counts lines", err)
			}
		})
	}
}

// TestOthersFiles: a bridge of a user who is not the superuser writes to no file that another
// user laid in its way, and follows no link of another's.
func TestOthersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes files of other users, which wants root")
	}
	const me, other = 65534, 65533
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string // in the error; "" is none
	}{
		"another user's file": {func(t *testing.T, p string) {
			must(t, os.WriteFile(p, nil, 0o666))
			must(t, os.Chmod(p, 0o666))
			must(t, os.Chown(p, other, other))
		}, "belongs to another user"},
		"another user's link": {func(t *testing.T, p string) {
			must(t, os.Symlink(filepath.Join(filepath.Dir(p), "mine"), p))
			must(t, os.Lchown(p, other, other))
		}, "link of another user"},
		"one's own file":         {func(t *testing.T, p string) { must(t, os.WriteFile(p, nil, 0o600)); must(t, os.Chown(p, me, me)) }, ""},
		"a folder to write to":   {func(*testing.T, string) {}, ""},
		"a folder of the system": {func(t *testing.T, p string) { must(t, os.Chmod(filepath.Dir(p), 0o755)) }, "writable for you"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.Chmod(filepath.Dir(dir), 0o755)) // the testing package's own
			must(t, os.Chmod(dir, 0o777))
			path := filepath.Join(dir, "bridge.log")
			must(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
			must(t, os.Chown(filepath.Join(dir, "mine"), me, me))
			c.make(t, path)
			cmd := bridge(t, path, 1)
			cmd.Env = append(cmd.Env, "AIRLOCK_TEST_USER="+strconv.Itoa(me))
			out, err := cmd.CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("a bridge: %v\n%s, want %q", err, out, c.want)
			}
			if text := read(t, path); (text == "") != (c.want != "") {
				t.Errorf("the log holds %q", text)
			}
		})
	}
}
