package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"airlock/internal/image"
)

// tools skips the test where one of Debian's programs is missing.
func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here; Debian's package has the same name", name)
		}
	}
}

// run runs a program and gives what it printed.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// skopeo copies an image.
func skopeo(t *testing.T, args ...string) {
	t.Helper()
	run(t, "skopeo", append([]string{"--insecure-policy", "--tmpdir", t.TempDir(), "copy", "--quiet"}, args...)...)
}

// layoutOf has umoci make a layout with two tags: "base" and, with something deleted from that, "v2".
func layoutOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	lay := filepath.Join(dir, "lay")
	write(t, filepath.Join(dir, "tree/a"), "1")
	write(t, filepath.Join(dir, "tree/sub/b"), "2")
	write(t, filepath.Join(dir, "big"), bigFile())
	umoci := func(args ...string) { t.Helper(); run(t, "umoci", args...) }
	umoci("init", "--layout", lay)
	umoci("new", "--image", lay+":base")
	rootless := []string{"insert", "--image", lay + ":base"}
	if os.Geteuid() != 0 {
		rootless = append(rootless, "--rootless")
	}
	umoci(append(rootless, filepath.Join(dir, "tree"), "/srv")...)
	umoci("tag", "--image", lay+":base", "v2")
	umoci("insert", "--whiteout", "--image", lay+":v2", "/srv/a")
	rootless[2] = lay + ":v2"
	umoci(append(rootless, filepath.Join(dir, "big"), "/big")...)
	umoci("config", "--image", lay+":v2", "--config.env", "A=b", "--config.workingdir", "/srv", "--config.user", "1000:1000", "--config.cmd", "sh")
	return lay
}

// bigFile is in layoutOf's images of tag v2.
var bigFile = sync.OnceValue(func() string { return noise(2_000_000, 11) })

// baseTree and v2Tree are what layoutOf's images have.
func baseTree() []string { return []string{"srv/", "srv/a=1", "srv/sub/", "srv/sub/b=2"} }
func v2Tree() []string   { return []string{"srv/", "srv/sub/", "srv/sub/b=2", "big=" + bigFile()} }

