package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"airlock/internal/rpc"
)

// defaultFileMode is what protocol 1.0 makes files with.
const defaultFileMode = 0o644

// WriteFileFrom copies r into a file, several chunks in flight, and returns the bytes that
// the guest has written. The file is made, or emptied first. mode is its permission bits,
// set whether or not it existed; 0 makes 0644 and leaves an existing file's. After an
// error the file holds a part. To a guest of protocol 1.0 it is sent whole: it must be
// text, fit a frame, and have mode 0 or 0644.
func (c *Client) WriteFileFrom(ctx context.Context, path string, r io.Reader, mode uint32) (int64, error) {
	known, err := c.need(ctx, MethodWriteFile)
	if err != nil {
		return 0, err
	}
	if !known.Has(CapFiles) {
		return c.writeWhole(ctx, path, r, mode)
	}
	c.op(ctx, MethodWriteFile, slog.String("path", path))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &upload{c: c, path: path, raw: known.Has(CapRaw), cancel: cancel, free: make(chan []byte, transferWindow)}
	for range transferWindow {
		u.free <- nil
	}
	err = u.run(ctx, r, mode)
	u.flight.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		err = u.err
	}
	return u.written, err
}

// An upload is one WriteFileFrom.
type upload struct {
	c      *Client
	path   string
	raw    bool
	cancel context.CancelFunc
	free   chan []byte // a buffer, or leave to make one, for each request that may be in flight
	flight sync.WaitGroup

	mu      sync.Mutex
	written int64
	err     error // the first request's that failed
}

// run sends the chunks. The first goes alone, because it empties the file; a mode that
// forbids writing comes last, because it would end the writing.
func (u *upload) run(ctx context.Context, r io.Reader, mode uint32) error {
	var first, last *uint32
	if mode != 0 {
		first = &mode
		if mode&0o200 == 0 {
			writable := mode | 0o200
			first, last = &writable, &mode
		}
	}
	off := int64(0)
	for {
		var buf []byte
		select {
		case buf = <-u.free:
		case <-ctx.Done():
			return callError(ctx, MethodWriteFile, ctx.Err())
		}
		buf, err := readChunkFrom(r, buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: read the content: %w", MethodWriteFile, err)
		}
		atEnd := err != nil
		at := off
		off += int64(len(buf))
		switch {
		case at == 0:
			if !u.put(ctx, buf, WriteFileParams{Mode: first}) {
				return nil
			}
		case len(buf) > 0:
			u.flight.Go(func() { u.put(ctx, buf, WriteFileParams{Offset: &at}) })
		}
		if atEnd {
			break
		}
	}
	if u.flight.Wait(); last != nil {
		u.put(ctx, nil, WriteFileParams{Offset: &off, Mode: last})
	}
	return nil
}

// put sends one chunk and gives its buffer back. The first failure ends the others.
func (u *upload) put(ctx context.Context, data []byte, params WriteFileParams) bool {
	params.Path = u.path
	spec := rpc.Call{Method: MethodWriteFile, Timeout: u.c.callTimeout(ctx)}
	if u.raw {
		params.Encoding = EncodingRaw
		spec.Raw = data
		if data == nil {
			spec.Raw = []byte{}
		}
	} else {
		params.Encoding, params.Content = EncodingBase64, base64.StdEncoding.EncodeToString(data)
	}
	spec.Params = params
	answer, err := u.c.do(ctx, spec)
	var res Success
	if err == nil {
		err = decode(MethodWriteFile, answer.Result, &res)
	}
	if err == nil && !res.Success {
		err = fmt.Errorf("%s: %w", MethodWriteFile, errNotDone)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		if u.err == nil {
			u.err = err
			u.cancel()
		}
		return false
	}
	u.written += int64(len(data))
	select {
	case u.free <- data:
	default: // the mode's own write took no buffer
	}
	return true
}

// readChunkFrom fills a buffer. The memory grows with what comes: most files are small.
func readChunkFrom(r io.Reader, buf []byte) ([]byte, error) {
	if cap(buf) < transferChunk {
		buf = make([]byte, 0, 16<<10)
	}
	buf = buf[:0]
	for idle := 0; ; {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err != nil:
			return buf, err
		case n == 0:
			if idle++; idle == 100 {
				return buf, io.ErrNoProgress
			}
			continue
		}
		idle = 0
		if len(buf) == transferChunk {
			return buf, nil
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(8*cap(buf), transferChunk)), buf...)
		}
	}
}

// writeWhole is WriteFileFrom for protocol 1.0.
func (c *Client) writeWhole(ctx context.Context, path string, r io.Reader, mode uint32) (int64, error) {
	if mode != 0 && mode != defaultFileMode {
		return 0, fmt.Errorf("%s: %w: a mode of %#o", MethodWriteFile, ErrUnsupported, mode)
	}
	content, err := io.ReadAll(io.LimitReader(r, DefaultMaxFrame+1))
	if err != nil {
		return 0, fmt.Errorf("%s: read the content: %w", MethodWriteFile, err)
	}
	if len(content) > DefaultMaxFrame {
		return 0, fmt.Errorf("%s: %w: content above %d bytes", MethodWriteFile, ErrUnsupported, DefaultMaxFrame)
	}
	if err := c.WriteFile(ctx, path, string(content)); err != nil {
		return 0, err
	}
	return int64(len(content)), nil
}
