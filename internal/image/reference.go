package image

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// A Kind of reference.
type Kind string

const (
	Registry      Kind = "registry"
	OCI           Kind = "oci"
	DockerArchive Kind = "docker-archive"
	Dir           Kind = "dir"
)

// A Reference says where an image is.
type Reference struct {
	Kind Kind

	// Path is absolute, of OCI, DockerArchive (where a tag may follow it behind a colon) and Dir.
	Path string

	remote name.Reference
}

const maxReference = 4096

// ParseReference reads a reference to an image: NAME[:TAG|@DIGEST] of a registry, oci:DIR[:TAG],
// docker-archive:FILE[:TAG] or dir:PATH. It looks at no file. Its errors are ErrReference.
func ParseReference(s string) (Reference, error) {
	bad := func(format string, args ...any) (Reference, error) {
		if len(s) > 200 {
			s = s[:200] + "…"
		}
		return Reference{}, fmt.Errorf("image %q: %w: %s", s, ErrReference, fmt.Sprintf(format, args...))
	}
	switch {
	case s == "":
		return bad("it is empty; name one, as in alpine:3.20")
	case len(s) > maxReference:
		return bad("it is longer than %d bytes", maxReference)
	case strings.ContainsRune(s, 0):
		return bad("it holds a zero byte")
	}
	kind, path, _ := strings.Cut(s, ":")
	switch k := Kind(kind); {
	case isKind(s):
		if path == "" {
			return bad("a path has to follow %s:", kind)
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return bad("%v", err)
		}
		return Reference{Kind: k, Path: abs}, nil
	case isForeign(s) && kind == "oci-archive":
		return bad("write docker-archive: in place of oci-archive:, which reads an OCI layout in a tar, too")
	case isForeign(s):
		return bad("airlock asks no daemon; put it into a file with `docker save` or `podman save`, and write docker-archive:FILE")
	case strings.HasPrefix(path, "//"):
		return bad("it is a URL; leave %s:// out", kind)
	case strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/"):
		return bad("for a folder write dir:%s, for an OCI layout oci:%s, for a file that docker save wrote docker-archive:%s", s, s, s)
	}
	ref, err := name.ParseReference(s)
	if err != nil || slices.ContainsFunc(strings.Split(ref.Context().RepositoryStr(), "/"), isNoName) {
		return bad("write it as alpine:3.20 or ghcr.io/owner/name@sha256:…, in lower case")
	}
	return Reference{Kind: Registry, remote: ref}, nil
}

// isKind tells whether s begins as a reference to something that is no registry's.
func isKind(s string) bool {
	kind, _, ok := strings.Cut(s, ":")
	k := Kind(kind)
	return ok && (k == OCI || k == DockerArchive || k == Dir)
}

// isForeign tells whether s begins as what other programs call an image that is no registry's.
func isForeign(s string) bool {
	kind, _, ok := strings.Cut(s, ":")
	return ok && slices.Contains([]string{"oci-archive", "docker-daemon", "containers-storage"}, kind)
}

// isNoName tells whether a part of a repository's name is one that no registry has. ".." would be
// another path of the registry's.
func isNoName(part string) bool {
	return strings.Trim(part, "._-") != part || part == ""
}

// String is the reference in full, the same for all ways to write it.
func (r Reference) String() string {
	if r.Kind != Registry {
		return string(r.Kind) + ":" + r.Path
	}
	// Docker Hub is known by another name than the host that answers for it.
	full := r.remote.Name()
	if hub, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		// What has a folder of its own would be somebody else's, or another registry's.
		short, ok := strings.CutPrefix(hub, "library/")
		if ok && !strings.Contains(short, "/") && !isKind(short) && !isForeign(short) {
			return short
		}
		return "docker.io/" + hub
	}
	return full
}
