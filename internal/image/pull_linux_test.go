package image_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"airlock/internal/image"
)

func TestLayersBecomeARootFileSystem(t *testing.T) {
	link := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeSymlink} }
	hard := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeLink} }
	tests := []struct {
		name   string
		layers [][]item
		want   []string
	}{
		{
			"a layer's files lie over those of the layers below",
			[][]item{{file("a", "1"), file("d/b", "1")}, {file("a", "2"), file("d/c", "2")}},
			[]string{"a=2", "d/", "d/b=1", "d/c=2"},
		},
		{
			"a whiteout removes what a lower layer has",
			[][]item{{file("a", "1"), file("d/b", "1")}, {file(".wh.a", ""), file(".wh.d", "")}},
			nil,
		},
		{
			"a whiteout does not remove what its own layer has",
			[][]item{{file("a", "1")}, {file("a", "2"), file(".wh.a", "")}},
			[]string{"a=2"},
		},
		{
			"an opaque folder loses what lower layers have in it",
			[][]item{{file("d/a", "1"), file("d/e/f", "1")}, {file("d/b", "2"), file("d/.wh..wh..opq", "")}},
			[]string{"d/", "d/b=2"},
		},
		{
			"a name through a link of a lower layer leads where the link does inside",
			[][]item{{file("usr/lib/a", "1"), link("lib", "usr/lib"), link("abs", "/usr/lib")}, {file("lib/b", "2"), file("abs/c", "2")}},
			[]string{"abs->/usr/lib", "lib->usr/lib", "usr/", "usr/lib/", "usr/lib/a=1", "usr/lib/b=2", "usr/lib/c=2"},
		},
		{
			"a file takes the place of a folder, and a folder that of a file",
			[][]item{{file("a", "1"), file("d/b", "1")}, {file("d", "2"), file("a/c", "2")}},
			[]string{"a/", "a/c=2", "d=2"},
		},
		{
			"a hard link is another name of a file",
			[][]item{{file("a", "1"), hard("b", "a")}, {hard("c", "b")}},
			[]string{"a=1", "b=1", "c=1"},
		},
		{
			"devices are left out",
			[][]item{{file("a", "1"), {name: "dev/sda", kind: tar.TypeBlock}, {name: "null", kind: tar.TypeChar}}},
			[]string{"a=1"},
		},
		{
			"links where proc and tmp are to be do not stay",
			[][]item{{link("proc", "/etc"), link("tmp", "../../.."), file("dev", "x"), file("etc/a", "1")}},
			[]string{"etc/", "etc/a=1"},
		},
		{"an image without layers is empty", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			var layers []v1.Layer
			for _, items := range test.layers {
				layers = append(layers, layerOf(t, items...))
			}
			h.push(t, "a/b:1", imageOf(t, layers...))
			s := newStore(t, nil)
			img := pull(t, s, h.ref("a/b:1"), nil)
			wantTree(t, img.RootDir, test.want...)
			for _, name := range []string{"dev", "proc", "sys", "tmp"} {
				if info, err := os.Lstat(filepath.Join(img.RootDir, name)); err != nil || !info.IsDir() {
					t.Errorf("%s is no folder: %v", name, err)
				}
			}
			leftovers(t, s)
		})
	}
}

func TestLayersArePackedInAnyWay(t *testing.T) {
	data := tarOf(t, file("a", "1"))
	long := append(slices.Clone(data), make([]byte, 100<<10)...) // builders pad
	tests := []struct {
		name  string
		layer v1.Layer
	}{
		{"gzip", layerOfTar(t, data)},
		{"zstd", layerOfTar(t, data, tarball.WithCompression(compression.ZStd), tarball.WithMediaType(types.OCILayerZStd))},
		{"zstd that calls itself gzip", layerOfTar(t, data, tarball.WithCompression(compression.ZStd))},
		{"not at all", static.NewLayer(data, types.OCIUncompressedLayer)},
		{"with much behind its end", layerOfTar(t, long)},
		{"without the tar's end", static.NewLayer(data[:1024], types.OCIUncompressedLayer)},
		{"without what fills its last block", static.NewLayer(data[:513], types.OCIUncompressedLayer)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", imageOf(t, test.layer))
			img := pull(t, newStore(t, nil), h.ref("a:1"), nil)
			wantTree(t, img.RootDir, "a=1")
		})
	}
}

