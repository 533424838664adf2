package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// side makes one end of a control socket.
func side(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.UnixConn)
}

func TestAReplyThatNobodyWaitsForAnyMoreIsNoOthers(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	keeper := side(t, pair[1])
	b := &box{control: side(t, pair[0]), replies: make(chan reply, 3), heard: make(chan struct{})}
	go b.listen()
	t.Cleanup(func() {
		_ = keeper.Close()
		<-b.heard
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := b.call(ctx, request{Op: opUpper}); !errors.Is(err, context.Canceled) {
			t.Fatalf("call: err = %v, want %v", err, context.Canceled)
		}
	}
	for _, text := range []string{"of the first", "of the second", ""} {
		data, err := json.Marshal(reply{Error: text})
		if err == nil {
			_, err = keeper.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.call(t.Context(), request{Op: opUpper}); err != nil {
		t.Errorf("call: err = %v, want what was said to this one", err)
	}
}
