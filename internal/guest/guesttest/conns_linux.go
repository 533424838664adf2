package guesttest

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"airlock/internal/guest"
)

// Connector makes fresh connections, over a Unix socket, to a guest agent of its own, which ends
// with the test and with all that it runs. opts may be nil.
func Connector(t testing.TB, opts *guest.Options) func(ctx context.Context) (net.Conn, error) {
	t.Helper()
	g, err := guest.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _ = g.Serve(context.Background(), conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.Close()
		serving.Wait()
	})
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}
