package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"airlock/internal/unpack"
)

// A Connector makes a fresh connection to a guest agent, on which nothing was said.
type Connector func(ctx context.Context) (net.Conn, error)

// CopyOptions are those of CopyIn and CopyOut. The zero value of each field is its default, and nil is all of them.
type CopyOptions struct {
	Follow  bool // a link at the end of the source is followed; else it is copied as a link
	Owner   bool // CopyIn: keep the numeric owners, where the guest may
	Replace bool // a file may take the place of an empty folder, and a folder that of a file

	// Progress is called often, from another goroutine, with what was copied so far.
	Progress func(CopyResult)
}

// CopyResult is what was copied.
type CopyResult struct {
	Entries int64    // files, folders and what else has a name
	Bytes   int64    // of files' content
	Skipped []string // the first names that were left out, or changed while they were read; of the guest's own words in CopyOut
}

// Errors of a copy that callers may tell apart.
var (
	ErrNoSource = errors.New("no such file or folder")
	ErrNoParent = errors.New("there is no such folder to copy into")
	ErrClash    = errors.New("a folder and a file cannot take each other's place")
)

// A place is one end of a copy: what is there, and what was said about it.
type place struct {
	text   string // as it was said
	there  bool
	folder bool
	slash  bool // it ends in a slash, or in one and a dot: it must be a folder
	inside bool // it ends in "/.": what is in it is meant, not itself
}

func placeOf(text string) place {
	p := place{text: text}
	p.inside = text == "." || strings.Trim(text, "/") == "" || strings.HasSuffix(text, "/.")
	p.slash = p.inside || strings.HasSuffix(text, "/")
	return p
}

// trimmed is the path without what says that it must be a folder.
func (p *place) trimmed() string {
	if t := strings.TrimRight(strings.TrimSuffix(p.text, "/."), "/"); t != "" {
		return t
	}
	return p.text
}

// A plan is where a copy goes: into a folder, under a name.
type plan struct {
	into string
	name string // "": what is in the source goes into the folder
}

// planOf applies the rules of docker cp. split takes the last part off the destination's path.
func planOf(src, dst *place, srcName string, split func(string) (dir, base string)) (plan, error) {
	switch {
	case !src.there:
		return plan{}, fmt.Errorf("%s: %w", src.text, ErrNoSource)
	case src.slash && !src.folder:
		return plan{}, fmt.Errorf("%s: %w: it is a file", src.text, ErrNoSource)
	case dst.there && dst.folder && src.inside:
		return plan{into: dst.text}, nil
	case dst.there && dst.folder:
		return plan{dst.text, srcName}, nil
	case dst.there && (src.folder || dst.slash):
		return plan{}, fmt.Errorf("%s: %w", dst.text, ErrClash)
	case !dst.there && dst.slash && !src.folder:
		return plan{}, fmt.Errorf("%s: %w", dst.text, ErrNoParent)
	}
	dir, base := split(dst.trimmed())
	if base == "." || base == ".." || base == "/" {
		return plan{}, fmt.Errorf("%s: %w", dst.text, ErrNoParent)
	}
	return plan{dir, base}, nil
}

// CopyIn copies src of this machine to dst of a guest, as docker cp does:
//
//   - dst is a folder: src goes into it under its own name, or what is in src if that ends in "/.";
//   - dst is not there: src gets that name, in a folder that must be there (ErrNoParent); dst may
//     end in a slash only if src is a folder;
//   - dst is a file, or a link to one: a file replaces it; a folder is ErrClash.
//
// Folders are merged with those that are there; modes, times and links are kept. When ctx ends or something
// fails, what was copied whole stays, and the file that was not complete is not there.
func CopyIn(ctx context.Context, connect Connector, src, dst string, opts *CopyOptions) (CopyResult, error) {
	o := opts.orDefault()
	from, err := hostPlace(src, o.Follow)
	if err != nil {
		return CopyResult{}, err
	}
	var to place
	var p plan
	err = asked(ctx, connect, func(c *Client) (err error) {
		if to, err = guestPlace(ctx, c, dst, true); err != nil {
			return err
		}
		if p, err = planOf(&from, &to, hostName(from.text), splitPath); err != nil || to.there {
			return err
		}
		parent, err := guestPlace(ctx, c, p.into, true)
		return inFolder(&parent, err)
	})
	if err != nil {
		return CopyResult{}, err
	}
	conn, err := connect(ctx)
	if err != nil {
		return CopyResult{}, err
	}
	pack := unpack.PackOptions{Name: p.name, Follow: o.Follow || from.slash, Progress: o.progress()}
	if pack.Name == "" {
		pack.Name = "."
	}
	var packed unpack.Result
	params := UnpackParams{Path: p.into, Owner: o.Owner, Clear: o.Replace}
	res, err := unpackTo(ctx, conn, params, true, func(w io.Writer) (err error) {
		packed, err = unpack.Pack(ctx, w, src, &pack)
		return err
	})
	return CopyResult{res.Entries, res.Bytes, packed.Skipped}, err
}