func TestTheRightPlatformIsTaken(t *testing.T) {
	other := "s390x"
	add := func(arch, variant, body string) mutate.IndexAddendum {
		return mutate.IndexAddendum{
			Add:        imageFor(t, arch, v1.Config{}, layerOf(t, file("a", body))),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch, Variant: variant}},
		}
	}
	attestation := mutate.IndexAddendum{
		Add:        imageFor(t, runtime.GOARCH, v1.Config{}, layerOf(t, file("a", "attestation"))),
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}},
	}
	h := newHub(t, nil)
	h.pushIndex(t, "a:both", mutate.AppendManifests(empty.Index, add(other, "", "other"), attestation, add(runtime.GOARCH, "", "ours")))
	h.pushIndex(t, "a:other", mutate.AppendManifests(empty.Index, add(other, "", "other"), attestation))
	inner := mutate.AppendManifests(empty.Index, add(runtime.GOARCH, "", "deep"))
	h.pushIndex(t, "a:nested", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner}))
	h.push(t, "a:alone", imageFor(t, other, v1.Config{}, layerOf(t, file("a", "other"))))
	s := newStore(t, nil)
	wantTree(t, pull(t, s, h.ref("a:both"), nil).RootDir, "a=ours")
	wantTree(t, pull(t, s, h.ref("a:nested"), nil).RootDir, "a=deep")
	_, err := s.Pull(t.Context(), h.ref("a:other"), nil)
	wantError(t, err, nil, "not there for linux/"+runtime.GOARCH, "linux/s390x")
	_, err = s.Pull(t.Context(), h.ref("a:alone"), nil)
	wantError(t, err, nil, "linux/s390x", "this machine is linux/"+runtime.GOARCH)
}

func TestWhatAnImageSays(t *testing.T) {
	h := newHub(t, nil)
	config := v1.Config{
		Env: []string{"PATH=/bin", "EMPTY=", "bad", "=bad", "NUL=\x00"}, WorkingDir: "/link/app/", User: "1000:100",
		Entrypoint: []string{"/entry"}, Cmd: []string{"-x"}, Labels: map[string]string{"a": "b"},
	}
	made := imageFor(t, runtime.GOARCH, config, layerOf(t, file("real/f", "12345"), item{name: "link", link: "/real", kind: tar.TypeSymlink}))
	h.push(t, "a:1", made)
	s := newStore(t, nil)
	img := pull(t, s, h.ref("a:1"), &image.PullOptions{Owner: "box"})
	want := image.Config{
		Env: []string{"PATH=/bin", "EMPTY="}, WorkingDir: "/link/app", User: "1000:100",
		Entrypoint: []string{"/entry"}, Cmd: []string{"-x"}, Labels: map[string]string{"a": "b"},
	}
	if !slices.Equal(img.Config.Env, want.Env) || img.Config.WorkingDir != want.WorkingDir || img.Config.User != want.User ||
		!slices.Equal(img.Config.Entrypoint, want.Entrypoint) || !slices.Equal(img.Config.Cmd, want.Cmd) || img.Config.Labels["a"] != "b" {
		t.Errorf("Config = %+v, want %+v", img.Config, want)
	}
	if info, err := os.Stat(filepath.Join(img.RootDir, "real/app")); err != nil || !info.IsDir() {
		t.Errorf("the working folder does not exist: %v", err)
	}
	id, err := made.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if img.ID != id.String() || img.Digest != digestOf(t, made).String() || img.Platform != "linux/"+runtime.GOARCH ||
		img.Size != 5 || img.Created.Unix() != 1_600_000_000 || len(img.Layers) != 1 || !slices.Equal(img.Holders, []string{"box"}) || img.Ref != h.ref("a:1") {
		t.Errorf("image = %+v", img)
	}
	again, err := s.Inspect(t.Context(), img.ID[:len("sha256:")+6])
	if err != nil || again.ID != img.ID || again.RootDir != img.RootDir || !slices.Equal(again.Refs, []string{h.ref("a:1")}) {
		t.Errorf("Inspect = %+v, %v", again, err)
	}
}

