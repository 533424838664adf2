package changes_test

import (
	"bytes"
	"strings"
	"testing"

	"airlock/internal/changes"
)

func TestScope(t *testing.T) {
	for _, tt := range []struct {
		name             string
		work, home, path string
		want             changes.Scope
	}{
		{"in the working folder", "/home/me/p", "/home/me", "/home/me/p/a", changes.Work},
		{"the working folder itself", "/home/me/p", "/home/me", "/home/me/p", changes.Work},
		{"a name that begins alike", "/home/me/p", "/home/me", "/home/me/pp", changes.Outside},
		{"beside it", "/home/me/p", "/home/me", "/home/me/other", changes.Outside},
		{"the system", "/home/me/p", "/home/me", "/etc/hosts", changes.Outside},
		{"temporary files", "/home/me/p", "/home/me", "/tmp/x", changes.Noise},
		{"a folder whose name begins like /tmp", "/home/me/p", "/home/me", "/tmpfoo", changes.Outside},
		{"the cache of the home", "/home/me/p", "/home/me", "/home/me/.cache/x", changes.Noise},
		{"the cache of another home", "/w", "", "/home/you/.cache/x", changes.Noise},
		{"the cache of root", "/w", "", "/root/.npm/_cacache/x", changes.Noise},
		{"a cache in an unusual home", "/w", "/data/me", "/data/me/.cache/x", changes.Noise},
		{"the home's own files", "/w", "/home/me", "/home/me/.bashrc", changes.Outside},
		{"a cache in the working folder", "/w", "", "/w/a/__pycache__/b.pyc", changes.Noise},
		{"a cache of tools in the working folder", "/w", "", "/w/node_modules/.cache/b", changes.Noise},
		{"packages in the working folder", "/w", "", "/w/node_modules/b", changes.Work},
		{"git's folder", "/w", "", "/w/.git/config", changes.Work},
		{"a working folder below /tmp", "/tmp/w", "", "/tmp/w/a", changes.Work},
		{"a cache in it", "/tmp/w", "", "/tmp/w/__pycache__", changes.Noise},
		{"what is beside it in /tmp", "/tmp/w", "", "/tmp/x", changes.Noise},
		{"/tmp as the working folder", "/tmp", "", "/tmp/x", changes.Work},
		{"a working folder in a cache", "/home/me/.cache/w", "/home/me", "/home/me/.cache/w/a", changes.Work},
		{"a working folder below a cache's name", "/x/__pycache__/w", "", "/x/__pycache__/w/a", changes.Work},
		{"the home as the working folder", "/home/me", "/home/me", "/home/me/a", changes.Work},
		{"its cache", "/home/me", "/home/me", "/home/me/.cache/a", changes.Noise},
		{"the root as the working folder", "/", "/root", "/etc/hosts", changes.Work},
		{"temporary files in it", "/", "/root", "/tmp/x", changes.Noise},
		{"no working folder", "", "", "/a", changes.Outside},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLayer()
			parts := strings.Split(tt.path[1:], "/")
			for i := range len(parts) - 1 {
				l.opaque("./"+strings.Join(parts[:i+1], "/")+"/", 0o755)
			}
			l.file("."+tt.path, "x")
			h, s := newHost(t), newStore(t)
			w, err := s.Create(changes.Header{ID: testID, WorkDir: changes.Path(tt.work)})
			if err != nil {
				t.Fatal(err)
			}
			opts := &changes.ReadOptions{HostRoot: h.root, Home: changes.Path(tt.home)}
			if err := changes.Read(t.Context(), bytes.NewReader(l.bytes(t)), w, opts); err != nil {
				t.Fatal(err)
			}
			set, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			got := changes.Scope("")
			for _, c := range set.Changes {
				if string(c.Path) == tt.path {
					got = c.Scope
				}
			}
			if got != tt.want {
				t.Errorf("%s is %q, want %q", tt.path, got, tt.want)
			}
			if n := set.Work + set.Outside + set.NoiseCount; n != len(set.Changes) {
				t.Errorf("the header counts %d changes, want %d", n, len(set.Changes))
			}
		})
	}
}

// TestTheWorkingFolderIsTakenAwayOnlyWhenNamed: a link in its place would make what that
// leads to the work of the next run.
func TestTheWorkingFolderIsTakenAwayOnlyWhenNamed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		layer func(l *layer)
		want  changes.Scope
	}{
		{"a link in its place", func(l *layer) { l.symlink("./w", "/etc") }, changes.Outside},
		{"a file in its place", func(l *layer) { l.file("./w", "x") }, changes.Outside},
		{"nothing in its place", func(l *layer) { l.gone("./w") }, changes.Outside},
		{"another folder in its place", func(l *layer) { l.opaque("./w/", 0o700) }, changes.Work},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, l := newHost(t), newLayer()
			h.file("/w/a", "x")
			tt.layer(l)
			w, err := newStore(t).Create(changes.Header{ID: testID, WorkDir: "/w"})
			if err != nil {
				t.Fatal(err)
			}
			if err := changes.Read(t.Context(), bytes.NewReader(l.bytes(t)), w, &changes.ReadOptions{HostRoot: h.root}); err != nil {
				t.Fatal(err)
			}
			set, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			scopes := map[changes.Path]changes.Scope{}
			for _, c := range set.Changes {
				scopes[c.Path] = c.Scope
			}
			if scopes["/w"] != tt.want || scopes["/w/a"] != changes.Work {
				t.Errorf("the scopes are %v, want %s for the folder", scopes, tt.want)
			}
		})
	}
}
