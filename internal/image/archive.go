package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxArchived is how many files a docker-archive may have. Each layer has three at most.
const maxArchived = 100_000

// An archive is an image in a file that `docker save` wrote, or in an OCI layout that was packed with tar. Its layers are
// read where they are.
type archive struct {
	store *Store
	tag   string
	f     *os.File
	m     *manifest
	files map[string]part
	paths []string // of layers
}

// A part is where in the file a file is, or what it is a link to.
type part struct {
	at, size int64
	link     string
}

func newArchive(s *Store, r Reference) (*archive, error) {
	file, tag, err := splitTag(r.Path, func(info fs.FileInfo) bool { return info.Mode().IsRegular() })
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	return &archive{store: s, tag: tag, f: f}, nil
}

func (a *archive) manifest(ctx context.Context) (*manifest, error) {
	if err := a.index(ctx); err != nil {
		return nil, err
	}
	if _, saved := a.files["manifest.json"]; !saved { // docker save has written one since it began
		if _, packed := a.files["index.json"]; packed {
			return a.packedLayout(ctx)
		}
		return nil, fmt.Errorf("%s is no archive that docker save wrote: it has no manifest.json", a.f.Name())
	}
	chosen, err := a.tagged()
	if err != nil {
		return nil, err
	}
	data, err := a.read(chosen.Config)
	if err != nil {
		return nil, err
	}
	m, err := configured(data)
	if err != nil {
		return nil, err
	}
	if len(chosen.Layers) != len(m.layers) {
		return nil, fmt.Errorf("%w: the archive has %d layers, the configuration %d", ErrCorrupt, len(chosen.Layers), len(m.layers))
	}
	for i, name := range chosen.Layers {
		p, err := a.find(name)
		if err != nil {
			return nil, err
		}
		m.layers[i].size = p.size
	}
	a.m, a.paths = m, chosen.Layers
	return m, nil
}

// packedLayout reads the archive as the OCI layout that it holds.
func (a *archive) packedLayout(ctx context.Context) (*manifest, error) {
	data, err := a.read("index.json")
	if err != nil {
		return nil, err
	}
	chosen, err := pick(data, a.tag, "docker-archive:"+a.f.Name())
	if err != nil {
		return nil, err
	}
	if data, err = a.small(ctx, chosen, true); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", chosen.Digest, err)
	}
	if a.m, err = a.store.follow(ctx, a, data, chosen.Digest.String()); err != nil {
		return nil, err
	}
	for _, l := range a.m.layers {
		a.paths = append(a.paths, blobName(l.digest))
	}
	return a.m, nil
}

func (a *archive) small(_ context.Context, d v1.Descriptor, _ bool) ([]byte, error) {
	if d.Digest.Hex == "" {
		return nil, fmt.Errorf("%w: it names something without a digest", ErrCorrupt)
	}
	data, err := a.read(blobName(d.Digest))
	if err != nil {
		return nil, err
	}
	return data, checkSmall(data, d.Digest)
}

// index notes where what is. The content is passed over.
func (a *archive) index(ctx context.Context) error {
	var magic [4]byte
	if n, _ := a.f.ReadAt(magic[:], 0); n == 4 && (bytes.HasPrefix(magic[:], []byte{0x1f, 0x8b}) || bytes.Equal(magic[:], []byte{0x28, 0xb5, 0x2f, 0xfd})) {
		return fmt.Errorf("%s is compressed; decompress it first, with gunzip or zstd -d", a.f.Name())
	}
	a.files = map[string]part{}
	r := tar.NewReader(a.f) // passes over content by seeking, and reads nothing ahead
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is no archive that docker save wrote: %w", a.f.Name(), err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(a.files) >= maxArchived {
			return fmt.Errorf("%w: %s has more than %d files", ErrLimit, a.f.Name(), maxArchived)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := a.f.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			a.files[name] = part{at: at, size: h.Size}
		case tar.TypeSymlink: // of a layer that is there twice
			a.files[name] = part{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.files[name] = part{link: path.Clean(h.Linkname)}
		}
	}
}

func (a *archive) find(name string) (part, error) {
	at := path.Clean(name)
	for range 8 {
		p, ok := a.files[at]
		if !ok {
			break
		}
		if p.link == "" {
			return p, nil
		}
		at = p.link
	}
	return part{}, fmt.Errorf("%w: the archive has no %.200q", ErrCorrupt, name)
}

func (a *archive) read(name string) ([]byte, error) {
	p, err := a.find(name)
	if err != nil {
		return nil, err
	}
	return readAll(io.NewSectionReader(a.f, p.at, p.size), a.store.opts.Limits.Manifest, fmt.Sprintf("%.200q", name))
}

// archived is an image of manifest.json.
type archived struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *archive) tagged() (*archived, error) {
	data, err := a.read("manifest.json")
	if err != nil {
		return nil, fmt.Errorf("%s is no archive that docker save wrote: %w", a.f.Name(), err)
	}
	var all []archived
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%w: manifest.json: %w", ErrCorrupt, err)
	}
	var tags []string
	for i := range all {
		tags = append(tags, all[i].RepoTags...)
		if a.tag != "" && slices.ContainsFunc(all[i].RepoTags, a.means) {
			return &all[i], nil
		}
	}
	list := strings.Join(tags[:min(len(tags), 20)], ", ")
	switch {
	case a.tag != "":
		return nil, fmt.Errorf("%w: the archive has no %q, but: %.500q", ErrNotFound, a.tag, list)
	case len(all) == 0:
		return nil, fmt.Errorf("%w: the archive is empty", ErrNotFound)
	case len(all) > 1:
		return nil, fmt.Errorf("%w: the archive has several; write docker-archive:%s:TAG with one of: %.500q", ErrReference, a.f.Name(), list)
	}
	return &all[0], nil
}

// means tells whether the tag that was asked for is this one, be it written in full or not.
func (a *archive) means(tag string) bool {
	if _, last, ok := strings.Cut(tag[strings.LastIndexByte(tag, '/')+1:], ":"); ok && last == a.tag {
		return true
	}
	asked, err := ParseReference(a.tag)
	have, err2 := ParseReference(tag)
	return tag == a.tag || errors.Join(err, err2) == nil && asked.Kind == Registry && have.Kind == Registry && asked.String() == have.String()
}

func (a *archive) fetch(context.Context, int, func(State, int64)) error { return nil }

func (a *archive) open(_ context.Context, i int) (io.ReadCloser, error) {
	p, err := a.find(a.paths[i])
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(a.f, p.at, p.size)), nil
}

func (a *archive) close() { _ = a.f.Close() }
