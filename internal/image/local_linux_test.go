package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"airlock/internal/image"
)

func twoImages(t *testing.T) (one, two v1.Image) {
	below := layerOf(t, file("a", "1"))
	return imageOf(t, below), imageOf(t, below, layerOf(t, file("b", "2")))
}

func TestAnOCILayout(t *testing.T) {
	one, two := twoImages(t)
	dir := filepath.Join(t.TempDir(), "lay:out") // a colon in the path is none of a tag's
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for tag, img := range map[string]v1.Image{"one": one, "two:2": two} {
		if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
			t.Fatal(err)
		}
	}
	s := newStore(t, nil)
	wantTree(t, pull(t, s, "oci:"+dir+":one", nil).RootDir, "a=1")
	img := pull(t, s, "oci:"+dir+":two:2", nil)
	wantTree(t, img.RootDir, "a=1", "b=2")
	if again := pull(t, s, img.Ref, &image.PullOptions{Policy: image.Never}); again.ID != img.ID {
		t.Error("it was not found again by its reference")
	}
	_, err = s.Pull(t.Context(), "oci:"+dir+":three", nil)
	wantError(t, err, image.ErrNotFound, "one", "two:2")
	_, err = s.Pull(t.Context(), "oci:"+dir, nil)
	wantError(t, err, image.ErrReference, "several")
	_, err = s.Pull(t.Context(), "oci:"+t.TempDir(), nil)
	wantError(t, err, nil, "no index.json", "dir:")
	_, err = s.Pull(t.Context(), "oci:"+filepath.Join(dir, "none"), nil)
	wantError(t, err, os.ErrNotExist)

	alone := filepath.Join(t.TempDir(), "alone")
	if p, err = layout.Write(alone, empty.Index); err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(one); err != nil {
		t.Fatal(err)
	}
	wantTree(t, pull(t, newStore(t, nil), "oci:"+alone, nil).RootDir, "a=1")
	leftovers(t, s)
}

func TestALayoutThatLies(t *testing.T) {
	l := layerOf(t, file("a", noise(1000, 1)))
	img := imageOf(t, l)
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	damage := func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 4
		return os.WriteFile(path, data, 0o644)
	}
	pipe := func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return unix.Mkfifo(path, 0o600)
	}
	for name, do := range map[string]func(path string) error{
		"a damaged one": damage, "a pipe": pipe, "none": os.Remove,
		"an endless one": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("/dev/zero", path)
		},
	} {
		for what, h := range map[string]v1.Hash{"layer": digestOf(t, l), "manifest": digestOf(t, img), "configuration": config, "index": {}} {
			t.Run(name+" for a "+what, func(t *testing.T) {
				dir := t.TempDir()
				p, err := layout.Write(dir, empty.Index)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.AppendImage(img); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "blobs", h.Algorithm, h.Hex)
				if what == "index" {
					path = filepath.Join(dir, "index.json")
				}
				if err := do(path); err != nil {
					t.Fatal(err)
				}
				s := newStore(t, nil)
				if _, err := s.Pull(t.Context(), "oci:"+dir, nil); err == nil {
					t.Error("it was taken")
				}
				leftovers(t, s)
			})
		}
	}
}

