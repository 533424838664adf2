package image_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/image"
)

func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"alpine":                             "alpine:latest",
		"alpine:3.20":                        "alpine:3.20",
		"docker.io/library/alpine:3.20":      "alpine:3.20",
		"index.docker.io/library/alpine":     "alpine:latest",
		"docker-archive":                     "docker.io/library/docker-archive:latest", // without the host, it would be a file's
		"docker.io/library/oci:1":            "docker.io/library/oci:1",
		"oci-archive":                        "docker.io/library/oci-archive:latest",
		"someone/thing":                      "docker.io/someone/thing:latest",
		"docker.io/library/ghcr.io/x/y":      "docker.io/library/ghcr.io/x/y:latest", // without the host, it would be another registry's
		"docker.io/library/library/x":        "docker.io/library/library/x:latest",
		"ghcr.io/x/y:1":                      "ghcr.io/x/y:1",
		"ghcr.io/x/y@" + digest:              "ghcr.io/x/y@" + digest,
		"ghcr.io/x/y:1@" + digest:            "ghcr.io/x/y@" + digest,
		"localhost:5000/a":                   "localhost:5000/a:latest",
		"127.0.0.1:5000/a/b/c:1":             "127.0.0.1:5000/a/b/c:1",
		"ghcr.io/index.docker.io/library/x":  "ghcr.io/index.docker.io/library/x:latest",
		"oci:/some/dir:tag":                  "oci:/some/dir:tag",
		"oci:dir":                            "oci:" + filepath.Join(here, "dir"),
		"dir:.":                              "dir:" + here,
		"dir:/a/../b/":                       "dir:/b",
		"docker-archive:/x.tar:alpine:3.20":  "docker-archive:/x.tar:alpine:3.20",
		"docker-archive:../images/x y:1.tar": "docker-archive:" + filepath.Join(here, "../images/x y:1.tar"),
	} {
		r, err := image.ParseReference(in)
		if err != nil || r.String() != want {
			t.Errorf("ParseReference(%q) = %q, %v; want %q", in, r.String(), err, want)
		}
	}
	for in, says := range map[string]string{
		"":                                 "empty",
		"UPPER/case":                       "lower case",
		"a b":                              "alpine:3.20",
		"a:":                               "alpine:3.20",
		"x\x00y":                           "zero byte",
		"\x1b[31mred":                      "alpine:3.20",
		"https://ghcr.io/x/y":              "it is a URL; leave https:// out",
		"./rootfs":                         "dir:./rootfs",
		"/images/x.tar":                    "docker-archive:/images/x.tar",
		"oci:":                             "a path has to follow oci:",
		"dir:":                             "a path has to follow dir:",
		"docker-archive:":                  "a path has to follow docker-archive:",
		"oci-archive:/x.tar:1":             "docker-archive:",
		"docker-daemon:alpine:3.20":        "docker save",
		"containers-storage:alpine":        "podman save",
		"ghcr.io/x/y@sha256:12":            "sha256",
		"a/../b":                           "alpine:3.20",
		strings.Repeat("a", 5000):          "longer than",
		"dir:" + strings.Repeat("a", 5000): "longer than",
	} {
		_, err := image.ParseReference(in)
		if !errors.Is(err, image.ErrReference) || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseReference(%.50q): %v, want ErrReference that says %q", in, err, says)
		}
		if err != nil && (len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x00\x1b")) {
			t.Errorf("ParseReference(%.50q): the error is not one to show: %.100q", in, err)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"alpine", "a/b:c", "ghcr.io/x/y@sha256:" + strings.Repeat("0", 64), "oci:a:b", "dir:/", "docker-archive:x", "docker-archive", "oci-archive", "docker-daemon:x", "[::1]:5000/a", "localhost:5000/a:b@c", "http://x", "docker.io/library/localhost/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := image.ParseReference(s)
		if err != nil {
			if !errors.Is(err, image.ErrReference) {
				t.Fatalf("%q: %v is not ErrReference", s, err)
			}
			return
		}
		if r.Kind != image.Registry && !filepath.IsAbs(r.Path) {
			t.Fatalf("%q: the path %q is not absolute", s, r.Path)
		}
		again, err := image.ParseReference(r.String())
		if len(r.String()) > 4096 { // a relative path became longer
			return
		}
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q is %q, and that %q, %v", s, r.String(), again.String(), err)
		}
	})
}
