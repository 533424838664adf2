package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

const (
	blobFolder  = "blobs"   // <algorithm>-<hex>: layers and configurations, whole and verified
	partFolder  = "partial" // <algorithm>-<hex>.partial: what has come of one so far
	rootFolder  = "roots"   // <hex>/fs: root file systems, each with its root.json
	tempFolder  = "temp"    // <hex>: roots being made, under their lock
	imageFolder = "images"  // <hex>.json: a record an image
	refFolder   = "refs"    // <hex>.json: a reference each, and the ID it leads to
	holdFolder  = "holds"   // <owner>/<hex>: empty files
	lockFolder  = "locks"   // <name>: held by who works on what has that name
	trashFolder = "trash"   // being removed

	partSuffix = ".partial"
	partialAge = 24 * time.Hour // after which a download that nobody continued is removed
)

// Options are a Store's. Nil is valid.
type Options struct {
	Limits Limits

	// Keychain has the credentials of registries. Nil: Docker's config.json and its helpers, or podman's auth.json.
	Keychain authn.Keychain

	// Transport speaks to registries. Nil: one of the store's own, with the environment's proxies.
	Transport http.RoundTripper

	// Backoff is the first wait before something is tried again; it doubles. Zero: 300 ms.
	Backoff time.Duration

	// Stall is for how long a registry may be silent before it is asked again. Zero: a minute.
	Stall time.Duration
}

// A Store keeps images in a folder. It is safe for concurrent use, by several processes too: what one
// of them fetches or unpacks, the others wait for. Whatever is in its folders under its last
// name is whole; what a killed process left is continued or removed by the next.
//
// As root, files keep their numeric owners, set-uid bits and capabilities. As an ordinary user all
// files are the user's, folders can be read and written by their owner and files read, whatever
// the image says, so that the image can be used and removed. Devices are left out.
type Store struct {
	dir  string
	opts Options
}

// Open opens the store in dir, and makes it if need be.
func Open(dir string, opts *Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	s := &Store{dir: dir}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Limits = s.opts.Limits.orDefault()
	if s.opts.Backoff <= 0 {
		s.opts.Backoff = 300 * time.Millisecond
	}
	if s.opts.Stall <= 0 {
		s.opts.Stall = defaultStall
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("images: %w; set AIRLOCK_HOME to a folder that you can write to", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	if err := checkOwner(dir, info); err != nil {
		return nil, err
	}
	// Others could put files in an image's way, or run its set-uid programs.
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("images: others can read them: %w", err)
		}
	}
	for _, name := range []string{blobFolder, partFolder, rootFolder, tempFolder, imageFolder, refFolder, holdFolder, lockFolder, trashFolder} {
		if err := os.MkdirAll(s.path(name), 0o700); err != nil {
			return nil, fmt.Errorf("images: %w; set AIRLOCK_HOME to a folder that you can write to", err)
		}
	}
	return s, nil
}

// fileName is a digest as the name of a file.
func fileName(digest string) string { return strings.Replace(digest, ":", "-", 1) }

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// Pull gives the image that ref leads to, and fetches and unpacks it first if need be. When it fails or
// ctx ends, nothing half-made is left but the part of a download that the next pull continues.
func (s *Store) Pull(ctx context.Context, ref string, opts *PullOptions) (*Image, error) {
	var o PullOptions
	if opts != nil {
		o = *opts
	}
	policy, err := ParsePolicy(string(o.Policy))
	if err != nil {
		return nil, err
	}
	if o.Owner != "" && !validOwner(o.Owner) {
		return nil, fmt.Errorf("image %q: %q cannot be an owner's name", ref, o.Owner)
	}
	r, err := ParseReference(ref)
	if err != nil {
		return nil, err
	}
	if policy == Never || policy == Missing && r.Kind == Registry {
		img, err := s.use(ctx, r, o.Owner)
		if err == nil || !errors.Is(err, ErrNotFound) {
			return img, err
		}
		if policy == Never {
			return nil, fmt.Errorf("image %q is not in the store, and was not to be pulled: %w", ref, ErrNotFound)
		}
	}
	p := &pull{store: s, ref: r, opts: o}
	img, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, explain(err))
	}
	return img, nil
}

// use finds ref's image in the store, and holds it.
func (s *Store) use(ctx context.Context, r Reference, owner string) (*Image, error) {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	id, err := s.readRef(r.String())
	if err != nil {
		return nil, err
	}
	return s.takeLocked(id, r.String(), owner)
}

// takeLocked reads the image and holds it for owner.
func (s *Store) takeLocked(id, ref, owner string) (*Image, error) {
	img, err := s.readWhole(id)
	if err != nil {
		return nil, err
	}
	if owner != "" {
		if err := s.writeHold(id, owner); err != nil {
			return nil, err
		}
	}
	s.describe(img, ref, s.allRefs())
	return img, nil
}

// readWhole reads an image whose files are there.
func (s *Store) readWhole(id string) (*Image, error) {
	img, err := s.readImage(id)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(img.RootDir); err != nil {
		return nil, fmt.Errorf("image %s: its files are gone: %w", short(id), ErrNotFound)
	}
	return img, nil
}

// describe adds what the image's record does not have.
func (s *Store) describe(img *Image, ref string, refs []storedRef) {
	img.Refs = refsOf(img.ID, refs)
	img.Holders = s.holdersOf(img.ID)
	img.Ref = ref
	if ref == "" && len(img.Refs) > 0 {
		img.Ref = img.Refs[0]
	}
}

// Inspect finds an image by a reference, its ID, or a prefix of that. It asks no registry.
func (s *Store) Inspect(ctx context.Context, name string) (*Image, error) {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	id, ref, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return s.takeLocked(id, ref, "")
}

// List gives all images, the newest first.
func (s *Store) List(ctx context.Context) ([]*Image, error) {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	refs := s.allRefs()
	images := make([]*Image, 0, len(ids))
	for _, id := range ids {
		img, err := s.readWhole(id)
		if errors.Is(err, ErrNotFound) {
			continue // damaged or taken away from outside: a pull brings it back
		}
		if err != nil {
			return nil, err
		}
		s.describe(img, "", refs)
		images = append(images, img)
	}
	newestFirst(images)
	return images, nil
}