// CopyOut copies src of a guest to dst of this machine, by the rules of CopyIn. A guest that does not tell
// the truth can put what it likes where src goes, below the folder or under the name that dst says, and
// nowhere else: links that lie there are not followed, but for dst itself. Set-id bits are taken away.
func CopyOut(ctx context.Context, connect Connector, src, dst string, opts *CopyOptions) (CopyResult, error) {
	o := opts.orDefault()
	to, err := hostPlace(dst, true)
	if err != nil {
		return CopyResult{}, err
	}
	var from place
	err = asked(ctx, connect, func(c *Client) (err error) {
		from, err = guestPlace(ctx, c, src, o.Follow)
		return err
	})
	if err != nil {
		return CopyResult{}, err
	}
	p, err := planOf(&from, &to, guestName(src), filepath.Split)
	if err != nil {
		return CopyResult{}, err
	}
	if p.into == "" {
		p.into = "."
	}
	parent, err := hostPlace(p.into, true)
	if err := inFolder(&parent, err); err != nil {
		return CopyResult{}, err
	}
	conn, err := connect(ctx)
	if err != nil {
		return CopyResult{}, err
	}
	ask := PackParams{Path: src, Follow: o.Follow || from.slash}
	if !from.inside {
		ask.Path = from.trimmed()
	}
	tar, err := Pack(ctx, conn, ask)
	if err != nil {
		return CopyResult{}, err
	}
	defer tar.Close()
	res, err := takeTar(ctx, tar, p, from.inside, &o)
	return CopyResult{res.Entries, res.Bytes, append(tar.Skipped(), res.Skipped...)}, err
}

// takeTar writes a guest's tar where the plan says. inside says that its names begin with none of the source's own.
func takeTar(ctx context.Context, tar io.Reader, p plan, inside bool, o *CopyOptions) (unpack.Result, error) {
	opts := unpack.Options{
		Top: p.name, KeepRoot: true, SkipDevices: true, SkipFIFOs: runtime.GOOS == "windows", Progress: o.progress(),
	}
	if o.Replace {
		opts.Replace = unpack.ReplaceEmpty
	}
	if inside && p.name != "" {
		p.into = filepath.Join(p.into, p.name)
		if err := os.Mkdir(p.into, 0o755); err != nil {
			return unpack.Result{}, err
		}
		opts.Top, opts.KeepRoot = "", false
	}
	return unpack.Into(ctx, p.into, tar, &opts)
}

func (o *CopyOptions) orDefault() CopyOptions {
	if o == nil {
		return CopyOptions{}
	}
	return *o
}

func (o *CopyOptions) progress() func(unpack.Result) {
	if o.Progress == nil {
		return nil
	}
	return func(res unpack.Result) { o.Progress(CopyResult{res.Entries, res.Bytes, res.Skipped}) }
}

// asked makes calls on a connection of their own.
func asked(ctx context.Context, connect Connector, calls func(*Client) error) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	c := NewClient(conn, nil)
	defer c.Close()
	return calls(c)
}

// inFolder says whether a copy can go into a place.
func inFolder(p *place, err error) error {
	if err == nil && !(p.there && p.folder) {
		err = fmt.Errorf("%s: %w", p.text, ErrNoParent)
	}
	return err
}

func splitPath(p string) (dir, base string) { return path.Dir(p), path.Base(p) }

// hostPlace looks at a path of this machine.
func hostPlace(text string, follow bool) (place, error) {
	p := placeOf(filepath.ToSlash(text))
	look := os.Lstat
	if follow || p.slash {
		look = os.Stat
	}
	st, err := look(text)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return p, nil
	case err != nil:
		return p, err
	}
	p.there, p.folder = true, st.IsDir()
	return p, nil
}

// hostName is what a path of this machine is called.
func hostName(text string) string {
	if name := unpack.TopName(text); name != "." {
		return name
	}
	if abs, err := filepath.Abs(text); err == nil {
		return filepath.Base(abs)
	}
	return "."
}

// guestPlace looks at a path of a guest.
func guestPlace(ctx context.Context, c *Client, text string, follow bool) (place, error) {
	p := placeOf(text)
	st, err := c.Stat(ctx, text, follow || p.slash)
	failed, answered := errors.AsType[*RPCError](err)
	switch {
	case answered && strings.HasSuffix(failed.Message, ": "+absent):
		return p, nil
	case err != nil:
		return p, err
	}
	p.there, p.folder = true, st.Type == "dir"
	return p, nil
}

// absent is how a guest agent's error ends for a path that is not there.
const absent = "no such file or directory"

// guestName is what a path of a guest is called.
func guestName(text string) string {
	if name := unpack.TopName(text); name != "." {
		return name
	}
	return path.Base(path.Clean(text))
}
