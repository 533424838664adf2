package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"

	"airlock/internal/rpc"
)

const (
	transferChunk  = 1 << 20 // bytes of file content in one request
	transferWindow = 4       // requests in flight for one file
)

// A chunk is one ranged read.
type chunk struct {
	off  int64
	buf  []byte // the memory, to be used again
	data []byte
	eof  bool
	size int64
	err  error
	done chan struct{}
}

// ReadFileTo copies a file of any content to w, several chunks in flight, and returns the
// bytes written to w. The file is read by path chunk by chunk: one that changes meanwhile
// comes out mixed. From a guest of protocol 1.0 it is read whole and must be text.
func (c *Client) ReadFileTo(ctx context.Context, path string, w io.Writer) (int64, error) {
	known, err := c.need(ctx, MethodReadFile)
	if err != nil {
		return 0, err
	}
	if !known.Has(CapFiles) {
		text, err := c.ReadFile(ctx, path)
		if err != nil {
			return 0, err
		}
		n, err := io.WriteString(w, text)
		return int64(n), err
	}
	c.op(ctx, MethodReadFile, slog.String("path", path))
	ctx, cancel := context.WithCancel(ctx)
	d := &download{c: c, path: path, encoding: EncodingBase64}
	if known.Has(CapRaw) {
		d.encoding = EncodingRaw
	}
	defer d.drop()
	defer cancel()
	return d.run(ctx, w)
}

// A download is one ReadFileTo.
type download struct {
	c        *Client
	path     string
	encoding string
	queue    []*chunk // in flight, in order
	free     [][]byte
}

func (d *download) run(ctx context.Context, w io.Writer) (written int64, err error) {
	size := int64(0) // as far as it is known
	for next := int64(0); ; {
		for len(d.queue) == 0 || len(d.queue) < transferWindow && next < size {
			d.ask(ctx, next)
			next += transferChunk
		}
		k := d.queue[0]
		<-k.done
		d.queue = d.queue[1:]
		if k.err != nil {
			return written, k.err
		}
		n, err := w.Write(k.data)
		written += int64(n)
		if err != nil {
			return written, fmt.Errorf("%s: %w", MethodReadFile, err)
		}
		if k.eof {
			return written, nil
		}
		size = k.size
		short := len(k.data) < transferChunk
		if k.buf != nil {
			d.free = append(d.free, k.buf)
		}
		if len(k.data) == 0 {
			return written, malformed(MethodReadFile, "no bytes and no end of file")
		}
		if short {
			// What is in flight was asked for at the wrong places.
			d.drop()
			next = written
		}
	}
}

// ask starts one ranged read.
func (d *download) ask(ctx context.Context, off int64) {
	k := &chunk{off: off, done: make(chan struct{})}
	if n := len(d.free); n > 0 {
		k.buf, d.free = d.free[n-1], d.free[:n-1]
	} else if d.encoding == EncodingRaw && off > 0 {
		k.buf = make([]byte, transferChunk) // the file is larger than a chunk
	}
	d.queue = append(d.queue, k)
	go func() {
		defer close(k.done)
		k.err = d.c.readChunk(ctx, d.path, d.encoding, k)
	}()
}

// drop waits for what is in flight and forgets it, with its memory.
func (d *download) drop() {
	for _, k := range d.queue {
		<-k.done
	}
	d.queue = nil
}

// readChunk makes one ranged read and holds the answer against what was asked.
func (c *Client) readChunk(ctx context.Context, path, encoding string, k *chunk) error {
	params := ReadFileParams{Path: path, Encoding: encoding, Offset: k.off, Limit: transferChunk}
	answer, err := c.do(ctx, rpc.Call{Method: MethodReadFile, Params: params, Into: k.buf, Timeout: c.callTimeout(ctx)})
	if err != nil {
		return err
	}
	var res ReadFileResult
	if err := decode(MethodReadFile, answer.Result, &res); err != nil {
		return err
	}
	k.eof, k.size = res.EOF, res.Size
	if encoding == EncodingRaw {
		if answer.Raw == nil {
			return malformed(MethodReadFile, "no payload")
		}
		k.data = answer.Raw
		if k.buf == nil && cap(k.data) == transferChunk {
			k.buf = k.data
		}
	} else if k.data, err = base64.StdEncoding.DecodeString(res.Content); err != nil {
		return malformed(MethodReadFile, "content is not base64")
	}
	if len(k.data) > transferChunk {
		return malformed(MethodReadFile, "more bytes than were asked for")
	}
	return nil
}
