// Package guesttest gives tests a real guest agent, in their own process.
package guesttest

import (
	"context"
	"net"
	"sync"
	"testing"

	"airlock/agent"
	"airlock/internal/guest"
)

// Client speaks to a guest agent of its own, which ends with the test and with all that it
// runs.
func Client(t testing.TB) *agent.Client {
	t.Helper()
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(context.Background(), far) })
	client := agent.NewClient(near, nil)
	t.Cleanup(func() {
		client.Close()
		g.Close()
		serving.Wait()
	})
	return client
}