func TestAWorkingFolderThatCannotBeIsNone(t *testing.T) {
	for name, dir := range map[string]string{
		"a file is in its place": "/f", "a file is in its way": "/f/g", "links go round": "/round/a",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", imageFor(t, runtime.GOARCH, v1.Config{WorkingDir: dir},
				layerOf(t, file("f", ""), item{name: "round", link: "round", kind: tar.TypeSymlink})))
			if img := pull(t, newStore(t, nil), h.ref("a:1"), nil); img.Config.WorkingDir != "" {
				t.Errorf("WorkingDir = %q, want none", img.Config.WorkingDir)
			}
		})
	}
	h := newHub(t, nil)
	h.push(t, "a:1", imageFor(t, runtime.GOARCH, v1.Config{WorkingDir: "../../up"}, layerOf(t, file("f", ""))))
	if img := pull(t, newStore(t, nil), h.ref("a:1"), nil); img.Config.WorkingDir != "/up" {
		t.Errorf("WorkingDir = %q, want /up", img.Config.WorkingDir)
	}
}

func TestWhenARegistryIsAsked(t *testing.T) {
	h := newHub(t, nil)
	s := newStore(t, nil)
	ref := h.ref("a:1")
	_, err := s.Pull(t.Context(), ref, &image.PullOptions{Policy: image.Never})
	wantError(t, err, image.ErrNotFound, "not to be pulled")
	if h.asked("") != 0 {
		t.Error("never asked the registry")
	}
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	first := pull(t, s, ref, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "2"))))
	h.answer(nil)
	if again := pull(t, s, ref, nil); again.ID != first.ID || h.asked("") != 0 {
		t.Errorf("missing pulled again, with %d requests", h.asked(""))
	}
	second := pull(t, s, ref, &image.PullOptions{Policy: image.Always})
	wantTree(t, second.RootDir, "a=2")
	wantTree(t, first.RootDir, "a=1")
	if never := pull(t, s, ref, &image.PullOptions{Policy: image.Never}); never.ID != second.ID {
		t.Error("the tag did not move")
	}
	h.answer(nil)
	if pull(t, s, ref, &image.PullOptions{Policy: image.Always}); h.asked("/blobs/") > 1 {
		t.Errorf("always fetched more than the configuration: %q", h.requests)
	}
	old := pull(t, s, h.ref("a@"+first.Digest), nil)
	if old.ID != first.ID {
		t.Errorf("by digest: %s, want %s", old.ID, first.ID)
	}
	_, err = s.Pull(t.Context(), ref, &image.PullOptions{Policy: "sometimes"})
	wantError(t, err, nil, "sometimes")
}

func TestProgressIsTold(t *testing.T) {
	h := newHub(t, nil)
	below := layerOf(t, file("a", noise(200_000, 1)))
	h.push(t, "a:base", imageOf(t, below))
	h.push(t, "a:1", imageOf(t, below, layerOf(t, file("b", noise(300_000, 2)))))
	s := newStore(t, nil)
	var base, all []image.Progress
	pull(t, s, h.ref("a:base"), &image.PullOptions{Progress: func(p image.Progress) { base = append(base, p) }})
	pull(t, s, h.ref("a:1"), &image.PullOptions{Progress: func(p image.Progress) { all = append(all, p) }})
	if last := base[len(base)-1]; !last.Done || last.Layers[0].State != image.Done || last.Layers[0].Done != last.Layers[0].Total {
		t.Errorf("at the end: %+v", last)
	}
	last := all[len(all)-1]
	if !last.Done || len(last.Layers) != 2 || last.Layers[0].State != image.Shared || last.Layers[1].State != image.Done || last.Layers[1].Total < 300_000 {
		t.Errorf("at the end: %+v", last)
	}
	if first := all[0]; first.Done || first.Layers[1].State != image.Waiting {
		t.Errorf("at the beginning: %+v", first)
	}
	var third []image.Progress
	pull(t, s, h.ref("a:1"), &image.PullOptions{Policy: image.Always, Progress: func(p image.Progress) { third = append(third, p) }})
	if last := third[len(third)-1]; !last.Done || last.Layers[1].State != image.Shared {
		t.Errorf("of what was there: %+v", last)
	}
}

