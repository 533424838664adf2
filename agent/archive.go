package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// PackNotes begins the names of records in global headers with which a tar of pack's says by itself what it lacks:
// "AIRLOCK.skipped" and "AIRLOCK.error".
const PackNotes = "AIRLOCK."

// An Archive is a tar on its way from a guest. It is not safe for concurrent use.
type Archive struct {
	conn  net.Conn
	tar   *follower
	close func() error
	cause func() error // why the connection was closed under it
	err   error
}

// Pack has a guest send a tar, on conn, a fresh connection that nothing was said on, and owns conn from now on. The tar
// is as PackParams say. ctx ends the reading, too. A guest without CapArchives is ErrUnsupported.
func Pack(ctx context.Context, conn net.Conn, params PackParams) (*Archive, error) {
	conn, err := stream(ctx, conn, MethodPack, params, nil)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	closed := sync.OnceValue(func() error {
		stop()
		return conn.Close()
	})
	return &Archive{conn: conn, tar: newFollower(), close: closed, cause: ctx.Err}, nil
}

// Read reads the tar. io.EOF is its end; a tar that is cut off ends with another error, which says why where the
// guest did.
func (a *Archive) Read(p []byte) (int, error) {
	if a.err != nil || len(p) == 0 {
		return 0, a.err
	}
	n, err := a.conn.Read(p)
	n = a.tar.feed(p[:n])
	switch {
	case a.tar.done:
		a.err = io.EOF
	case err != nil:
		a.err = a.early(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, a.err
}

// early is why a tar has no end.
func (a *Archive) early(err error) error {
	why := a.tar.notes["error"]
	switch {
	case a.cause() != nil:
		return fmt.Errorf("%s: %w", MethodPack, a.cause())
	case why != "":
		return fmt.Errorf("%s: %s", MethodPack, printable([]byte(why)))
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the tar is cut off: %w", MethodPack, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s: %w: %w", MethodPack, ErrConnectionLost, err)
}

// Skipped names what the guest left out, and why where that is not its kind. It is known when the tar has ended. The names are
// the guest's words.
func (a *Archive) Skipped() []string {
	var names []string
	if json.Unmarshal([]byte(a.tar.notes["skipped"]), &names) != nil {
		return nil
	}
	return names
}

// Close ends the connection. It may be called more than once, and while Read waits.
func (a *Archive) Close() error { return a.close() }

// Unpack has a guest take the tar r, on conn, a fresh connection that nothing was said on, and owns conn from now on. r is
// read up to the tar's end and little further; whoever writes it may want the rest to be read. A tar that is cut off
// is an error, and so is UnpackResult.Error; the result then says how far it came. When ctx ends, or the
// guest takes no more, Unpack returns, although a Read of r may go on until it brings something. A guest without
// CapArchives is ErrUnsupported.
func Unpack(ctx context.Context, conn net.Conn, params UnpackParams, r io.Reader) (UnpackResult, error) {
	return unpackTo(ctx, conn, params, false, func(w io.Writer) error { return forward(w, r) })
}

// forward copies one tar.
func forward(w io.Writer, r io.Reader) error {
	tar := newFollower()
	buf := make([]byte, 128<<10)
	for {
		n, err := r.Read(buf)
		used := tar.feed(buf[:n])
		if used > 0 {
			if _, err := w.Write(buf[:used]); err != nil {
				return err
			}
		}
		switch {
		case tar.done:
			return nil
		case err == io.EOF:
			return fmt.Errorf("the tar is cut off: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return err
		}
	}
}

// unpackTo opens a stream for a tar, which send writes, and returns the guest's answer; wait says that send ends soon
// when it cannot write any more, and is waited for.
func unpackTo(ctx context.Context, conn net.Conn, params UnpackParams, wait bool, send func(w io.Writer) error) (res UnpackResult, err error) {
	conn, err = stream(ctx, conn, MethodUnpack, params, nil)
	if err != nil {
		return res, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	out := &sink{w: conn}
	var sending, reading sync.WaitGroup
	sent := make(chan error, 1)
	sending.Go(func() { sent <- send(out) })
	answered := make(chan error, 1)
	reading.Go(func() { answered <- readResult(conn, &res) })

	select {
	case err = <-answered:
		conn.Close()
		if wait {
			sending.Wait()
		}
	case err = <-sent:
		if err != nil && out.err == nil {
			// The tar is not complete, and never will be: the guest sees so at the connection's end.
			conn.Close()
			reading.Wait()
			res = UnpackResult{}
			break
		}
		err = <-answered // also when it was not taken: the answer says why
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && res.Error != "":
		err = errors.New(printable([]byte(res.Error)))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", MethodUnpack, err)
	}
	return res, err
}

// A sink knows that it was the connection that failed, and not who wrote to it.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// readResult reads the line that ends unpack.
func readResult(conn net.Conn, res *UnpackResult) error {
	line, err := readLine(bufio.NewReader(conn), maxStreamAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, res); err != nil {
		return fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return nil
}
