package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxIndexes is how many indexes may lead to a manifest.
const maxIndexes = 4

// blobs are where manifests and configurations come from. What it gives was checked against the digest.
type blobs interface {
	small(ctx context.Context, d v1.Descriptor, isManifest bool) ([]byte, error)
}

func (s *Store) newSource(ctx context.Context, r Reference, insecure bool) (source, error) {
	switch r.Kind {
	case Registry:
		return newRemote(ctx, s, r, insecure)
	case OCI:
		return newLayout(s, r)
	case DockerArchive:
		return newArchive(s, r)
	case Dir:
		return newFolder(s, r)
	}
	return nil, fmt.Errorf("%w: kind %q", ErrReference, r.Kind)
}

// document is a manifest or an index. Both have forms of Docker's and of OCI's that read alike.
type document struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	Config        *v1.Descriptor  `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests"`
	FSLayers      json.RawMessage `json:"fsLayers"`
}

func parseDocument(data []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", ErrCorrupt, err)
	}
	switch {
	case d.FSLayers != nil || d.SchemaVersion == 1:
		return nil, errors.New("its manifest is of Docker's schema 1, which registries no longer write; build or push it again")
	case d.Manifests != nil && (d.Config != nil || d.Layers != nil):
		// Two programs that read it could see two images.
		return nil, fmt.Errorf("%w: the manifest is an index, too", ErrCorrupt)
	case d.Manifests == nil && d.Config == nil:
		return nil, fmt.Errorf("%w: the manifest names no configuration: %s", ErrCorrupt, d.MediaType)
	}
	return &d, nil
}

// follow goes from a manifest or an index to the image for this machine.
func (s *Store) follow(ctx context.Context, from blobs, data []byte, digest string) (*manifest, error) {
	for range maxIndexes {
		d, err := parseDocument(data)
		if err != nil {
			return nil, err
		}
		if d.Manifests == nil {
			return s.imageOf(ctx, from, d, digest)
		}
		chosen, err := choose(d.Manifests)
		if err != nil {
			return nil, err
		}
		if data, err = from.small(ctx, chosen, true); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", chosen.Digest, err)
		}
		digest = chosen.Digest.String()
	}
	return nil, fmt.Errorf("%w: more than %d indexes lead to its manifest", ErrLimit, maxIndexes)
}

// choose takes the manifest for this machine.
func choose(from []v1.Descriptor) (v1.Descriptor, error) {
	var others []string
	best, rank := v1.Descriptor{}, 0
	for _, d := range from {
		if d.Platform == nil { // an index of one, or of an index, need not say
			if rank < 1 && len(from) == 1 {
				best, rank = d, 1
			}
			continue
		}
		if r := suits(d.Platform.OS, d.Platform.Architecture, d.Platform.Variant); r > rank {
			best, rank = d, r
		}
		if p := d.Platform.String(); d.Platform.OS != "unknown" && !slices.Contains(others, p) && len(others) < 20 {
			others = append(others, p)
		}
	}
	if rank == 0 {
		return best, fmt.Errorf("it is not there for %s, but for: %.500q", machine(), strings.Join(others, ", "))
	}
	return best, nil
}

func machine() string { return "linux/" + runtime.GOARCH }

// suits says how well a platform does here; 0: not at all.
func suits(system, arch, variant string) int {
	if system != "linux" || arch != runtime.GOARCH {
		return 0
	}
	usual := map[string][]string{"arm64": {"v8"}, "amd64": {"v1"}, "arm": {"v5", "v6", "v7"}}[arch]
	if variant == "" {
		return 2
	}
	if i := slices.Index(usual, variant); i >= 0 {
		return 3 + i
	}
	return 1 // something newer, which may run
}

// imageOf reads the configuration that a manifest names.
func (s *Store) imageOf(ctx context.Context, from blobs, d *document, digest string) (*manifest, error) {
	if n := len(d.Layers); n > s.opts.Limits.Layers {
		return nil, fmt.Errorf("%w: %d layers, %d are allowed", ErrLimit, n, s.opts.Limits.Layers)
	}
	data, err := from.small(ctx, *d.Config, false)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", d.Config.Digest, err)
	}
	m, err := configured(data)
	if err != nil {
		return nil, err
	}
	m.digest = digest
	if len(m.layers) != len(d.Layers) {
		return nil, fmt.Errorf("%w: the manifest has %d layers, the configuration %d; it may be no image", ErrCorrupt, len(d.Layers), len(m.layers))
	}
	for i, l := range d.Layers {
		switch {
		case l.Size < 0:
			return nil, fmt.Errorf("%w: layer %d has %d bytes", ErrCorrupt, i+1, l.Size)
		case strings.HasSuffix(string(l.MediaType), "+encrypted"):
			return nil, fmt.Errorf("layer %d is encrypted; airlock has no keys for it", i+1)
		case !l.MediaType.IsDistributable() && l.MediaType != "":
			return nil, fmt.Errorf("layer %d is one that registries may not hand on (%q)", i+1, l.MediaType)
		}
		m.layers[i].digest, m.layers[i].size = l.Digest, l.Size
	}
	return m, nil
}

// configured reads a configuration, whose own digest is the image's ID.
func configured(data []byte) (*manifest, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: the configuration: %w", ErrCorrupt, err)
	}
	if c.OS != "" && c.Architecture != "" && suits(c.OS, c.Architecture, c.Variant) == 0 {
		return nil, fmt.Errorf("it is for %.40q; this machine is %s", c.OS+"/"+c.Architecture, machine())
	}
	id, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	m := &manifest{id: id.String(), created: c.Created.UTC(), config: c.Config}
	if p := c.Platform(); p != nil {
		m.platform = p.String()
	}
	for _, diffID := range c.RootFS.DiffIDs {
		if diffID.Hex == "" {
			return nil, fmt.Errorf("%w: the configuration has a layer without a digest", ErrCorrupt)
		}
		m.layers = append(m.layers, layer{diffID: diffID})
	}
	return m, nil
}

// configOf is what we keep of a configuration.
func configOf(c *v1.Config) Config {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(s string) bool {
		name, _, ok := strings.Cut(s, "=")
		return !ok || name == "" || strings.ContainsRune(s, 0) // nothing could start with it
	})
	return Config{Env: env, WorkingDir: c.WorkingDir, User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Labels: c.Labels}
}

// checkSmall compares a manifest or configuration with its digest.
func checkSmall(data []byte, want v1.Hash) error {
	sum, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return err
	}
	sum.Write(data)
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want.Hex {
		return wrongDigest(want, got, "as it came")
	}
	return nil
}
