package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"airlock/internal/image"
)

func TestNothingIsWrittenOutsideTheRoot(t *testing.T) {
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 30)
	link := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeSymlink} }
	hard := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeLink} }
	tests := []struct {
		name   string
		layers [][]item
	}{
		{"a name that goes up", [][]item{{file(up+outside[1:]+"/canary", "dead")}}},
		{"an absolute name", [][]item{{file(canary, "dead")}}},
		{"a name through an absolute link", [][]item{{link("d", outside), file("d/canary", "dead")}}},
		{"a name through a link of a lower layer", [][]item{{link("d", outside)}, {file("d/canary", "dead")}}},
		{"a name through a link that goes up", [][]item{{link("d", up+outside[1:]), file("d/canary", "dead")}}},
		{"a file that is a link already", [][]item{{link("canary", canary)}, {file("canary", "dead")}}},
		{"a hard link to what is outside", [][]item{{hard("a", up+canary[1:])}, {file("a", "dead")}}},
		{"a hard link to an absolute name", [][]item{{hard("a", canary)}, {file("a", "dead")}}},
		{"a hard link through a link", [][]item{{link("d", outside), hard("a", "d/canary"), file("a", "dead")}}},
		{"a whiteout through a link", [][]item{{link("d", outside)}, {file("d/.wh.canary", "")}}},
		{"a whiteout that goes up", [][]item{{file(up+outside[1:]+"/.wh.canary", "")}}},
		{"an opaque folder through a link", [][]item{{link("d", outside)}, {file("d/.wh..wh..opq", "")}}},
		{"a whiteout of the folder above", [][]item{{file("d/.wh...", "")}}},
		{"a folder's mode through a link", [][]item{{link("d", outside), item{name: "d/.", mode: 0o777, kind: tar.TypeDir}}}},
		{"proc that is a link", [][]item{{link("proc", outside), link("tmp", outside)}}},
		{"the root itself as a link", [][]item{{link(".", outside)}, {file("canary", "dead")}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			var layers []v1.Layer
			for _, items := range test.layers {
				layers = append(layers, layerOf(t, items...))
			}
			h.push(t, "a:1", imageOf(t, layers...))
			s := newStore(t, nil)
			_, err := s.Pull(t.Context(), h.ref("a:1"), nil) // refused or taken below the root: both will do
			data, err2 := os.ReadFile(canary)
			if string(data) != "alive" {
				t.Fatalf("the canary is %q, %v (pull: %v)", data, err2, err)
			}
			if info, err := os.Stat(outside); err != nil || info.Mode().Perm()&0o002 != 0 {
				t.Fatalf("the folder outside is %v, %v", info.Mode(), err)
			}
			if inside, _ := os.ReadDir(outside); len(inside) != 1 {
				t.Fatalf("outside are %v", inside)
			}
			leftovers(t, s, "partial") // of a layer above the one that was refused
		})
	}
}

// zeroes are a gzip of a tar with a file of n zero bytes.
func zeroes(t *testing.T, n int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "zeroes", Typeflag: tar.TypeReg, Size: n, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeroReader{}, n); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBombsDoNotGoOff(t *testing.T) {
	var many []item
	for i := range 200 {
		many = append(many, file(fmt.Sprint("f", i), ""))
	}
	var layers []v1.Layer
	for i := range 12 {
		layers = append(layers, layerOf(t, file(fmt.Sprint("f", i), "")))
	}
	sparse := tarOf(t, item{name: "huge", body: strings.Repeat("\x00", 10)})
	copy(sparse[124:136], "77777777777\x00") // its size: 8 GiB, without its bytes
	fixSum(sparse)
	trailing := append(tarOf(t, file("a", "")), make([]byte, 90<<20)...)
	limits := image.Limits{Bytes: 10 << 20, Entries: 100, Ratio: 20, Floor: 1 << 20, Layers: 10, Manifest: 64 << 10}
	tests := []struct {
		name string
		img  v1.Image
	}{
		{"a layer that unpacks to more than is allowed", imageOf(t, layerOf(t, file("a", noise(11<<20, 1))))},
		{"layers that do so together", imageOf(t, layerOf(t, file("a", noise(6<<20, 1))), layerOf(t, file("b", noise(6<<20, 2))))},
		{"a layer that unpacks to much more than was sent", imageOf(t, static.NewLayer(zeroes(t, 5<<20), types.OCILayer))},
		{"too many files", imageOf(t, layerOf(t, many...))},
		{"too many files of several layers", imageOf(t, layerOf(t, many[:60]...), layerOf(t, many[60:120]...))},
		{"too many layers", imageOf(t, layers...)},
		{"a size that is claimed", imageOf(t, static.NewLayer(sparse, types.OCIUncompressedLayer))},
		{"much behind the tar's end", imageOf(t, layerOfTar(t, trailing))},
		{"a long configuration", imageFor(t, machineArch, v1.Config{Env: []string{"A=" + strings.Repeat("x", 70<<10)}}, layerOf(t, file("a", "")))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", test.img)
			s := newStore(t, &image.Options{Limits: limits})
			_, err := s.Pull(t.Context(), h.ref("a:1"), nil)
			wantError(t, err, image.ErrLimit)
			leftovers(t, s)
			if images, _ := s.List(t.Context()); len(images) != 0 {
				t.Errorf("the store has %d images", len(images))
			}
		})
	}
}

