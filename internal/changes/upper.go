package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrTooLarge means that an upper layer passes a limit of ReadOptions. Nothing of it is
// kept: half of what a sandbox did must never be committed.
var ErrTooLarge = errors.New("the sandbox changed more than is kept")

// ErrMalformed means that what was read is not an upper layer, whole and consistent.
var ErrMalformed = errors.New("malformed upper layer")

const (
	maxPath = 4095 // what a system call takes: PATH_MAX without the NUL
	maxName = 255

	defaultMaxBytes   = 8 << 30
	defaultMaxEntries = 1_000_000
	defaultMaxHash    = 1 << 30

	// maxNames bounds the memory that names, link targets and attributes take.
	maxNames = 512 << 20
)

// ReadOptions are for Read. Nil means the zero value.
type ReadOptions struct {
	// HostRoot is the folder that the sandbox was laid over; "" is "/".
	HostRoot string

	// Home is the home folder of who ran the sandbox; "" where there is none. It serves
	// to tell caches from work.
	Home Path

	// Started is the host's time just before the sandbox started. What the host changed
	// later is a Conflict. Zero: not looked for.
	Started time.Time

	// Hidden are paths that the sandbox was not shown. Whatever it has there is Refused,
	// and a folder that holds one is never deleted.
	Hidden []string

	// Ignore are paths that are the machinery's and not the command's; they are left out.
	Ignore []string

	// IDs maps the sandbox's owners to the host's; nil is the identity.
	IDs *IDMap

	// MaxBytes bounds the content read, holes included; 0 is 8 GiB. MaxEntries bounds
	// the entries of the layer and, separately, the changes; 0 is a million.
	MaxBytes   int64
	MaxEntries int

	// MaxHash bounds how much of the host's own files is read only to note their
	// digest; 0 is 1 GiB, negative is nothing. Old.SHA256 is "" beyond it.
	MaxHash int64
}

// An IDMap says which owner of the host each owner in the sandbox is. An owner that is
// not in it is not known outside: a file that was there keeps the one it has, a new one
// gets the first of the map.
type IDMap struct {
	UIDs, GIDs []IDRange
}

// An IDRange maps Count ids that begin at Sandbox to those that begin at Host.
type IDRange struct {
	Sandbox, Host, Count uint32
}

// hostID gives the host's id, and whether it is known.
func hostID(ranges []IDRange, id uint32) (uint32, bool) {
	for _, r := range ranges {
		if id >= r.Sandbox && id-r.Sandbox < r.Count {
			return r.Host + (id - r.Sandbox), true
		}
	}
	return 0, false
}

// Read reads an upper layer into w: a tar stream as runsc's "tar rootfs-upper" writes
// it, of a sandbox laid over opts.HostRoot. It streams: contents go to w's blobs as they
// come. What it finds is compared with the host, so that only what differs is a change.
//
// Whatever is wrong with the stream (a name upwards, an entry below a file, an end in the
// middle) is ErrMalformed, and passing a limit ErrTooLarge; the Writer is unusable then
// and its Finish fails, so that no part of a layer is ever taken for the whole.
func Read(ctx context.Context, layer io.Reader, w *Writer, opts *ReadOptions) error {
	o := ReadOptions{}
	if opts != nil {
		o = *opts
	}
	o.setDefaults()
	err := read(ctx, layer, w, &o)
	if err != nil {
		err = fmt.Errorf("read the upper layer: %w", err)
		w.fail(err)
	}
	return err
}

func (o *ReadOptions) setDefaults() {
	if o.HostRoot == "" {
		o.HostRoot = "/"
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = defaultMaxEntries
	}
	if o.MaxHash == 0 {
		o.MaxHash = defaultMaxHash
	}
}

func read(ctx context.Context, layer io.Reader, w *Writer, o *ReadOptions) error {
	hidden, err := newPathSet(o.Hidden)
	if err != nil {
		return fmt.Errorf("hidden paths: %w", err)
	}
	ignored, err := newPathSet(o.Ignore)
	if err != nil {
		return fmt.Errorf("ignored paths: %w", err)
	}
	t := newLayerTree(o)
	if err := t.readTar(ctx, layer, w); err != nil {
		return err
	}
	host, err := openHost(o.HostRoot)
	if err != nil {
		return err
	}
	defer host.Close()
	c := &comparer{
		tree: t, opts: o, host: host, hidden: hidden, ignored: ignored,
		scopes:  scoper{work: w.header.WorkDir, home: o.Home},
		folders: map[Path]string{}, hashLeft: o.MaxHash, base: newBaseline(), store: w.store,
	}
	if w.live != nil {
		c.base = w.live.base
	}
	c.findOut()
	if err := c.compare(ctx); err != nil {
		return err
	}
	c.linkUp()
	c.sortOuts()
	for i := range c.outs {
		if err := w.addOut(c.outs[i]); err != nil {
			return err
		}
	}
	for i := range c.changes {
		if err := w.Add(c.changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// A pathSet answers what lies at or below one of its paths.
type pathSet map[Path]bool

func newPathSet(list []string) (pathSet, error) {
	set := make(pathSet, len(list))
	for _, name := range list {
		if !Path(name).Valid() {
			return nil, fmt.Errorf("%q is not an absolute, clean path", name)
		}
		set[Path(name)] = true
	}
	return set, nil
}

// covers reports whether p is, or is below, one of the set's paths.
func (s pathSet) covers(p Path) bool {
	if len(s) == 0 {
		return false
	}
	for ; p != "/"; p = p.Parent() {
		if s[p] {
			return true
		}
	}
	return s["/"]
}
