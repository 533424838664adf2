//go:build unix

package diagnose_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/tool/bridge/diagnose"
)

// dead waits until a process is gone, or is only not yet taken note of.
func dead(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && bytes.Contains(stat, []byte(") Z ")) {
			return // whoever adopted it has not looked
		}
	}
	t.Errorf("process %d goes on", pid)
}

func (w *world) pid(name string) int {
	w.t.Helper()
	text, err := os.ReadFile(w.at(name))
	must(w.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(w.t, err)
	return pid
}

// TestInterpretersThatDoNotEnd: each is ended in its time, and so is what it started.
func TestInterpretersThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct {
		program string
		want    string
		left    string // where it wrote the number of a process
	}{
		"it sleeps, with a child":     {"sleep 1000 & echo $! > DIR/child; sleep 1000", "it did not end within LIMIT", "child"},
		"it does not hear signals":    {"trap '' TERM INT HUP; echo $$ > DIR/child; while :; do sleep 1000; done", "it did not end within LIMIT", "child"},
		"it prints without an end":    {"echo $$ > DIR/child; yes", "it did not end within LIMIT", "child"},
		"it ends, and leaves a child": {"sleep 1000 >/dev/null 2>&1 & echo $! > DIR/child; echo Python 3.9.0", "", "child"},
		"its child has its output":    {"sleep 1000 & echo $! > DIR/child; echo Python 3.9.0", "", "child"},
		"it reads its stdin":          {"cat; echo Python 3.9.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "\n  a: {path: a.py, python: py}\n")
			w.file("ws/py", "#!/bin/sh\n[ $1 = --version ] || exit 1\n"+c.program+"\n", 0o755)
			start := time.Now()
			if c.want == "" {
				has(t, w.run(), "python: ok: ", "Python 3.9.0")
			} else {
				// Where it has not come to write its file, on a machine that is busy, it is given more.
				for _, w.opts.Limit = range []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second} {
					has(t, w.run(), "python: error: ", strings.ReplaceAll(c.want, "LIMIT", w.opts.Limit.String()))
					if text, err := os.ReadFile(w.at(c.left)); err == nil && len(text) > 0 {
						break
					}
				}
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if c.left != "" {
				dead(t, w.pid(c.left))
			}
		})
	}
}

func TestWordsOfOthersAreHarmless(t *testing.T) {
	w := newWorld(t, "\n  a: {path: a.py, python: py, env: [TOKEN]}\n")
	w.file("ws/py", "#!/bin/sh\nprintf 'Error: \\033[2J\\007\\r%s' $(head -c 100000 /dev/zero | tr '\\0' x) >&2\nexit 1\n", 0o755)
	findings := w.run()
	for i := range findings {
		f := &findings[i]
		if text := f.Section + f.Name + f.Text + f.Mend; strings.ContainsAny(text, "\x1b\a\r\n") {
			t.Errorf("a finding controls a terminal: %q", text)
		}
		if len(f.Text) > 1000 {
			t.Errorf("a finding has %d bytes", len(f.Text))
		}
	}
	has(t, findings, "python: error: ", `Error: \x1b[2J\x07\r`)
	var shown bytes.Buffer
	diagnose.Write(&shown, findings, true, false)
	if strings.ContainsAny(shown.String(), "\x1b\a\r") {
		t.Errorf("what is shown controls a terminal: %q", shown.String())
	}
}

