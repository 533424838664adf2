package image

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how far back a zstd frame may reach: as far as zstd --long does.
const maxWindow = 128 << 20

// decompress reads a layer, whatever it is packed with: what it says of that is often wrong.
func decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %w", ErrCorrupt, err)
		}
		return z, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}),
		len(magic) == 4 && magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18}): // a frame to be skipped
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(magic, []byte("BZh")), bytes.Equal(magic, []byte{0xfd, '7', 'z', 'X'}):
		return nil, fmt.Errorf("it is packed with bzip2 or xz; build the image with gzip or zstd")
	}
	return io.NopCloser(in), nil
}

// counted tells how much was read of a reader.
type counted struct {
	r    io.Reader
	n    int64
	each func(n int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if n > 0 {
		c.each(c.n)
	}
	return n, err
}

// bounded is a reader of which there may only be so much.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: it unpacks to more than is allowed", ErrLimit)
	}
	return n, err
}

// checked is a reader that does not end before its content has the right digest: it fails instead.
type checked struct {
	r    io.Reader
	sum  hash.Hash
	want v1.Hash
	what string
}

// verified reads r, and at its end gives ErrCorrupt instead where its digest is another. what is for the error.
func verified(r io.Reader, want v1.Hash, what string) (io.Reader, error) {
	sum, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return nil, err
	}
	return &checked{r, sum, want, what}, nil
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n]) // never fails
	if err == io.EOF {
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.want.Hex {
			return n, wrongDigest(c.want, got, c.what)
		}
	}
	return n, err
}

func wrongDigest(want v1.Hash, got, what string) error {
	return fmt.Errorf("%w: %s it has %s:%s instead of %s", ErrCorrupt, what, want.Algorithm, got, want)
}

// ended is a tar with the two empty blocks that some builders leave out, and `umoci insert` with them what fills the last
// file's block. Whether it is cut off is told by its digest.
func ended(r io.Reader) io.Reader {
	return io.MultiReader(r, bytes.NewReader(make([]byte, 511+1024)))
}

// readAll reads what must not be longer than limit.
func readAll(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrLimit, what, limit)
	}
	return data, nil
}