func TestImagesShareTheLayersBelow(t *testing.T) {
	h := newHub(t, nil)
	below := []v1.Layer{
		layerOf(t, item{name: "d/", mode: 0o2750, uid: 7}, file("d/same", "same"), file("d/changed", "old"), file("d/gone", "gone"),
			item{name: "link", link: "d", kind: tar.TypeSymlink}),
		layerOf(t, file("more", "more")),
	}
	h.push(t, "a:base", imageOf(t, below...))
	h.push(t, "a:1", imageOf(t, append(below, layerOf(t, file("d/changed", "new"), file("d/.wh.gone", ""),
		item{name: "twice", link: "d/same", kind: tar.TypeLink}))...))
	s := newStore(t, nil)
	base := pull(t, s, h.ref("a:base"), nil)
	h.answer(nil)
	img := pull(t, s, h.ref("a:1"), nil)
	if n := h.asked("/blobs/"); n != 2 { // a configuration and one layer
		t.Errorf("%d blobs were asked for, want 2: %q", n, h.requests)
	}
	wantTree(t, base.RootDir, "d/", "d/same=same", "d/changed=old", "d/gone=gone", "link->d", "more=more")
	wantTree(t, img.RootDir, "d/", "d/same=same", "d/changed=new", "link->d", "more=more", "twice=same")
	one, _ := os.Stat(filepath.Join(base.RootDir, "d/same"))
	two, _ := os.Stat(filepath.Join(img.RootDir, "d/same"))
	if !os.SameFile(one, two) {
		t.Error("the file that both have is there twice")
	}
	dirs := [2]os.FileInfo{}
	for i, root := range []string{base.RootDir, img.RootDir} {
		dirs[i], _ = os.Stat(filepath.Join(root, "d"))
	}
	if dirs[0].Mode() != dirs[1].Mode() || dirs[0].Mode().Perm() != 0o750 {
		t.Errorf("folders' modes are %v and %v", dirs[0].Mode(), dirs[1].Mode())
	}
	if err := s.Remove(t.Context(), h.ref("a:base")); err != nil {
		t.Fatal(err)
	}
	wantTree(t, img.RootDir, "d/", "d/same=same", "d/changed=new", "link->d", "more=more", "twice=same")
	leftovers(t, s)
}

func TestWhatAConfigurationMadeIsNotShared(t *testing.T) {
	h := newHub(t, nil)
	below := layerOf(t, file("a", "1"))
	h.push(t, "a:base", imageFor(t, runtime.GOARCH, v1.Config{WorkingDir: "/made"}, below))
	h.push(t, "a:1", imageOf(t, below, layerOf(t, file("b", "2"))))
	s := newStore(t, nil)
	wantTree(t, pull(t, s, h.ref("a:base"), nil).RootDir, "a=1", "made/")
	wantTree(t, pull(t, s, h.ref("a:1"), nil).RootDir, "a=1", "b=2")
}

func TestRootKeepsOwnersAndSetUID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, item{name: "su", mode: 0o4755, body: "x", uid: 7}, item{name: "closed/", mode: -1}, file("closed/a", "1"))))
	img := pull(t, newStore(t, nil), h.ref("a:1"), nil)
	info, err := os.Lstat(filepath.Join(img.RootDir, "su"))
	if err != nil || info.Mode() != 0o755|os.ModeSetuid || ownerOf(info) != 7 {
		t.Errorf("su: %v of %d, %v", info.Mode(), ownerOf(info), err)
	}
	if info, err := os.Lstat(filepath.Join(img.RootDir, "closed")); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("closed: %v, %v", info.Mode(), err)
	}
}

func TestCapabilitiesAreKeptAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give capabilities")
	}
	value := string([]byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // cap_net_raw
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, item{name: "ping", mode: 0o755, body: "x", pax: map[string]string{"SCHILY.xattr.security.capability": value}})))
	img := pull(t, newStore(t, nil), h.ref("a:1"), nil)
	if got := attribute(t, filepath.Join(img.RootDir, "ping"), "security.capability"); !bytes.Equal(got, []byte(value)) {
		t.Errorf("security.capability = %q, want %q", got, value)
	}
}
