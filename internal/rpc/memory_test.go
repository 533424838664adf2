package rpc_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"airlock/internal/rpc"
)

func TestLargeFramesShareMemory(t *testing.T) {
	mem := rpc.NewMemory(8 << 20)
	open := func() (net.Conn, *bufio.Reader) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = rpc.Serve(context.Background(), far, standard(), &rpc.ServerOptions{Memory: mem})
		}()
		t.Cleanup(func() { _ = near.Close(); <-done })
		return near, bufio.NewReader(near)
	}
	ping := func(conn net.Conn, r *bufio.Reader, size int) string {
		go func() {
			_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":"`+strings.Repeat("a", size)+`"}}`+"\n")
		}()
		line, _ := r.ReadString('\n')
		return line
	}
	// A client that stalls in the middle of a large frame holds its part of the memory.
	stalled, _ := open()
	if _, err := io.WriteString(stalled, `{"x":"`+strings.Repeat("a", 5<<20)); err != nil {
		t.Fatal(err)
	}
	second, r := open()
	if got := ping(second, r, 4<<20); !strings.Contains(got, "-32000") || !strings.Contains(got, "memory for large frames") {
		t.Errorf("a large frame without memory was answered %.200s", got)
	}
	third, r3 := open()
	if got := ping(third, r3, 1000); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("a small frame was answered %.200s", got)
	}
	_ = stalled.Close()
	deadline := time.Now().Add(patience)
	for had := 0; had < 20; { // what was given back can be had again and again
		conn, rr := open()
		got := ping(conn, rr, 3<<20)
		_ = conn.Close()
		switch {
		case strings.Contains(got, `"id":1,"result"`):
			had++
		case !strings.Contains(got, "-32000"): // who went before may take a moment to be seen as gone
			t.Fatalf("a large frame was answered %.200s", got)
		case time.Now().After(deadline):
			t.Fatalf("memory was not given back: %.200s", got)
		}
	}
}