func TestFix(t *testing.T) {
	w := newWorld(t, "\n  open: {path: open.sh}\n  plain: {path: plain.sh}\n")
	w.opts.Fix = true
	w.file("ws/open.sh", "#!/bin/sh\n", 0o777)
	w.file("ws/plain.sh", "#!/bin/sh\n", 0o640)
	w.file("state/bridge.db", strings.Repeat("no database\n", 500), 0o600)
	w.file("state/bridge.db-wal", "what SQLite keeps beside it", 0o600)
	findings := w.run()
	has(t, findings, "files: ok (mended): open: others cannot write to "+w.at("ws/open.sh")+" any more; they could until now")
	has(t, findings, "files: ok (mended): plain: made "+w.at("ws/plain.sh")+" executable")
	has(t, findings, "files: ok (mended): log: made its folder "+w.at("log"))
	has(t, findings, "files: ok (mended): metrics: "+w.at("state/bridge.db")+" was damaged; moved it to "+w.at("state/bridge.db.damaged-"))
	if diagnose.Failed(findings) {
		t.Error("what was mended counts as an error")
	}
	for name, want := range map[string]os.FileMode{"ws/open.sh": 0o775, "ws/plain.sh": 0o750, "log": 0o700} {
		if got := w.mode(name); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
	if w.exists("state/bridge.db") || w.exists("state/bridge.db-wal") {
		t.Error("the damaged database is still there")
	}
	findings = w.run()
	for i := range findings {
		if findings[i].Fixed || findings[i].Level == diagnose.Error {
			t.Errorf("a second time there is %s", line(&findings[i]))
		}
	}
}

func TestFixOfTheConfiguration(t *testing.T) {
	w := newWorld(t, one)
	w.file("ws/a.sh", "#!/bin/sh\n", 0o755)
	must(t, os.Chmod(w.at("config.yaml"), 0o646))
	findings := w.run()
	has(t, findings, "configuration: warning: ", "everybody can write to", "it decides what is run", "--fix does it")
	has(t, findings, "configuration: error: ", "not trusted")
	if w.mode("config.yaml") != 0o646 {
		t.Error("it was changed without --fix")
	}
	w.opts.Fix, w.opts.Reload = true, w.load
	findings = w.run()
	has(t, findings, "configuration: ok (mended): ")
	has(t, findings, "configuration: ok: ", "agents: 1")
	has(t, findings, "smoke tests: ok: a")
	if diagnose.Failed(findings) || w.mode("config.yaml") != 0o644 {
		t.Errorf("it failed, or the mode is %v", w.mode("config.yaml"))
	}
}

// TestWhatIsNotFixed: nothing that is not named as safe, and nothing without --fix.
func TestWhatIsNotFixed(t *testing.T) {
	for name, c := range map[string]struct {
		without bool // --fix
		make    func(w *world)
		file    string
		want    []string
	}{
		"anything without --fix": {true, func(w *world) { w.file("ws/a.sh", "#!/bin/sh\n", 0o646) }, "ws/a.sh", []string{"files: error: a: "}},
		"a file with another name, which may be anything": {false, func(w *world) {
			w.file("other", "#!/bin/sh\n", 0o757)
			must(w.t, os.Link(w.at("other"), w.at("ws/a.sh")))
		}, "ws/a.sh", []string{"files: warning: a: everybody can write to"}},
		"a link out of the workspace": {false, func(w *world) {
			w.file("other", "#!/bin/sh\n", 0o646)
			must(w.t, os.Symlink(w.at("other"), w.at("ws/a.sh")))
		}, "other", []string{"files: error: a: Agent outside of the workspace"}},
		"a folder that everybody may write": {false, func(w *world) {
			w.file("ws/a.sh", "#!/bin/sh\n", 0o755)
			must(w.t, os.Chmod(w.at("ws"), 0o777))
		}, "ws", []string{"workspace: warning: "}},
		"a log that others may read": {false, func(w *world) { w.file("log/bridge.log", "", 0o644) }, "log/bridge.log", []string{"files: warning: log: others may read"}},
		"a database that is another program's": {false, func(w *world) {
			w.file("state/bridge.db", "", 0o600)
			must(w.t, os.Remove(w.at("state/bridge.db")))
			must(w.t, os.Symlink(w.at("config.yaml"), w.at("state/bridge.db")))
		}, "config.yaml", []string{"files: error: metrics: ", "no regular file"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, one)
			w.opts.Fix = !c.without
			c.make(w)
			before := w.mode(c.file)
			has(t, w.run(), c.want...)
			if got := w.mode(c.file); got != before {
				t.Errorf("%s has mode %v, and had %v", c.file, got, before)
			}
			if !w.exists("config.yaml") {
				t.Error("the configuration is gone")
			}
		})
	}
}

func TestFilesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes files of another user, which wants root")
	}
	for name, c := range map[string]struct {
		mode os.FileMode
		want string
	}{
		"one that everybody may write": {0o757, "files: warning: a: DIR/ws/a.sh belongs to another user"},
		"one that cannot be executed":  {0o644, "files: error: a: DIR/ws/a.sh is not executable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, one)
			w.opts.Fix = true
			w.file("ws/a.sh", "#!/bin/sh\n", c.mode)
			must(t, os.Chown(w.at("ws/a.sh"), 65533, 65533))
			has(t, w.run(), strings.ReplaceAll(c.want, "DIR", w.dir))
			if got := w.mode("ws/a.sh"); got != c.mode {
				t.Errorf("it has mode %v: another user's file was changed", got)
			}
		})
	}
}
