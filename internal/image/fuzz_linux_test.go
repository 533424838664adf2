package image_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"airlock/internal/image"
)

var tight = image.Limits{Bytes: 1 << 20, Entries: 200, Ratio: 10, Floor: 1 << 16, Layers: 8, Manifest: 1 << 16}

// fuzzStore pulls from where a fuzz target put something, and looks at what must hold however that ends.
func fuzzStore(t *testing.T, dir, ref string) {
	t.Helper()
	canary := filepath.Join(dir, "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := storeAt(t, filepath.Join(dir, "images"), &image.Options{Limits: tight})
	img, err := s.Pull(t.Context(), ref, nil)
	if data, _ := os.ReadFile(canary); string(data) != "alive" {
		t.Fatal("the canary is dead")
	}
	leftovers(t, s)
	images, err2 := s.List(t.Context())
	if err2 != nil || len(images) > 0 != (err == nil) {
		t.Fatalf("List = %d images, %v after Pull: %v", len(images), err2, err)
	}
	if err == nil && (!filepath.IsAbs(img.RootDir) || taken(t, img.RootDir) > tight.Bytes || img.Config.WorkingDir != "" && img.Config.WorkingDir[0] != '/') {
		t.Fatalf("image = %+v", img)
	}
	if _, err := s.Prune(t.Context()); err != nil {
		t.Fatalf("Prune: %v", err)
	}
}

// FuzzDockerArchive reads archives: their index, links, manifest and configuration.
func FuzzDockerArchive(f *testing.F) {
	config := `{"os":"linux","rootfs":{"diff_ids":[]}}`
	f.Add(tarOf(f, file("manifest.json", `[{"Config":"c","RepoTags":["a:1"],"Layers":[]}]`), file("c", config)))
	f.Add(tarOf(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", strings.Replace(config, "[]", `["sha256:`+strings.Repeat("0", 64)+`"]`, 1)), file("l", "")))
	f.Add(tarOf(f, item{name: "manifest.json", link: "x", kind: '2'}, item{name: "x", link: "manifest.json", kind: '1'}))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := fastDir(t)
		path := filepath.Join(dir, "x.tar")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		fuzzStore(t, dir, "docker-archive:"+path)
	})
}

// FuzzManifest reads manifests, indexes and configurations, with digests that are right.
func FuzzManifest(f *testing.F) {
	img := imageOf(f, layerOf(f, file("a", "1")))
	manifest, err := img.RawManifest()
	if err != nil {
		f.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest, config)
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"CONFIG","size":1,"platform":{"os":"linux","architecture":"amd64"}}]}`), config)
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"CONFIG","size":2},"layers":[]}`), []byte(`{"config":{"WorkingDir":"/../a//b","Env":["A=b"]}}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		dir := fastDir(t)
		p, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		put := func(data []byte) v1.Hash {
			h, _, err := v1.SHA256(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WriteBlob(h, io.NopCloser(bytes.NewReader(data))); err != nil {
				t.Fatal(err)
			}
			return h
		}
		manifest = bytes.ReplaceAll(manifest, []byte("CONFIG"), []byte(put(config).String()))
		index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{{Digest: put(manifest), Size: int64(len(manifest))}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "layout", "index.json"), index, 0o600); err != nil {
			t.Fatal(err)
		}
		fuzzStore(t, dir, "oci:"+filepath.Join(dir, "layout"))
	})
}

// FuzzLayer unpacks layers, compressed or not, whose digests are right.
func FuzzLayer(f *testing.F) {
	plain := tarOf(f, file("d/a", "1"), file(".wh.x", ""), item{name: "l", link: "/etc", kind: '2'}, file("l/b", "2"), item{name: "h", link: "d/a", kind: '1'})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(plain)
	_ = z.Close()
	f.Add(plain)
	f.Add(packed.Bytes())
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0})
	f.Add([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		sum, _, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		dir := fastDir(t)
		config := fmt.Sprintf(`{"os":"linux","rootfs":{"diff_ids":["%s","%s"]}}`, sum, sum)
		manifest := `[{"Config":"c","Layers":["l","l"]}]`
		path := filepath.Join(dir, "x.tar")
		if err := os.WriteFile(path, tarOf(t, file("manifest.json", manifest), file("c", config), file("l", string(data))), 0o600); err != nil {
			t.Fatal(err)
		}
		fuzzStore(t, dir, "docker-archive:"+path)
	})
}
