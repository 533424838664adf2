// Package image keeps images: root file systems that sandboxes are laid over. It fetches them from
// registries, OCI layouts, docker-archives and folders, checks what it got, and unpacks each once
// into a folder that nobody writes to afterwards. It knows nothing of sandboxes: whoever uses an
// image holds it by a name of their own.
package image

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What callers branch on.
var (
	// ErrNotFound: the store has no such image.
	ErrNotFound = errors.New("no such image")
	// ErrAmbiguous: several images' IDs begin so.
	ErrAmbiguous = errors.New("more than one image begins so")
	// ErrInUse: somebody holds the image.
	ErrInUse = errors.New("the image is in use")
	// ErrBusy: another command works on it.
	ErrBusy = errors.New("another command works on the images")
	// ErrReference: what was asked for is no reference to an image.
	ErrReference = errors.New("not a reference to an image")
	// ErrLimit: the image passes one of Limits.
	ErrLimit = errors.New("the image passes a limit")
	// ErrCorrupt: what arrived is not what its digest says.
	ErrCorrupt = errors.New("the image's content is not what its digest says")
	// ErrSpace: there is no room for it.
	ErrSpace = errors.New("not enough room for the image")
)

// An Image is one in the store. It is a value: changing it changes nothing.
type Image struct {
	ID       string    `json:"id"`                 // sha256:…, of its configuration; of dir: its fingerprint
	Ref      string    `json:"ref"`                // as it was asked for; else one of Refs, or ""
	Refs     []string  `json:"refs"`               // every reference that leads to it, sorted
	Digest   string    `json:"digest,omitempty"`   // of its manifest
	Platform string    `json:"platform,omitempty"` // linux/amd64
	RootDir  string    `json:"root"`               // absolute path of its files; nobody writes to it
	Config   Config    `json:"config"`
	Size     int64     `json:"size"`              // bytes of the files
	Entries  int64     `json:"entries"`           // files, folders, links
	Created  time.Time `json:"created,omitzero"`  // by whom made it
	Pulled   time.Time `json:"pulled"`            // when it came into the store
	Layers   []Layer   `json:"layers,omitempty"`  // lowest first
	Holders  []string  `json:"holders,omitempty"` // who uses it
	Skipped  int64     `json:"skipped,omitempty"` // devices and the like that were left out
}

// A Layer is one of an image.
type Layer struct {
	Digest string `json:"digest,omitempty"` // as it was sent; "" for a docker-archive's
	DiffID string `json:"diff_id"`          // unpacked
	Size   int64  `json:"size"`             // as it was sent
}

// Config is what an image says about what runs in it. Entrypoint and Cmd are for showing alone.
type Config struct {
	Env        []string          `json:"env,omitempty"`         // KEY=VALUE
	WorkingDir string            `json:"working_dir,omitempty"` // absolute, and exists in the image
	User       string            `json:"user,omitempty"`        // NAME or UID, then :GROUP or not
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// A Policy says when a registry is asked. The other kinds of reference are looked at each time, unless
// it is Never: they are at hand, and what is in the store already is not unpacked again.
type Policy string

const (
	Missing Policy = "missing" // when the store does not have it; "" too
	Always  Policy = "always"  // each time, so that a moved tag is noticed
	Never   Policy = "never"   // what the store does not have is an error
)

// ParsePolicy reads a Policy. "" is Missing.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return Missing, nil
	case Missing, Always, Never:
		return p, nil
	default:
		return "", fmt.Errorf("when to pull: %q is none of missing, always and never", s)
	}
}

// PullOptions are a pull's. Nil is valid.
type PullOptions struct {
	Policy Policy

	// Insecure lets a registry that is not on the loopback be asked without TLS.
	Insecure bool

	// Owner holds the image as Hold does, from before Pull returns, but not over a crash of the machine just afterwards;
	// "": nobody does, and the image may be gone at any time.
	Owner string

	// Progress is told how the pull goes, at most ten times a second and at its end, from one
	// goroutine at a time. The value is the callee's own. Nil: nobody is told.
	Progress func(Progress)
}

// Progress is how a pull goes.
type Progress struct {
	Ref    string          `json:"ref"`
	Layers []LayerProgress `json:"layers"` // lowest first; empty until the manifest has been read
	Done   bool            `json:"done"`   // the last one: the image is whole
}

// LayerProgress is how it goes with one layer.
type LayerProgress struct {
	Digest string `json:"digest"`
	State  State  `json:"state"`
	Done   int64  `json:"done"`  // bytes: downloaded, or read of it while it is unpacked
	Total  int64  `json:"total"` // bytes; 0: not known
}

// A State is what a layer is in.
type State string

const (
	Waiting     State = "waiting"
	Downloading State = "downloading"
	Verifying   State = "verifying"
	Downloaded  State = "downloaded" // waits until those below it are unpacked
	Unpacking   State = "unpacking"
	Done        State = "done"
	Shared      State = "shared" // was there already, with another image
)

// Limits bound what an image may be. A field's zero is its default.
type Limits struct {
	Bytes    int64 // unpacked: 32 GiB; never more than nine tenths of what is free
	Entries  int64 // files, folders and links: 5 million
	Ratio    int64 // unpacked bytes to sent ones, of a layer: 200 …
	Floor    int64 // … above this many bytes: 1 GiB
	Layers   int   // 256
	Manifest int64 // bytes of a manifest, an index or a configuration: 8 MiB
}

func (l Limits) orDefault() Limits {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Bytes, 32<<30)
	set(&l.Entries, 5_000_000)
	set(&l.Ratio, 200)
	set(&l.Floor, 1<<30)
	set(&l.Manifest, 8<<20)
	if l.Layers <= 0 {
		l.Layers = 256
	}
	return l
}

// short is an ID as people are shown it.
func short(id string) string {
	_, hex, _ := strings.Cut(id, ":")
	return hex[:min(len(hex), 12)]
}
