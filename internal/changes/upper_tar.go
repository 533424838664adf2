package changes

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

const (
	xattrPrefix = "SCHILY.xattr."
	opaqueXattr = xattrPrefix + "trusted.overlay.opaque"
	userPrefix  = "user."

	tarBlock = 512
)

// A layerEntry is one object of the upper layer.
type layerEntry struct {
	node     Node
	blob     string
	rdev     uint64 // of a device
	whiteout bool   // nothing is here: what the host has is deleted
	opaque   bool   // a folder that hides what the host has at its path
	tooLong  bool   // no system call takes its path
	first    Path   // of a further hard link: the path of the first
}

// A layerTree is an upper layer by path. Every entry's parent is in it, and is a folder.
type layerTree struct {
	opts    *ReadOptions
	entries map[Path]*layerEntry
	bytes   int64 // of content, so far
	names   int64 // of names and attributes, so far
}

func newLayerTree(o *ReadOptions) *layerTree {
	return &layerTree{opts: o, entries: map[Path]*layerEntry{}}
}

// tailReader remembers the last two blocks it gave: they tell a stream that ended from
// one that was cut off between two entries.
type tailReader struct {
	from io.Reader
	ctx  context.Context //nolint:containedctx // lives for one readTar; a Reader has no other way to be cancelled
	tail [2 * tarBlock]byte
}

func (r *tailReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	if n >= len(r.tail) {
		copy(r.tail[:], p[n-len(r.tail):n])
	} else if n > 0 {
		copy(r.tail[:], r.tail[n:])
		copy(r.tail[len(r.tail)-n:], p[:n])
	}
	return n, err
}

// readTar reads the whole stream.
func (t *layerTree) readTar(ctx context.Context, layer io.Reader, w *Writer) error {
	buffered := bufio.NewReaderSize(layer, 1<<16)
	tail := &tailReader{from: buffered, ctx: ctx}
	tail.tail[0] = 1 // an empty stream is no end of an archive
	in := tar.NewReader(tail)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return t.streamError(ctx, err)
		}
		if len(t.entries) >= t.opts.MaxEntries {
			return fmt.Errorf("%w: over %d entries", ErrTooLarge, t.opts.MaxEntries)
		}
		if err := t.add(h, in, w); err != nil {
			return t.streamError(ctx, fmt.Errorf("entry %d, %.200q: %w", len(t.entries)+1, h.Name, err))
		}
	}
	if tail.tail != [2 * tarBlock]byte{} {
		return fmt.Errorf("%w: it ends without an end mark", ErrMalformed)
	}
	if t.entries["/"] == nil {
		return fmt.Errorf("%w: it holds nothing", ErrMalformed)
	}
	return onlyZeros(buffered)
}