// fixSum makes the first header's checksum right.
func fixSum(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block[:512] {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func TestContentThatIsNotWhatItsDigestSays(t *testing.T) {
	good := layerOf(t, file("a", noise(1000, 1)))
	img := imageOf(t, good)
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	send := func(data string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = io.WriteString(w, data) }
	}
	endless := func(w http.ResponseWriter) {
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
				return
			}
		}
	}
	layer, manifest := blobPath("a", digestOf(t, good)), "/v2/a/manifests/1"
	tests := []struct {
		name, path string
		answer     func(http.ResponseWriter)
		want       error
	}{
		{"another layer of the same size", layer, send(noise(int(sizeOf(t, good)), 9)), image.ErrCorrupt},
		{"a longer layer", layer, send(noise(5000, 9)), image.ErrCorrupt},
		{"an endless layer", layer, endless, image.ErrCorrupt},
		{"another configuration", blobPath("a", config), send("{}"), image.ErrCorrupt},
		{"an endless configuration", blobPath("a", config), endless, image.ErrLimit},
		{"an endless manifest", manifest, endless, image.ErrLimit},
		{"a manifest that is none", manifest, send("<html>"), image.ErrCorrupt},
		{"a manifest that is empty", manifest, send("{}"), image.ErrCorrupt},
		{"a manifest that is an index, too", manifest, send(`{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}`), image.ErrCorrupt},
		{"a manifest of schema 1", manifest, send(`{"schemaVersion":1,"fsLayers":[]}`), nil},
		{"digests that are paths", manifest, send(`{"schemaVersion":2,"config":{"digest":"sha256:../../../../etc/passwd"}}`), image.ErrCorrupt},
		{"a configuration without a digest", manifest, send(`{"schemaVersion":2,"config":{"size":5}}`), nil},
		{"another manifest than its digest says", "/v2/a/manifests/" + digestOf(t, img).String(), send(`{"schemaVersion":2,"config":{}}`), image.ErrCorrupt},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", img)
			h.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == test.path {
					test.answer(w)
				}
				return r.URL.Path == test.path
			})
			s := newStore(t, nil)
			ref := "a:1"
			if strings.Contains(test.path, "manifests/sha256") {
				ref = "a@" + digestOf(t, img).String()
			}
			_, err := s.Pull(t.Context(), h.ref(ref), nil)
			if err == nil {
				t.Fatal("it was taken")
			}
			wantError(t, err, test.want)
			leftovers(t, s)
		})
	}
}

func TestALayerThatUnpacksToSomethingElse(t *testing.T) {
	h := newHub(t, nil)
	img := imageOf(t, layerOf(t, file("a", "what was meant")))
	other := imageOf(t, layerOf(t, file("a", "something else")))
	lying := lie(t, img, other)
	h.push(t, "a:1", other) // so that the layer is there
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		for path, data := range lying {
			if r.URL.Path == path {
				_, _ = w.Write(data)
				return true
			}
		}
		return false
	})
	s := newStore(t, nil)
	_, err := s.Pull(t.Context(), h.ref("a:lie"), nil)
	wantError(t, err, image.ErrCorrupt, "unpacked")
	leftovers(t, s)
}

// lie is img with the layers of other.
func lie(t *testing.T, img, other v1.Image) map[string][]byte {
	t.Helper()
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	m, err := other.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	m = m.DeepCopy()
	if m.Config.Digest, err = img.ConfigName(); err != nil {
		t.Fatal(err)
	}
	m.Config.Size = int64(len(config))
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"/v2/a/manifests/lie": data, blobPath("a", m.Config.Digest): config}
}

func TestImagesThatAreNotForSandboxes(t *testing.T) {
	plain := layerOf(t, file("a", ""))
	with := func(media types.MediaType) v1.Image {
		img, err := mutate.Append(imageOf(t), mutate.Addendum{Layer: plain, MediaType: media})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	tests := []struct {
		name string
		img  v1.Image
		says string
	}{
		{"encrypted layers", with("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), "encrypted"},
		{"layers that are elsewhere", with(types.DockerForeignLayer), "may not hand on"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			data, err := test.img.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			h.push(t, "a:1", imageOf(t, plain))
			h.answer(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case strings.HasSuffix(r.URL.Path, "/manifests/1"):
					_, _ = w.Write(data)
					return true
				}
				return false
			})
			_, err = newStore(t, nil).Pull(t.Context(), h.ref("a:1"), nil)
			wantError(t, err, nil, test.says)
		})
	}
}
