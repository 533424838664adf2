package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzDecode: whatever a row holds, what its columns say wins, and it can be written again.
func FuzzDecode(f *testing.F) {
	f.Add("ready", []byte(`{"id":"x","state":"destroyed","labels":{"a":"b"},"root":"/r","created":"2026-01-02T03:04:05Z"}`))
	f.Add("destroyed", []byte(`{"status":{"state":"ready"},"ended":"2026-01-02T03:04:05Z"}`))
	f.Add("creating", []byte(`null`))
	f.Add("ready", []byte(`{"limits":{"cpus":1e400}}`))
	f.Fuzz(func(t *testing.T, state string, text []byte) {
		const id = "abcdefghijklmnop"
		r, err := decode(id, state, "remove", 7, text)
		if err != nil {
			return
		}
		if r.info.ID != id || r.info.State != state || r.info.Status != nil || r.step != "remove" || state == Destroyed && r.info.Ended == nil {
			t.Errorf("decode = %+v", r)
		}
		again, err := r.encode()
		if err != nil {
			t.Fatalf("encode: err = %v", err)
		}
		if _, err := decode(id, state, "", 7, []byte(again)); err != nil {
			t.Errorf("decode what was encoded: err = %v", err)
		}
	})
}

// FuzzFolders: whatever a description or a lock's file holds, it is read or is an error, and does not name another
// thing than its folder.
func FuzzFolders(f *testing.F) {
	f.Add([]byte(`{"name":"../x","size":-1,"sandbox":{"id":"y"}}`))
	f.Add([]byte(`{"name":"t","saved":true,"sandbox":null}`))
	f.Add([]byte("123 commit\n"))
	f.Add([]byte("-1 \x1b[31m\n"))
	dir := f.TempDir()
	m := New(&Options{Dir: dir})
	for _, at := range []string{m.snapshotDir(), m.templateDir()} {
		if err := os.MkdirAll(filepath.Join(at, "it"), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, path := range []string{filepath.Join(m.snapshotDir(), "it", metaFile), filepath.Join(m.templateDir(), "it", metaFile), m.lockPath("k")} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := m.InspectSnapshot(t.Context(), "it"); err == nil && s.Name != "it" {
			t.Errorf("InspectSnapshot = %+v", s)
		}
		tpl, err := m.InspectTemplate(t.Context(), "it")
		if err == nil {
			if tpl.Name != "it" {
				t.Errorf("InspectTemplate = %+v", tpl)
			}
			m.templateRow(tpl, &Request{Template: "it"})
		}
		if pid, verb := m.holder("k"); pid < 0 || verb != "" && !isName(verb) {
			t.Errorf("holder = %d, %q", pid, verb)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", ".x", "a\x00", "-", "~", "a~", strings.Repeat("x", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName("snapshot", name) != nil {
			return
		}
		if filepath.Base(name) != name || filepath.Clean(name) != name || strings.HasPrefix(name, ".") || strings.Contains(name, "~") || len(name) > maxName {
			t.Errorf("%q is a name", name)
		}
	})
}

func TestRowsAreForgottenAfterADay(t *testing.T) {
	m := New(&Options{Dir: t.TempDir()})
	for name, c := range map[string]struct {
		state string
		age   time.Duration
		want  bool
	}{
		"one that lives":                   {Ready, 48 * time.Hour, false},
		"one that ended just now":          {Destroyed, time.Minute, false},
		"one that ended long ago":          {Destroyed, 25 * time.Hour, true},
		"the clock was set back an hour":   {Destroyed, -time.Hour, false},
		"the clock was set back by a year": {Destroyed, -365 * 24 * time.Hour, true},
	} {
		ended := time.Now().Add(-c.age)
		if got := m.outdated(&row{info: Info{ID: "abcdefghijklmnop", State: c.state, Ended: &ended}}); got != c.want {
			t.Errorf("%s: outdated = %v, want %v", name, got, c.want)
		}
	}
}
