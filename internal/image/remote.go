package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A remote is an image in a registry.
type remote struct {
	store  *Store
	ref    name.Reference
	client *http.Client
	own    *http.Transport // nil when it is the store's
	m      *manifest

	anonymous bool // there are no credentials for it

	mu   sync.Mutex
	held []func() // releases what was fetched
}

func newRemote(ctx context.Context, s *Store, r Reference, insecure bool) (*remote, error) {
	ref := r.remote
	if insecure {
		var err error
		if ref, err = name.ParseReference(ref.Name(), name.Insecure); err != nil {
			return nil, err
		}
	}
	repo := ref.Context()
	auth, err := s.credentials(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", hostOf(repo.Registry), &said{err})
	}
	rm := &remote{store: s, ref: ref, anonymous: auth == authn.Anonymous}
	base := s.opts.Transport
	if base == nil {
		rm.own = newTransport(s.opts.Stall)
		base = rm.own
	}
	guarded := &guard{next: base, insecure: insecure, local: isLoopback(repo.RegistryStr()), stall: s.opts.Stall}
	err = s.retry(ctx, func() error {
		authed, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(guarded, "airlock"), []string{repo.Scope(transport.PullScope)})
		if err != nil {
			return err
		}
		rm.client = &http.Client{Transport: authed}
		return nil
	})
	if err != nil {
		rm.close()
		return nil, rm.explain(err)
	}
	return rm, nil
}

func (r *remote) url(kind, identifier string) string {
	repo := r.ref.Context()
	u := url.URL{Scheme: repo.Scheme(), Host: repo.RegistryStr(), Path: "/v2/" + repo.RepositoryStr() + "/" + kind + "/" + identifier}
	return u.String() // the scheme is set right by the transport, which has spoken to the registry
}

// get asks once. The body has at most limit bytes, and what it takes is bounded in time.
func (r *remote) get(ctx context.Context, address string, limit int64, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(withLimit(ctx, limit), http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	// As it is: its digest is of the bytes that are sent.
	req.Header.Set("Accept-Encoding", "identity")
	maps.Copy(req.Header, header)
	resp, err := r.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok { // where a redirection led, with a key to it
		failed.URL, _, _ = strings.Cut(failed.URL, "?")
	}
	return resp, err
}

func (r *remote) manifest(ctx context.Context) (*manifest, error) {
	ident := r.ref.Identifier()
	data, err := r.document(ctx, ident)
	if err != nil {
		return nil, err
	}
	if d, ok := r.ref.(name.Digest); ok {
		want, err := v1.NewHash(d.DigestStr())
		if err != nil {
			return nil, err
		}
		if err := checkSmall(data, want); err != nil {
			return nil, err
		}
	} else {
		sum, _, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		ident = sum.String()
	}
	r.m, err = r.store.follow(ctx, r, data, ident)
	return r.m, err
}

// document gets a manifest or an index.
func (r *remote) document(ctx context.Context, ident string) ([]byte, error) {
	accept := http.Header{"Accept": {
		string(types.OCIImageIndex), string(types.OCIManifestSchema1),
		string(types.DockerManifestList), string(types.DockerManifestSchema2),
	}}
	return r.whole(ctx, r.url("manifests", ident), "the manifest", accept)
}

// whole gets something small.
func (r *remote) whole(ctx context.Context, url, what string, header http.Header) (data []byte, err error) {
	limit := r.store.opts.Limits.Manifest
	err = r.store.retry(ctx, func() error {
		resp, err := r.get(ctx, url, limit+1, header)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := statusOf(resp, http.StatusOK); err != nil {
			return err
		}
		if data, err = readAll(resp.Body, limit, what); err != nil && !errors.Is(err, ErrLimit) {
			return &brokenError{err}
		}
		return err
	})
	return data, r.explain(err)
}

func (r *remote) small(ctx context.Context, d v1.Descriptor, isManifest bool) (data []byte, err error) {
	if isManifest {
		data, err = r.document(ctx, d.Digest.String())
	} else {
		data, err = r.whole(ctx, r.url("blobs", d.Digest.String()), "the configuration", nil)
	}
	if err != nil {
		return nil, err
	}
	return data, checkSmall(data, d.Digest)
}

// open reads a layer that was fetched. It was verified then; it is again, since disks forget, and is
// fetched anew the next time if it is not what it was.
func (r *remote) open(_ context.Context, i int) (io.ReadCloser, error) {
	l := r.m.layers[i]
	path := r.store.path(blobFolder, fileName(l.digest.String()))
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	sent, err := verified(f, l.digest, "on the disk")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &blob{sent, f, path}, nil
}

// A blob is an open file that is removed when it is not what its digest says.
type blob struct {
	io.Reader
	f    *os.File
	path string
}

func (b *blob) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, ErrCorrupt) {
		_ = os.Remove(b.path) // the error says that it is bad; pulling again mends it
	}
	return n, err
}

func (b *blob) Close() error { return b.f.Close() }

func (r *remote) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, release := range r.held {
		release()
	}
	r.held = nil
	if r.own != nil {
		r.own.CloseIdleConnections()
	}
}
