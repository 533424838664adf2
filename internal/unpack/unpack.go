package unpack

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

const (
	bufferSize    = 256 << 10
	progressBytes = 1 << 20 // of a large file, between two calls of Progress
)

// buffers are for what is read ahead of a tar, and for the content of its files.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// An unpacker is one Into.
type unpacker struct {
	opts Options
	in   *source
	tar  *tar.Reader
	tree *tree
	buf  *[bufferSize]byte
	res  Result

	first   string         // the first part of all names, with Options.Top
	made    *madeSet       // what this tar made, for whiteouts
	folders []folderEntry  // whose modes and times are set at the end
	index   map[string]int // in folders
	noted   int64          // bytes that folders take in memory
	records int64          // and their attributes
	temps   uint64         // for names of files that are to replace others
	last    int64          // bytes at the last call of Progress
}

// Into writes the tar r below the folder dir, up to the two empty blocks at the tar's end; without them it is
// cut off, which is ErrFormat. It may read more of r than that. Modes, times, links and hard links are the tar's, and
// folders that it does not have are made with mode 0755.
//
// A file takes the place of another when it is complete. When something fails, or ctx ends, the file that was being written is removed,
// and what was complete stays; r is not closed, and a read of it that blocks must be ended by who owns it.
// Errors of an entry are *EntryError.
func Into(ctx context.Context, dir string, r io.Reader, opts *Options) (Result, error) {
	root, err := openRoot(dir)
	if err != nil {
		return Result{}, err
	}
	ahead := bufio.NewReaderSize(r, bufferSize)
	u := &unpacker{
		in:    &source{r: ahead, ctx: ctx},
		tree:  &tree{root: root},
		buf:   buffers.Get().(*[bufferSize]byte),
		index: map[string]int{},
		temps: rand.Uint64(),
	}
	defer u.tree.close()
	defer buffers.Put(u.buf)
	if opts != nil {
		u.opts = *opts
	}
	if u.opts.Max.Depth <= 0 {
		u.opts.Max.Depth = defaultDepth
	}
	if u.opts.Max.Path <= 0 {
		u.opts.Max.Path = defaultPath
	}
	if u.opts.Whiteouts {
		u.made = newMadeSet()
	}
	u.tree.follow = u.opts.Follow
	u.tree.made = u.madeOnTheWay
	if u.opts.Replace != ReplaceSame {
		u.tree.clear = func(parent folder, path []string) error { return u.clear(parent, path, false) }
	}
	u.tar = tar.NewReader(u.in)
	err = u.run(ctx)
	if later := u.finish(); err == nil {
		err = later
	}
	return u.res, err
}

// A source is the tar's bytes. It knows whether the tar ended or its bytes did.
type source struct {
	r     io.Reader
	ctx   context.Context //nolint:containedctx // of the one call that the source lives for
	ended bool
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	if err == io.EOF {
		s.ended = true
	}
	return n, err
}

func (u *unpacker) run(ctx context.Context) error {
	for {
		h, err := u.tar.Next()
		switch {
		case err == io.EOF && !u.in.ended:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: it is cut off after %d entries", ErrFormat, u.res.Entries)
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("%w after %d entries", ErrFormat, u.res.Entries)
		case err != nil:
			return fmt.Errorf("read the tar: %w", err)
		}
		if limit := u.opts.Max.Entries; limit > 0 && u.res.Entries+u.res.Folders >= limit {
			return &EntryError{h.Name, fmt.Errorf("%w of %d entries", ErrLimit, limit)}
		}
		u.res.Entries++
		if err := u.entry(h); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &EntryError{h.Name, err}
		}
		u.progress()
	}
}

func (u *unpacker) progress() {
	if u.last = u.res.Bytes; u.opts.Progress != nil {
		u.opts.Progress(u.res)
	}
}

