package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A layout is an image in a folder of OCI's form. Its layers are read where they are.
type layout struct {
	store *Store
	dir   string
	tag   string
	m     *manifest
}

func newLayout(s *Store, r Reference) (*layout, error) {
	dir, tag, err := splitTag(r.Path, func(info fs.FileInfo) bool { return info.IsDir() })
	if err != nil {
		return nil, err
	}
	return &layout{store: s, dir: dir, tag: tag}, nil
}

// splitTag takes a tag off a path: as little as is needed for the rest to exist.
func splitTag(whole string, fits func(fs.FileInfo) bool) (path, tag string, err error) {
	for path = whole; ; {
		info, err := os.Stat(path)
		if err == nil && fits(info) {
			return path, tag, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		i := strings.LastIndexByte(path, ':')
		if i <= 0 {
			break
		}
		path, tag = path[:i], whole[i+1:]
	}
	if _, err := os.Stat(whole); err != nil {
		return "", "", err
	}
	return "", "", fmt.Errorf("%s: %w: a folder is an OCI layout, a file a docker-archive", whole, ErrReference)
}

const (
	refName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

func (l *layout) manifest(ctx context.Context) (*manifest, error) {
	data, err := l.read("index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no OCI layout: it has no index.json; for a root file system write dir:%s", l.dir, l.dir)
	}
	if err != nil {
		return nil, err
	}
	chosen, err := pick(data, l.tag, "oci:"+l.dir)
	if err != nil {
		return nil, err
	}
	if data, err = l.small(ctx, chosen, true); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", chosen.Digest, err)
	}
	l.m, err = l.store.follow(ctx, l, data, chosen.Digest.String())
	return l.m, err
}

// pick chooses of an index.json by the tag, and by this machine's platform. where is how the layout was asked for.
func pick(data []byte, asked, where string) (v1.Descriptor, error) {
	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		return v1.Descriptor{}, fmt.Errorf("%w: index.json: %w", ErrCorrupt, err)
	}
	var tags []string
	var found []v1.Descriptor
	for _, d := range index.Manifests {
		tag := d.Annotations[refName]
		if tag != "" && !slices.Contains(tags, tag) && len(tags) < 20 {
			tags = append(tags, tag)
		}
		if asked == "" || tag == asked || d.Annotations[containerdName] == asked || d.Digest.String() == asked {
			found = append(found, d)
		}
	}
	switch {
	case len(index.Manifests) == 0:
		return v1.Descriptor{}, fmt.Errorf("%w: the layout is empty", ErrNotFound)
	case len(found) == 0 && len(tags) == 0:
		return v1.Descriptor{}, fmt.Errorf("%w: the layout has no tags; write %s, or a digest behind it", ErrNotFound, where)
	case len(found) == 0:
		return v1.Descriptor{}, fmt.Errorf("%w: the layout has no %q, but: %.500q", ErrNotFound, asked, strings.Join(tags, ", "))
	case len(found) == 1:
		return found[0], nil
	case asked == "" && len(tags) > 1:
		return v1.Descriptor{}, fmt.Errorf("%w: the layout has several; write %s:TAG with one of: %.500q", ErrReference, where, strings.Join(tags, ", "))
	}
	return choose(found)
}

// read reads one of its small files.
func (l *layout) read(name string) ([]byte, error) {
	f, err := openFile(filepath.Join(l.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, l.store.opts.Limits.Manifest, name)
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (l *layout) small(_ context.Context, d v1.Descriptor, _ bool) ([]byte, error) {
	if d.Digest.Hex == "" {
		return nil, fmt.Errorf("%w: it names something without a digest", ErrCorrupt)
	}
	data, err := l.read(blobName(d.Digest))
	if err != nil {
		return nil, err
	}
	return data, checkSmall(data, d.Digest)
}

func (l *layout) fetch(context.Context, int, func(State, int64)) error { return nil }

func (l *layout) open(_ context.Context, i int) (io.ReadCloser, error) {
	digest := l.m.layers[i].digest
	f, err := openFile(filepath.Join(l.dir, filepath.FromSlash(blobName(digest))))
	if err != nil {
		return nil, err
	}
	sent, err := verified(f, digest, "in the layout")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{sent, f}, nil
}

func (l *layout) close() {}

// openFile opens a regular file, and waits for no pipe.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return os.Open(path)
}
