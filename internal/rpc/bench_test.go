package rpc_test

import (
	"bufio"
	"context"
	"testing"
	"time"

	"airlock/internal/rpc"
)

// BenchmarkEcho is the floor: a line there and back over the same kind of socket.
func BenchmarkEcho(b *testing.B) {
	near, far := pair(b)
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

// BenchmarkPing is a call through Client and Serve, with a limit as agent sets it.
func BenchmarkPing(b *testing.B) {
	near, far := pair(b)
	done := make(chan error, 1)
	go func() { done <- rpc.Serve(context.Background(), far, standard(), &rpc.ServerOptions{Inline: inline}) }()
	c := rpc.NewClient(near, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(b.Context(), rpc.Call{Method: "ping", Timeout: 30 * time.Second}); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	if err := <-done; err != nil {
		b.Errorf("Serve: %v", err)
	}
}
