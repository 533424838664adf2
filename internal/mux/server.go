package mux

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Serve takes the connections that come over rw and calls handle with each, in a goroutine of its own;
// handle closes it. A host's greeting is taken at any time, with what came before it cut off.
// Serve returns at the end of the stream, with no error, or when ctx ends, with its error. It
// closes rw, whose Close must end a Read and a Write that block, and waits for every handle.
func Serve(ctx context.Context, rw io.ReadWriteCloser, handle func(*Conn)) error {
	var once sync.Once
	closeAll := func() { once.Do(func() { _ = rw.Close() }) }
	defer context.AfterFunc(ctx, closeAll)()
	v := &server{rw: rw, in: newWire(rw), handle: handle}
	var err error
	for err == nil {
		err = v.host()
	}
	closeAll()
	v.handling.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

type server struct {
	rw       io.ReadWriteCloser
	in       *wire
	handle   func(*Conn)
	handling sync.WaitGroup
}

// host serves one host, from its greeting until another comes. The error is the stream's.
func (v *server) host() error {
	if err := v.greet(); err != nil {
		return err
	}
	s := newSession(v.in, v.rw, func(c *Conn) {
		v.handling.Go(func() { v.handle(c) })
	})
	err := s.read()
	// The writing goroutine may sit in a write. Another host takes all that comes, up to the
	// answer to its greeting, so it ends; at the end of the stream it need not.
	if err != nil {
		_ = v.rw.Close()
	}
	s.writing.Wait()
	return err
}

// greet waits for a host.
func (v *server) greet() error {
	nonce := ""
	for {
		word, got, err := v.in.greeting()
		switch {
		case err != nil:
			return err
		case word == start && got == nonce:
			return nil
		case word != "" || got == nonce:
			continue // another host's, or said again
		}
		nonce = got
		if _, err := io.WriteString(v.rw, magic+ok+nonce+"\n"); err != nil {
			return err
		}
	}
}