func TestADockerArchive(t *testing.T) {
	one, two := twoImages(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "images.tar")
	tag := func(s string) name.Tag {
		out, err := name.NewTag(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := tarball.MultiWriteToFile(file, map[name.Tag]v1.Image{tag("x/one:1"): one, tag("ghcr.io/x/two:2"): two}); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, nil)
	for ref, want := range map[string][]string{
		"1": {"a=1"}, "x/one:1": {"a=1"}, "docker.io/x/one:1": {"a=1"}, "2": {"a=1", "b=2"}, "ghcr.io/x/two:2": {"a=1", "b=2"},
	} {
		wantTree(t, pull(t, s, "docker-archive:"+file+":"+ref, nil).RootDir, want...)
	}
	_, err := s.Pull(t.Context(), "docker-archive:"+file, nil)
	wantError(t, err, image.ErrReference, "several", "ghcr.io/x/two:2")
	_, err = s.Pull(t.Context(), "docker-archive:"+file+":9", nil)
	wantError(t, err, image.ErrNotFound, "ghcr.io/x/two:2")
	if err := tarball.WriteToFile(file, tag("x/one:1"), one); err != nil {
		t.Fatal(err)
	}
	wantTree(t, pull(t, s, "docker-archive:"+file, nil).RootDir, "a=1")
	leftovers(t, s)
}

func TestArchivesThatAreNone(t *testing.T) {
	config := `{"os":"linux","rootfs":{"diff_ids":["sha256:` + strings.Repeat("0", 64) + `"]}}`
	link := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeSymlink} }
	tests := []struct {
		name  string
		items []item
		says  string
	}{
		{"without a manifest", []item{file("a", "")}, "no archive that docker save wrote"},
		{"with a manifest that is none", []item{file("manifest.json", "{")}, "manifest.json"},
		{"without images", []item{file("manifest.json", "[]")}, "empty"},
		{"without the configuration", []item{file("manifest.json", `[{"Config":"c","Layers":[]}]`)}, `no "c"`},
		{"with a path that leads out", []item{file("manifest.json", `[{"Config":"../../../etc/passwd","Layers":[]}]`)}, "no "},
		{"with a link that leads out", []item{file("manifest.json", `[{"Config":"c","Layers":[]}]`), link("c", "/etc/passwd")}, "no "},
		{"with links that go round", []item{file("manifest.json", `[{"Config":"c","Layers":[]}]`), link("c", "d"), link("d", "c")}, "no "},
		{"with fewer layers", []item{file("manifest.json", `[{"Config":"c","Layers":[]}]`), file("c", config)}, "0 layers, the configuration 1"},
		{"without the layer", []item{file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", config)}, `no "l"`},
		{"with another layer", []item{file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", config), file("l", string(make([]byte, 1024)))}, "digest"},
		{"with a long manifest", []item{file("manifest.json", strings.Repeat(" ", 9<<20))}, "more than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.tar")
			if err := os.WriteFile(path, tarOf(t, test.items...), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newStore(t, nil)
			_, err := s.Pull(t.Context(), "docker-archive:"+path, nil)
			wantError(t, err, nil, test.says)
			leftovers(t, s)
		})
	}
	path := filepath.Join(t.TempDir(), "x.tar.gz")
	if err := os.WriteFile(path, zeroes(t, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newStore(t, nil).Pull(t.Context(), "docker-archive:"+path, nil)
	wantError(t, err, nil, "gunzip")
}

func TestAFolderIsCopiedWhenItChanged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/passwd", "root")
	write(".wh.etc", "no whiteout here")
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, nil)
	first := pull(t, s, "dir:"+dir, nil)
	wantTree(t, first.RootDir, "etc/", "etc/passwd=root", ".wh.etc=no whiteout here", "link->/etc")
	if again := pull(t, s, "dir:"+dir+"/", nil); again.ID != first.ID {
		t.Error("it was copied again without a change")
	}
	old, err := os.Stat(filepath.Join(dir, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	write("etc/passwd", "toor") // as long, and as old
	if err := os.Chtimes(filepath.Join(dir, "etc/passwd"), time.Time{}, old.ModTime()); err != nil {
		t.Fatal(err)
	}
	second := pull(t, s, "dir:"+dir, nil)
	wantTree(t, second.RootDir, "etc/", "etc/passwd=toor", ".wh.etc=no whiteout here", "link->/etc")
	wantTree(t, first.RootDir, "etc/", "etc/passwd=root", ".wh.etc=no whiteout here", "link->/etc")
	leftovers(t, s)
}

func TestFoldersThatCannotBeImages(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, filepath.Join(dir, "home", "images"), nil)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/": "whole of this machine", dir: "into itself", link: "into itself", s.Dir(): "into itself", file: "not a folder", dir + "/none": "no such file",
	} {
		_, err := s.Pull(t.Context(), "dir:"+path, nil)
		wantError(t, err, nil, says)
	}
	leftovers(t, s)
}

func TestAFolderThatChangesMeanwhileIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), bytes.Repeat([]byte("x"), 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newStore(t, nil)
	changed := false
	_, err := s.Pull(t.Context(), "dir:"+dir, &image.PullOptions{Progress: func(p image.Progress) {
		if !changed && len(p.Layers) > 0 { // the fingerprint has been taken, nothing has been copied
			changed = os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) == nil
		}
	}})
	wantError(t, err, nil, "changed while it was copied")
	leftovers(t, s)
}
