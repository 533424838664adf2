package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/internal/rpc"
)

// tick is a decoded notification of the method count.
type tick struct {
	ID uint64
	N  int
}

func decodeTick(method string, params json.RawMessage, _ []byte) (uint64, any, error) {
	var t tick
	if err := json.Unmarshal(params, &t); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", method, err)
	}
	return t.ID, t, nil
}

// dial makes a Client of a connection to a server.
func dial(t testing.TB, near, far net.Conn) *rpc.Client {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- rpc.Serve(context.Background(), far, standard(), &rpc.ServerOptions{Inline: inline}) }()
	c := rpc.NewClient(near, &rpc.ClientOptions{Notification: decodeTick})
	t.Cleanup(func() {
		_ = c.Close()
		// What the server still had to say to a call that was given up meets a client that has gone.
		if err := <-done; err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// ticks makes a streaming call and returns how many notifications came, in order.
func ticks(ctx context.Context, c *rpc.Client) (int, error) {
	notes := make(chan any, 1)
	answered := make(chan struct{})
	counted := make(chan int)
	go func() {
		n := 0
		take := func(v any) {
			if v.(tick).N == n {
				n++
			}
		}
		for {
			select {
			case v := <-notes:
				take(v)
				continue
			case <-answered:
			}
			select {
			case v := <-notes:
				take(v)
			default:
			}
			counted <- n
			return
		}
	}()
	_, err := c.Do(ctx, rpc.Call{Method: "count", Notes: notes})
	close(answered)
	return <-counted, err
}

// TestStreamsAreWholeWhateverElseHappens mixes streams, calls, and calls whose contexts
// end at any moment, over connections that block early and late.
func TestStreamsAreWholeWhateverElseHappens(t *testing.T) {
	kinds := map[string]func(t *testing.T) (near, far net.Conn){
		"over a Unix socket": func(t *testing.T) (net.Conn, net.Conn) { return pair(t) },
		"over a pipe":        func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() },
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			near, far := kind(t)
			c := dial(t, near, far)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 20 {
						if n, err := ticks(t.Context(), c); n != 100 || err != nil {
							t.Errorf("a stream: %d of 100 notifications, %v", n, err)
						}
					}
				})
				wg.Go(func() {
					for range 100 {
						if _, err := c.Do(t.Context(), rpc.Call{Method: "ping", Timeout: time.Minute}); err != nil {
							t.Errorf("ping: %v", err)
						}
					}
				})
				wg.Go(func() {
					for range 100 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
						var err error
						if rand.IntN(2) == 0 {
							_, err = ticks(ctx, c)
						} else {
							_, err = c.Do(ctx, rpc.Call{Method: "echo", Params: []string{string(make([]byte, rand.IntN(50_000)))}})
						}
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("a call that may be cut short: %v", err)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			if _, err := c.Do(t.Context(), rpc.Call{Method: "ping"}); err != nil {
				t.Errorf("ping afterwards: %v", err)
			}
		})
	}
}

func TestPayloadsBothWays(t *testing.T) {
	near, far := pair(t)
	c := dial(t, near, far)
	if _, err := c.Do(t.Context(), rpc.Call{Method: "echo", Raw: []byte("x")}); !errors.Is(err, rpc.ErrEncode) {
		t.Errorf("a payload that was not agreed: %v, want %v", err, rpc.ErrEncode)
	}
	if _, err := c.Do(t.Context(), rpc.Call{Method: "allow"}); err != nil {
		t.Fatal(err)
	}
	c.AllowRaw()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			payload := make([]byte, i*300_000)
			for j := range payload {
				payload[j] = byte(i + j)
			}
			into := make([]byte, 1<<20)
			res, err := c.Do(t.Context(), rpc.Call{Method: "echo", Raw: payload, Into: into})
			if err != nil || string(res.Raw) != string(payload) {
				t.Errorf("payload %d: %d bytes, %v", i, len(res.Raw), err)
			}
			if len(payload) > 0 && len(payload) < len(into) && &res.Raw[0] != &into[0] {
				t.Errorf("payload %d went elsewhere", i)
			}
		})
	}
	wg.Wait()
	c.LimitFrames(1000)
	if _, err := c.Do(t.Context(), rpc.Call{Method: "echo", Raw: make([]byte, 1001)}); !errors.Is(err, rpc.ErrEncode) {
		t.Errorf("a payload above the limit: %v, want %v", err, rpc.ErrEncode)
	}
}

// FuzzClient lets a hostile server answer a call with anything.
func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"tick","params":{"id":1,"n":0},"raw":3}` + "\nabc" + `{"jsonrpc":"2.0","id":1,"result":{},"raw":2}` + "\nab"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}` + "\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.ReadFull(far, make([]byte, len(`{"jsonrpc":"2.0","id":1,"method":"x"}`)+1))
			_, _ = far.Write(answer)
			_ = far.Close()
		}()
		c := rpc.NewClient(near, &rpc.ClientOptions{MaxFrame: 1 << 16, Notification: decodeTick})
		c.AllowRaw()
		notes := make(chan any, 1)
		go func() {
			for range notes {
			}
		}()
		res, err := c.Do(context.Background(), rpc.Call{Method: "x", Notes: notes})
		if err == nil && !json.Valid(res.Result) {
			t.Errorf("result = %q", res.Result)
		}
		_ = c.Close()
		close(notes)
		<-done
	})
}
