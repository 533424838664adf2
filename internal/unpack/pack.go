package unpack

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// PackOptions are those of Pack. The zero value of each field is its default, and nil is all of them.
type PackOptions struct {
	Follow bool   // a link at the end of the path is followed
	Name   string // what the path is called in the tar; "": its last part, and "." for one that ends in "/."

	// Notes, where it is not empty, begins the names of records in global headers, with which the tar says by
	// itself what is missing: "skipped", before the tar's end, is a JSON array of the first names that were left out;
	// "error" is why a tar that is not complete ends there.
	Notes string

	// Progress is called after each entry, and within large ones, with what there is so far.
	Progress func(Result)
}

const (
	maxHardLinks = 1 << 20 // files of several names that are remembered
	maxReason    = 2000    // bytes of why a tar is not complete
)

// An inode is a file, whatever its names.
type inode struct{ dev, ino uint64 }

// A packer is one Pack.
type packer struct {
	ctx   context.Context //nolint:containedctx // of the one call that the packer lives for
	opts  PackOptions
	out   *bufio.Writer
	tar   *tar.Writer
	buf   *[bufferSize]byte
	res   Result
	last  int64
	links map[inode]linked
}

// linked is a file that has more names than were seen.
type linked struct {
	name string // in the tar
	left uint64
}

// Pack writes path as a tar in PAX's form: a file, a link, or a folder with all in it, with modes, times,
// numeric owners, hard links and named pipes. Only links in front of path's last part are followed. Sockets and devices are left out.
// What vanishes meanwhile is left out too; a file that gets shorter while it is read is padded, one that grows
// is cut, and either is named in Result.Skipped. A tar that is not complete has no end: no two empty
// blocks. Errors of an entry are *EntryError.
func Pack(ctx context.Context, w io.Writer, path string, opts *PackOptions) (Result, error) {
	p := &packer{
		ctx:   ctx,
		out:   bufio.NewWriterSize(w, bufferSize),
		buf:   buffers.Get().(*[bufferSize]byte),
		links: map[inode]linked{},
	}
	defer buffers.Put(p.buf)
	if opts != nil {
		p.opts = *opts
	}
	p.tar = tar.NewWriter(p.out)
	err := p.path(path)
	if err == nil {
		err = p.end()
	} else {
		p.fail(err)
	}
	if flushed := p.out.Flush(); err == nil {
		err = flushed
	}
	return p.res, err
}

// TopName is what Pack calls a path in its tar.
func TopName(path string) string {
	path = filepath.ToSlash(path)
	trimmed := strings.TrimRight(path, "/")
	base := trimmed[strings.LastIndexByte(trimmed, '/')+1:]
	if base == "" || base == ".." {
		return "."
	}
	return base
}

// path packs the path that was asked for.
func (p *packer) path(path string) error {
	name := p.opts.Name
	if name == "" {
		name = TopName(path)
	}
	if TopName(path) == "." { // a folder that is called by no name in another
		f, err := openRoot(path)
		if err != nil {
			return err
		}
		defer f.close()
		return p.folder(f, name)
	}
	if p.opts.Follow {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return cause(err)
		}
		path = real
	}
	path = strings.TrimRight(path, "/")
	parent, err := openRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.close()
	base := filepath.Base(path)
	if base == string(filepath.Separator) {
		return p.folder(parent, name)
	}
	st, err := parent.lstat(base)
	if err != nil {
		return fmt.Errorf("pack %s: %w", path, err)
	}
	switch st.kind {
	case kindFile, kindFolder, kindLink, kindFIFO:
		return p.entry(parent, base, name, st.kind)
	}
	return fmt.Errorf("pack %s: %w: a socket or a device", path, ErrKind)
}

// end ends a tar that is complete.
func (p *packer) end() error {
	if p.opts.Notes != "" && p.res.Left > 0 {
		names := p.res.Skipped
		if more := p.res.Left - int64(len(names)); more > 0 {
			names = append(slices.Clip(names), fmt.Sprintf("… and %d more", more))
		}
		list, err := json.Marshal(names)
		if err != nil {
			return err
		}
		if err := p.note("skipped", string(list)); err != nil {
			return err
		}
	}
	return p.tar.Close()
}

// fail says in the tar why it is not complete, if it still can.
func (p *packer) fail(err error) {
	if p.opts.Notes == "" {
		return
	}
	why := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "")
	}
	_ = p.note("error", why) // within a file it is no entry's place, and the tar ends anyway
}