// streamError keeps the errors that are not about the stream as they are.
func (t *layerTree) streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// onlyZeros accepts padding after the end, and nothing else.
func onlyZeros(r io.Reader) error {
	buf := make([]byte, 4096)
	for total := 0; total < 1<<20; {
		n, err := r.Read(buf)
		total += n
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return fmt.Errorf("%w: something follows its end", ErrMalformed)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: something follows its end", ErrMalformed)
}

// add takes one entry in.
func (t *layerTree) add(h *tar.Header, content io.Reader, w *Writer) error {
	p, err := tarPath(h.Name, h.Typeflag == tar.TypeDir)
	if err != nil {
		return err
	}
	switch {
	case t.entries[p] != nil:
		return fmt.Errorf("%w: it is there twice", ErrMalformed)
	case p == "/" && h.Typeflag != tar.TypeDir:
		return fmt.Errorf("%w: the root is no folder", ErrMalformed)
	}
	e, err := t.newEntry(p, h)
	if err != nil {
		return err
	}
	if p == "/" && e.opaque {
		return fmt.Errorf("%w: the root is marked as replaced", ErrMalformed)
	}
	if p != "/" {
		parent := t.entries[p.Parent()]
		if parent == nil || parent.node.Type != Dir {
			return fmt.Errorf("%w: what it is in is no folder", ErrMalformed)
		}
		// What is new, or was moved here, hides the host's folders of the same names at
		// every depth, and only its top is marked.
		e.opaque = e.node.Type == Dir && (e.opaque || parent.opaque)
	}
	t.names += int64(len(p)+len(e.node.Target)) + 128
	for key, value := range e.node.Xattrs {
		t.names += int64(len(key) + len(value))
	}
	if t.names > maxNames {
		return fmt.Errorf("%w: over %d bytes of names and attributes", ErrTooLarge, maxNames)
	}
	if e.node.Type == File && e.first == "" {
		if err := t.addContent(e, h.Size, content, w); err != nil {
			return err
		}
	}
	t.entries[p] = e
	return nil
}

func (t *layerTree) addContent(e *layerEntry, size int64, content io.Reader, w *Writer) (err error) {
	if size < 0 {
		return fmt.Errorf("%w: size %d", ErrMalformed, size)
	}
	if size > t.opts.MaxBytes-t.bytes {
		return fmt.Errorf("%w: over %d bytes of content", ErrTooLarge, t.opts.MaxBytes)
	}
	t.bytes += size
	e.node.Size = size
	e.blob, err = w.WriteBlob(content, size)
	e.node.SHA256 = e.blob
	return err
}

func (t *layerTree) newEntry(p Path, h *tar.Header) (*layerEntry, error) {
	if h.Uid < 0 || h.Uid > math.MaxUint32 || h.Gid < 0 || h.Gid > math.MaxUint32 {
		return nil, fmt.Errorf("%w: owner %d:%d", ErrMalformed, h.Uid, h.Gid)
	}
	e := &layerEntry{tooLong: len(p) > maxPath}
	e.node = Node{
		Mode: uint32(h.Mode & 0o7777), UID: uint32(h.Uid), GID: uint32(h.Gid), //nolint:gosec // checked above
		MTime: sensible(h.ModTime), Xattrs: tarXattrs(h.PAXRecords),
	}
	switch h.Typeflag {
	case tar.TypeReg:
		e.node.Type = File
	case tar.TypeDir:
		e.node.Type = Dir
		e.opaque = h.PAXRecords[opaqueXattr] == "y"
	case tar.TypeSymlink:
		e.node.Type = Symlink
		e.node.Target = Path(h.Linkname)
		if h.Linkname == "" || len(h.Linkname) > maxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return nil, fmt.Errorf("%w: its target is %.200q", ErrMalformed, h.Linkname)
		}
	case tar.TypeFifo:
		e.node.Type = Fifo
	case tar.TypeChar, tar.TypeBlock:
		e.whiteout = h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0
		e.node.Type = Device
		e.rdev = deviceNumber(h.Devmajor, h.Devminor)
	case tar.TypeLink:
		return t.newLink(p, h.Linkname)
	default:
		return nil, fmt.Errorf("%w: it is of type %q", ErrMalformed, h.Typeflag)
	}
	return e, nil
}

// newLink makes a further name of an object that is in the tree already. Deletions are
// links to one another, too.
func (t *layerTree) newLink(p Path, name string) (*layerEntry, error) {
	target, err := tarPath(name, false)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	first := t.entries[target]
	if first == nil || first.node.Type == Dir {
		return nil, fmt.Errorf("%w: a link to %.200q, which is no file before it", ErrMalformed, name)
	}
	if first.first != "" {
		target = first.first
	}
	e := *first
	e.first, e.tooLong = target, len(p) > maxPath
	return &e, nil
}

// tarPath turns an entry's name into a path. Only the one form that is written is
// accepted: "./a/b", with a slash at the end of a folder's.
func tarPath(name string, dir bool) (Path, error) {
	rest, ok := strings.CutPrefix(name, ".")
	if dir && rest == "/" {
		return "/", nil
	}
	if dir && ok {
		rest, ok = strings.CutSuffix(rest, "/")
	}
	if !ok || !Path(rest).Valid() || rest == "/" {
		return "", fmt.Errorf("%w: %.200q is no clean name below the root", ErrMalformed, name)
	}
	for part := range strings.SplitSeq(rest[1:], "/") {
		if len(part) > maxName {
			return "", fmt.Errorf("%w: a name of %d bytes", ErrMalformed, len(part))
		}
	}
	return Path(rest), nil
}

func tarXattrs(records map[string]string) map[string][]byte {
	var out map[string][]byte
	for key, value := range records {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !strings.HasPrefix(name, userPrefix) || len(name) > maxName {
			continue
		}
		if out == nil {
			out = map[string][]byte{}
		}
		out[name] = []byte(value)
	}
	return out
}

// sensible bounds a time to what JSON can carry.
func sensible(t time.Time) time.Time {
	t = t.UTC()
	switch {
	case t.Year() < 1:
		return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}
