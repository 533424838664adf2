//go:build unix

package setup_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/tool/bridge/setup"
)

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode os.FileMode
		uid  int
		want string
	}{
		{"a person's own", 0o600, 0, ""},
		{"one that all may read", 0o644, 0, ""},
		{"one that everybody can write", 0o646, 0, "c.yaml: everybody can write it, so it is not trusted; chmod o-w it"},
		{"another's", 0o644, 1234, "c.yaml: it belongs to another user, who could change what is run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.put(t, "c.yaml", tt.mode, "agents: {x: {path: y}}\n")
			if tt.uid != 0 {
				if os.Getuid() != 0 {
					t.Skip("only the superuser can give a file away")
				}
				if err := os.Chown(path, tt.uid, -1); err != nil {
					t.Fatal(err)
				}
			}
			f, err := setup.Load(path, w.getenv, w.home)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Load: err = %v, want %q", err, tt.want)
			}
			if err == nil && (f.Path != path || len(f.Agents) != 1) {
				t.Errorf("Load = %+v", f)
			}
		})
	}
}

func TestLoadTakesLinksAndNoOtherFiles(t *testing.T) {
	t.Run("a link is followed, and what is relative is relative to where it leads", func(t *testing.T) {
		w := newWorld(t)
		real := w.put(t, "dots/c.yaml", 0o600, "workspace: {path: ../bin}\n")
		w.link(t, "link.yaml", "dots/c.yaml")
		f, err := setup.Load(filepath.Join(w.home, "link.yaml"), w.getenv, w.home)
		if err != nil || f.Path != real || f.Workspace != filepath.Join(w.home, "bin") {
			t.Errorf("Load = %+v, %v", f, err)
		}
	})
	t.Run("a workspace by a link is where that leads", func(t *testing.T) {
		w := newWorld(t)
		w.link(t, "ws", "bin")
		w.env["ADK_WORKSPACE"] = filepath.Join(w.home, "ws")
		f, err := w.parse("agents: {x: {path: y}}\n")
		if err != nil || f.Workspace != filepath.Join(w.home, "bin") || f.Agents[0].Script != filepath.Join(w.home, "bin/y") {
			t.Errorf("Parse = %+v, %v", f, err)
		}
	})
	t.Run("a pipe keeps nobody waiting", func(t *testing.T) {
		w := newWorld(t)
		if err := syscall.Mkfifo(w.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := setup.Load(w.file, w.getenv, w.home); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("Load: err = %v", err)
		}
	})
	t.Run("no file", func(t *testing.T) {
		w := newWorld(t)
		if _, err := setup.Load(w.file, w.getenv, w.home); err == nil || !strings.Contains(err.Error(), "there is no such file; name the bridge's config.yaml with --config") {
			t.Errorf("Load: err = %v", err)
		}
	})
	t.Run("a folder", func(t *testing.T) {
		w := newWorld(t)
		if _, err := setup.Load(w.home, w.getenv, w.home); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("Load: err = %v", err)
		}
	})
	t.Run("a file without an end", func(t *testing.T) {
		w := newWorld(t)
		path := w.put(t, "c.yaml", 0o600, "")
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Skip("no file can be this large here: ", err)
		}
		if _, err := setup.Load(path, w.getenv, w.home); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
			t.Errorf("Load: err = %v", err)
		}
	})
}