// entry does what one entry says.
func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		if u.opts.Global != nil {
			u.opts.Global(h.PAXRecords)
		}
		return nil
	}
	path, err := u.path(h.Name)
	if err != nil {
		return err
	}
	if len(path) == 0 {
		return u.rootEntry(h)
	}
	if u.opts.Whiteouts {
		if done, err := u.whiteout(path); done {
			return err
		}
	}
	name := path[len(path)-1]
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock:
		if !u.opts.SkipDevices {
			return fmt.Errorf("%w: a device", ErrKind)
		}
		u.res.skip(h.Name)
		return nil
	case tar.TypeFifo:
		if u.opts.SkipFIFOs {
			u.res.skip(h.Name)
			return nil
		}
	}
	parent, real, err := u.tree.dir(path[:len(path)-1], true)
	if err != nil {
		return err
	}
	real = append(slices.Clip(real), name)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old tars have TypeRegA
		err = u.file(parent, real, h)
	case tar.TypeDir:
		err = u.mkdir(parent, real, h)
	case tar.TypeSymlink:
		err = u.symlink(parent, real, h)
	case tar.TypeLink:
		err = u.link(real, h)
	case tar.TypeFifo:
		err = u.fifo(parent, real, h)
	default:
		err = fmt.Errorf("%w: type %q", ErrKind, h.Typeflag)
	}
	if err == nil && u.made != nil {
		u.mark(real)
	}
	return err
}

// path takes a name apart. An absolute one is taken below the folder.
func (u *unpacker) path(name string) ([]string, error) {
	if len(name) > u.opts.Max.Path {
		return nil, fmt.Errorf("%w of %d bytes of a name", ErrLimit, u.opts.Max.Path)
	}
	path := parts(name)
	if len(path) > u.opts.Max.Depth {
		return nil, fmt.Errorf("%w of %d folders in each other", ErrLimit, u.opts.Max.Depth)
	}
	for _, part := range path {
		if part == ".." || strings.IndexByte(part, 0) >= 0 || !nameAllowed(part) {
			return nil, ErrName
		}
	}
	if u.opts.Top == "" {
		return path, nil
	}
	if len(path) == 0 {
		return nil, ErrName
	}
	if u.first == "" {
		u.first = path[0]
	}
	if path[0] != u.first {
		return nil, fmt.Errorf("%w %q", ErrName, u.first)
	}
	path[0] = u.opts.Top
	return path, nil
}

// rootEntry is an entry for the folder itself.
func (u *unpacker) rootEntry(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return ErrName
	}
	if u.opts.KeepRoot {
		return nil
	}
	return u.note(u.tree.root, nil, h)
}

// mark remembers that this tar made a path, and so also what it lies in.
func (u *unpacker) mark(path []string) {
	for n := len(path); n > 0 && u.made.add(path[:n]); n-- {
	}
}

// madeOnTheWay is called for a folder that the tar needs and does not have.
func (u *unpacker) madeOnTheWay(f folder, path []string) error {
	u.res.Folders++
	if limit := u.opts.Max.Entries; limit > 0 && u.res.Entries+u.res.Folders > limit {
		return fmt.Errorf("%w of %d entries, with folders that the tar does not have", ErrLimit, limit)
	}
	if u.made != nil {
		u.mark(path)
	}
	switch u.opts.Owners {
	case OwnersOne:
		return f.asFile().own(u.opts.UID, u.opts.GID)
	case OwnersKeep:
		return f.asFile().own(0, 0)
	}
	return nil
}

// clear puts away what lies at path as far as Options.Replace allows; intoFolder says that
// a folder is to be there, and then one may stay.
func (u *unpacker) clear(parent folder, path []string, intoFolder bool) error {
	name := path[len(path)-1]
	st, err := parent.lstat(name)
	switch {
	case errors.Is(err, errAbsent):
		return nil
	case err != nil:
		return err
	case intoFolder && st.isFolder():
		return nil
	case st.isSpecial() && u.opts.Replace != ReplaceAll:
		return fmt.Errorf("%w: a device, a pipe or a socket", ErrExists)
	case !intoFolder && !st.isFolder():
		return parent.remove(name, false)
	case u.opts.Replace == ReplaceSame:
		if st.isFolder() {
			return fmt.Errorf("%w: a folder", ErrExists)
		}
		return fmt.Errorf("%w: no folder", ErrExists)
	case !st.isFolder():
		return parent.remove(name, false)
	case u.opts.Replace == ReplaceAll:
		return u.removeAll(parent, name)
	}
	if err := parent.remove(name, true); err != nil {
		return fmt.Errorf("%w: a folder that cannot be removed (%w)", ErrExists, err)
	}
	return nil
}
