//go:build unix

package diagnose_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/tool/bridge/diagnose"
	"airlock/internal/tool/bridge/setup"
)

// A world is a workspace with a configuration, in a folder of its own.
type world struct {
	t    *testing.T
	dir  string // holds ws, bin and config.yaml
	env  []string
	opts diagnose.Options
}

func newWorld(t *testing.T, agents string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &world{t: t, dir: dir, env: []string{"PATH=" + dir + "/bin:/usr/bin:/bin", "HOME=" + dir}}
	for _, folder := range []string{"ws", "bin"} {
		must(t, os.Mkdir(w.at(folder), 0o755))
	}
	w.file("config.yaml", "workspace: {path: ws}\nlogging: {file: log/bridge.log}\nagents:"+agents, 0o644)
	w.opts.Metrics = w.at("state/bridge.db")
	w.opts.Limit = 2 * time.Minute // of programs that end by themselves, on any machine
	return w
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

// file writes a file. DIR in its text is the world's folder.
func (w *world) file(name, text string, mode os.FileMode) {
	w.t.Helper()
	path := w.at(name)
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(w.t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", w.dir)), 0o600))
	must(w.t, os.Chmod(path, mode))
}

// python lays a program of that name that says a version and tells of each time it is run.
func (w *world) python(name, version string) {
	w.file(name, "#!/bin/sh\necho run >> DIR/ran\ncase $1 in --version) echo '"+version+"';; -I) echo 42;; *) cat > DIR/asked; echo '[]';; esac\n", 0o755)
}

func (w *world) load() (*setup.File, error) {
	return setup.Load(w.at("config.yaml"), func(name string) string {
		for _, kv := range w.env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}, w.dir)
}

func (w *world) run() []diagnose.Finding {
	w.t.Helper()
	o := w.opts
	o.Path, o.Env = w.at("config.yaml"), w.env
	o.File, o.Problem = w.load()
	return diagnose.Run(w.t.Context(), &o)
}

func (w *world) mode(name string) os.FileMode {
	w.t.Helper()
	st, err := os.Lstat(w.at(name))
	must(w.t, err)
	return st.Mode().Perm()
}

func (w *world) exists(name string) bool {
	_, err := os.Lstat(w.at(name))
	return err == nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line is a finding as a test names it: its place, level and words.
func line(f *diagnose.Finding) string {
	mended := ""
	if f.Fixed {
		mended = " (mended)"
	}
	return fmt.Sprintf("%s: %s%s: %s: %s → %s", f.Section, f.Level, mended, f.Name, f.Text, f.Mend)
}

// has wants a finding that begins with the first words of want and holds the others.
func has(t *testing.T, findings []diagnose.Finding, want ...string) {
	t.Helper()
	var all []string
	for i := range findings {
		l := line(&findings[i])
		if strings.HasPrefix(l, want[0]) && !slices.ContainsFunc(want[1:], func(s string) bool { return !strings.Contains(l, s) }) {
			return
		}
		all = append(all, l)
	}
	t.Errorf("no finding is %q; there are\n%s", want, strings.Join(all, "\n"))
}

// only wants no finding of that section that is worse than a note.
func only(t *testing.T, findings []diagnose.Finding, section string) {
	t.Helper()
	for i := range findings {
		if f := &findings[i]; f.Section == section && (f.Level == diagnose.Error || f.Level == diagnose.Warning) {
			t.Errorf("there is %s", line(f))
		}
	}
}

// real is a program of this machine.
func real(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	return path
}