func (p *packer) note(name, value string) error {
	return p.tar.WriteHeader(&tar.Header{
		Typeflag:   tar.TypeXGlobalHeader,
		Name:       "notes",
		PAXRecords: map[string]string{p.opts.Notes + name: strings.ReplaceAll(value, "\x00", "\uFFFD")},
	})
}

func (p *packer) progress() {
	if p.last = p.res.Bytes; p.opts.Progress != nil {
		p.opts.Progress(p.res)
	}
}

// entry packs one name of a folder, and all in it. What vanished is passed over.
func (p *packer) entry(parent folder, base, name string, kind uint32) (err error) {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if kind == 0 {
		st, err := parent.lstat(base)
		if err != nil {
			return p.vanished(name, err)
		}
		kind = st.kind
	}
	switch kind {
	case kindFolder:
		var f folder
		if f, err = parent.open(base); err == nil {
			defer f.close()
			return p.folder(f, name)
		}
	case kindFile:
		err = p.file(parent, base, name)
	case kindLink, kindFIFO:
		err = p.small(parent, base, name)
	default:
		p.res.skip(name)
	}
	return p.vanished(name, err)
}

// vanished makes an entry's error of err, unless it says that something went away, or became something else.
func (p *packer) vanished(name string, err error) error {
	var at *EntryError
	switch {
	case err == nil, errors.As(err, &at), p.ctx.Err() != nil:
		return err
	case errors.Is(err, errAbsent):
		return nil
	case errors.Is(err, errNoFolder), errors.Is(err, ErrKind):
		p.res.skip(name + ": became something else while it was read")
		return nil
	}
	return &EntryError{name, err}
}

// folder packs a folder and all in it.
func (p *packer) folder(f folder, name string) error {
	st, err := f.stat()
	if err != nil {
		return &EntryError{name, err}
	}
	if err := p.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}, &st); err != nil {
		return &EntryError{name, err}
	}
	err = f.each(func(base string, kind uint32) error {
		return p.entry(f, base, name+"/"+base, kind)
	})
	return p.vanished(name, err)
}

func (p *packer) header(h *tar.Header, st *stat) error {
	h.Format = tar.FormatPAX
	h.Mode = int64(st.perm)
	h.Uid, h.Gid = st.uid, st.gid
	h.ModTime = st.mtime
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	p.res.Entries++
	p.progress()
	return nil
}

// small packs what has no content.
func (p *packer) small(parent folder, base, name string) error {
	st, err := parent.lstat(base)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name}
	switch st.kind {
	case kindFIFO:
		h.Typeflag = tar.TypeFifo
	case kindLink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = parent.readlink(base); err != nil {
			return err
		}
	default:
		return ErrKind
	}
	if done, err := p.again(h, &st); done {
		return err
	}
	return p.header(h, &st)
}

// again packs another name of a file as a hard link.
func (p *packer) again(h *tar.Header, st *stat) (done bool, err error) {
	if st.links < 2 {
		return false, nil
	}
	key := inode{st.dev, st.ino}
	first, ok := p.links[key]
	if !ok {
		if len(p.links) < maxHardLinks {
			p.links[key] = linked{h.Name, st.links - 1}
		}
		return false, nil
	}
	if first.left--; first.left == 0 {
		delete(p.links, key)
	} else {
		p.links[key] = first
	}
	return true, p.header(&tar.Header{Typeflag: tar.TypeLink, Name: h.Name, Linkname: first.name}, st)
}

// file packs a regular file.
func (p *packer) file(parent folder, base, name string) error {
	f, st, err := parent.read(base)
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // what it could say was said by reading
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: st.size}
	if done, err := p.again(h, &st); done {
		return err
	}
	if err := p.header(h, &st); err != nil {
		return err
	}
	return p.content(f, name, st.size)
}

// content packs size bytes of a file, whatever it has by now.
func (p *packer) content(f io.Reader, name string, size int64) error {
	padded := false
	for left := size; left > 0; {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n := int(min(left, bufferSize))
		if !padded {
			var err error
			// The last time one byte more than is left: it tells a file that grew.
			want := min(left+1, bufferSize)
			if want == left {
				want--
			}
			n, err = f.Read(p.buf[:want])
			if err != nil && err != io.EOF {
				return err
			}
			if err == io.EOF {
				p.res.skip(name + ": got shorter while it was read, and is padded")
				clear(p.buf[:])
				padded = true
				continue
			}
		}
		if int64(n) > left {
			p.res.skip(name + ": grew while it was read, and is cut")
			n = int(left)
		}
		if _, err := p.tar.Write(p.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
		if p.res.Bytes += int64(n); p.res.Bytes-p.last >= progressBytes {
			p.progress()
		}
	}
	return nil
}
