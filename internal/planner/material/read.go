package material

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var (
	errFolder = errors.New("it is a folder")
	errHidden = errors.New("it is hidden from sandboxes and from models; what of it a model must know can be piped in")
	errKernel = errors.New("it is a file of the kernel's own; pipe in what a command says about it")
	errOut    = errors.New("it leads out of the folder")
)

// special is the error of what is no file with content.
type special string

func (s special) Error() string {
	return "it is " + string(s) + ", not a file; pipe in what a command reads from it"
}

// cause is err without the path, which whoever reports it names as the person wrote it.
func cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// A document is what was read of a file.
type document struct {
	real string // its path
	data []byte
	more bool  // there is more than that
	size int64 // of the whole, as far as is known
}

// read reads at most n bytes of a regular file that is not hidden, and lies in a folder (with
// links resolved) unless that is empty.
func (g *gatherer) read(ctx context.Context, name, in string, n int) (*document, error) {
	f, real, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case g.Hidden(real):
		return nil, errHidden
	case in != "" && !within(real, in):
		return nil, errOut
	}
	d := &document{real: real}
	if d.data, err = io.ReadAll(io.LimitReader(ctxReader{ctx, f}, int64(n)+1)); err != nil {
		return nil, cause(err)
	}
	d.size = int64(len(d.data))
	if len(d.data) > n {
		d.data, d.more = d.data[:n], true
		if info, err := f.Stat(); err == nil {
			d.size = max(d.size, info.Size())
		}
	}
	return d, nil
}

// readSmall is the beginning of a regular file.
func readSmall(name string, n int64) (string, error) {
	f, _, err := open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, n))
	return string(data), err
}

// A ctxReader ends with its context, between two reads.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one read of a file
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// repository is the folder, dir or one above it, that holds .git, with links resolved; empty
// where there is none. As git does, it does not take one that belongs to somebody else.
func repository(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	for range 64 {
		info, err := os.Lstat(filepath.Join(real, ".git"))
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			if !mine(info) {
				return ""
			}
			return real
		}
		up := filepath.Dir(real)
		if up == real {
			break
		}
		real = up
	}
	return ""
}

// folders are the folders from root down to dir, which lies in it; dir alone where root is
// empty.
func folders(root, dir string) []string {
	if root == "" || !within(dir, root) {
		return []string{dir}
	}
	out := []string{root}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return out
	}
	at := root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		out = append(out, at)
	}
	return out
}
