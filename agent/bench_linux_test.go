package agent_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"airlock/agent"
	"airlock/internal/guest"
)

// sockets returns the ends of a Unix socket connection.
func sockets(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// guestOn serves the real guest agent on conn until the test ends.
func guestOn(t testing.TB, conn io.ReadWriteCloser) {
	t.Helper()
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(t.Context(), conn)
	}()
	t.Cleanup(func() {
		_ = g.Close()
		<-done
	})
}

// guestClient is a Client of the real guest agent.
func guestClient(t testing.TB, opts *agent.Options) *agent.Client {
	t.Helper()
	near, far := sockets(t)
	guestOn(t, far)
	c := agent.NewClient(near, opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// BenchmarkEcho is the floor for BenchmarkPing: a line there and back.
func BenchmarkEcho(b *testing.B) {
	near, far := sockets(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := bufio.NewReader(far)
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if _, err := far.Write(line); err != nil {
				return
			}
		}
	}()
	in := bufio.NewReader(near)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}` + "\n")
	for b.Loop() {
		if _, err := near.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	_ = near.Close()
	<-done
	_ = far.Close()
}

func BenchmarkPing(b *testing.B) {
	c := guestClient(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

const benchFile = 256 << 20

func BenchmarkReadFileTo(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, benchFile), 0o600); err != nil {
		b.Fatal(err)
	}
	c := guestClient(b, nil)
	b.SetBytes(benchFile)
	for b.Loop() {
		if n, err := c.ReadFileTo(b.Context(), path, io.Discard); err != nil || n != benchFile {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkWriteFileFrom(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	c := guestClient(b, nil)
	content := make([]byte, benchFile)
	b.SetBytes(benchFile)
	for b.Loop() {
		if n, err := c.WriteFileFrom(b.Context(), path, bytes.NewReader(content), 0o600); err != nil || n != benchFile {
			b.Fatal(n, err)
		}
	}
}