func TestWhatUmociAndSkopeoMake(t *testing.T) {
	tools(t, "umoci", "skopeo")
	home(t, "")
	lay := layoutOf(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	from := "oci:" + lay + ":v2"
	for format, name := range map[string]string{"gzip": "gz", "zstd": "zst"} {
		skopeo(t, "--dest-compress", "--dest-compress-format", format, from, "oci:"+at(name)+":v1.0")
	}
	skopeo(t, "--dest-decompress", from, "dir:"+at("loose"))
	skopeo(t, "--dest-oci-accept-uncompressed-layers", "dir:"+at("loose"), "oci:"+at("plain"))
	skopeo(t, from, "oci-archive:"+at("packed.tar")+":v1.0")
	skopeo(t, "--additional-tag", "x/other:2", from, "docker-archive:"+at("saved.tar")+":x/two:1")
	skopeo(t, from, "docker-archive:"+at("untagged.tar"))
	for layout, layer := range map[string]string{"gz": "tar+gzip", "zst": "tar+zstd", "plain": `.tar"`} {
		if text := manifestIn(t, at(layout)); !strings.Contains(text, layer) {
			t.Errorf("%s has other layers than %s: %s", layout, layer, text)
		}
	}
	s := newStore(t, nil)
	wantTree(t, pull(t, s, "oci:"+lay+":base", nil).RootDir, baseTree()...)
	ids := map[string]bool{}
	for _, ref := range []string{
		from, "oci:" + at("gz"), "oci:" + at("gz") + ":v1.0", "oci:" + at("zst") + ":v1.0", "oci:" + at("plain"),
		"docker-archive:" + at("packed.tar"), "docker-archive:" + at("packed.tar") + ":v1.0",
		"docker-archive:" + at("saved.tar"), "docker-archive:" + at("saved.tar") + ":1", "docker-archive:" + at("saved.tar") + ":x/other:2",
		"docker-archive:" + at("untagged.tar"),
	} {
		fresh := newStore(t, nil)
		img := pull(t, fresh, ref, nil)
		wantTree(t, img.RootDir, v2Tree()...)
		if c := img.Config; c.WorkingDir != "/srv" || c.User != "1000:1000" || !slices.Contains(c.Env, "A=b") || len(img.Layers) != 3 {
			t.Errorf("%s: %+v and %d layers", ref, c, len(img.Layers))
		}
		ids[img.ID] = true
		leftovers(t, fresh)
	}
	if len(ids) != 1 {
		t.Errorf("one image is %d: %v", len(ids), ids)
	}
	for ref, says := range map[string]string{
		"oci:" + lay:                                   "write oci:" + lay + ":TAG with one of",
		"oci:" + lay + ":v3":                           "base, v2",
		"oci:" + at("plain") + ":v1":                   "no tags; write oci:" + at("plain"),
		"docker-archive:" + at("packed.tar") + ":v9":   "v1.0",
		"docker-archive:" + at("untagged.tar") + ":v9": "has no",
		"oci:" + at("packed.tar"):                      "docker-archive",
	} {
		_, err := s.Pull(t.Context(), ref, nil)
		wantError(t, err, nil, says)
	}
}

// manifestIn is the manifest of a layout with one image.
func manifestIn(t *testing.T, lay string) string {
	t.Helper()
	var index v1.IndexManifest
	data, err := os.ReadFile(filepath.Join(lay, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(filepath.Join(lay, "blobs/sha256", index.Manifests[0].Digest.Hex))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// addIndex puts an index into a layout, of one tag for this machine and others for others, under a tag of its own.
func addIndex(t *testing.T, lay, tag, here, elsewhere string) {
	t.Helper()
	path := filepath.Join(lay, "index.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var top v1.IndexManifest
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatal(err)
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json"}
	for _, d := range top.Manifests {
		arch := map[string]string{here: machineArch, elsewhere: "s390x"}[d.Annotations["org.opencontainers.image.ref.name"]]
		if arch != "" {
			d.Annotations, d.Platform = nil, &v1.Platform{OS: "linux", Architecture: arch}
			index.Manifests = append(index.Manifests, d)
		}
	}
	if data, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}
	hex := fmt.Sprintf("%x", sha256.Sum256(data))
	write(t, filepath.Join(lay, "blobs/sha256", hex), string(data))
	top.Manifests = append(top.Manifests, v1.Descriptor{
		MediaType: index.MediaType, Size: int64(len(data)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex},
		Annotations: map[string]string{"org.opencontainers.image.ref.name": tag},
	})
	if data, err = json.Marshal(top); err != nil {
		t.Fatal(err)
	}
	write(t, path, string(data))
}

func TestALayoutForSeveralMachines(t *testing.T) {
	tools(t, "umoci", "skopeo")
	lay := layoutOf(t)
	run(t, "umoci", "config", "--image", lay+":base", "--tag", "other", "--architecture", "s390x")
	addIndex(t, lay, "all", "v2", "other")
	addIndex(t, lay, "others", "none", "other")
	copied := filepath.Join(t.TempDir(), "copied")
	skopeo(t, "--all", "oci:"+lay+":all", "oci:"+copied+":1")
	for _, ref := range []string{"oci:" + lay + ":all", "oci:" + copied, "oci:" + copied + ":1"} {
		s := newStore(t, nil)
		wantTree(t, pull(t, s, ref, nil).RootDir, v2Tree()...)
	}
	for ref, says := range map[string]string{"oci:" + lay + ":others": "linux/s390x", "oci:" + lay + ":other": "linux/s390x"} {
		_, err := newStore(t, nil).Pull(t.Context(), ref, nil)
		wantError(t, err, nil, says, "linux/"+machineArch)
	}
}

// saved writes an archive as `docker save` does: up to version 24 a folder a layer, from then on an OCI layout with a manifest.json.
func saved(t *testing.T, lay string, old bool) string {
	t.Helper()
	var m v1.Manifest
	if err := json.Unmarshal([]byte(manifestIn(t, lay)), &m); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	links := map[string]string{}
	entry := map[string]any{"RepoTags": []string{"x/two:1"}}
	blob := func(h v1.Hash) []byte {
		data, err := os.ReadFile(filepath.Join(lay, "blobs/sha256", h.Hex))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var layers []string
	if old {
		files[m.Config.Digest.Hex+".json"] = blob(m.Config.Digest)
		entry["Config"] = m.Config.Digest.Hex + ".json"
		for i, l := range m.Layers {
			name := strings.Repeat(fmt.Sprint(i), 64)
			files[name+"/VERSION"], files[name+"/json"], files[name+"/layer.tar"] = []byte("1.0"), []byte("{}"), blob(l.Digest)
			layers = append(layers, name+"/layer.tar")
		}
		links["twice/layer.tar"] = "../" + layers[0] // as of a layer that another image has, too
		layers[0] = "twice/layer.tar"
		files["repositories"] = []byte(`{"x/two":{"1":"` + strings.Repeat("2", 64) + `"}}`)
	} else {
		if err := filepath.WalkDir(lay, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(lay, path)
			files[rel], err = os.ReadFile(path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		entry["Config"] = "blobs/sha256/" + m.Config.Digest.Hex
		for _, l := range m.Layers {
			layers = append(layers, "blobs/sha256/"+l.Digest.Hex)
		}
	}
	entry["Layers"] = layers
	data, err := json.Marshal([]any{entry})
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = data
	var items []item
	for name, body := range files {
		items = append(items, file(name, string(body)))
	}
	for name, to := range links {
		items = append(items, item{name: name, link: to, kind: tar.TypeSymlink})
	}
	path := filepath.Join(t.TempDir(), "saved.tar")
	write(t, path, string(tarOf(t, items...)))
	return path
}

func TestBothFormsOfDockerSave(t *testing.T) {
	tools(t, "umoci", "skopeo")
	source := layoutOf(t)
	lays := map[string]string{"packed layers": filepath.Join(t.TempDir(), "gz"), "plain layers": filepath.Join(t.TempDir(), "plain")}
	loose := filepath.Join(t.TempDir(), "loose")
	skopeo(t, "oci:"+source+":v2", "oci:"+lays["packed layers"]+":1")
	skopeo(t, "--dest-decompress", "oci:"+source+":v2", "dir:"+loose)
	skopeo(t, "--dest-oci-accept-uncompressed-layers", "dir:"+loose, "oci:"+lays["plain layers"]+":1")
	for name, lay := range lays {
		for form, old := range map[string]bool{"up to Docker 24": true, "since Docker 25": false} {
			t.Run(name+", "+form, func(t *testing.T) {
				path := saved(t, lay, old)
				for _, tag := range []string{"", ":1", ":x/two:1", ":docker.io/x/two:1"} {
					wantTree(t, pull(t, newStore(t, nil), "docker-archive:"+path+tag, nil).RootDir, v2Tree()...)
				}
				_, err := newStore(t, nil).Pull(t.Context(), "docker-archive:"+path+":x/two:2", nil)
				wantError(t, err, image.ErrNotFound, "x/two:1")
			})
		}
	}
}

func TestAPackedLayoutThatLies(t *testing.T) {
	tools(t, "umoci", "skopeo")
	path := filepath.Join(t.TempDir(), "packed.tar")
	skopeo(t, "oci:"+layoutOf(t)+":v2", "oci-archive:"+path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, with := range map[string][2]string{
		"another configuration": {`"A=b"`, `"A=c"`},
		"another manifest":      {`image.config.v1+json`, `image.config.v2+json`},
		"no index":              {`"manifests"`, `"manifestz"`},
	} {
		t.Run(what, func(t *testing.T) {
			bad := bytes.ReplaceAll(good, []byte(with[0]), []byte(with[1]))
			if bytes.Equal(bad, good) {
				t.Fatalf("there is no %s in it", with[0])
			}
			write(t, path, string(bad))
			s := newStore(t, nil)
			if _, err := s.Pull(t.Context(), "docker-archive:"+path, nil); err == nil {
				t.Error("it was taken")
			}
			leftovers(t, s)
		})
	}
}
