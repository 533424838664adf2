package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	firstTry     = 500 * time.Millisecond // for an attempt's answer; doubled when it passes
	maxHandshake = 128                    // bytes of a handshake's answer
)

// Connect connects to the guest agent behind the Unix socket at path, trying again until
// it answers or Options.ConnectTimeout has passed; then the error is a *TimeoutError. The
// socket may be a host's that forwards vsock (Firecracker's v.sock), so each attempt
// begins with the handshake, unless Options say otherwise.
func Connect(ctx context.Context, path string, opts *Options) (*Client, error) {
	o := opts.withDefaults()
	start := time.Now()
	o.Logger.DebugContext(ctx, "connecting to the guest agent", "path", path)
	limited, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	var last error
	try := firstTry
	for attempt := 1; ; attempt++ {
		conn, err := connectOnce(limited, path, &o, try)
		if err == nil {
			o.Logger.InfoContext(ctx, "connected to the guest agent", "elapsed", time.Since(start), "attempts", attempt)
			return NewClient(conn, &o), nil
		}
		o.Logger.Log(ctx, LevelTrace, "connection attempt failed", "attempt", attempt, "error", err)
		if limited.Err() == nil || last == nil {
			last = err // an attempt that the end cut short says less than the one before
		}
		if errors.Is(err, context.DeadlineExceeded) {
			try *= 2
		}
		wait := time.NewTimer(o.RetryInterval)
		select {
		case <-wait.C:
			continue
		case <-limited.Done():
			wait.Stop()
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to the guest agent at %s: %w (last attempt: %w)", path, ctx.Err(), last)
		}
		o.Logger.WarnContext(ctx, "the guest agent did not answer", "elapsed", time.Since(start), "attempts", attempt)
		return nil, &TimeoutError{After: o.ConnectTimeout, Last: last}
	}
}

// connectOnce makes one attempt.
func connectOnce(ctx context.Context, path string, o *Options, try time.Duration) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	conn, err := dial(ctx, path, o)
	if err != nil {
		return nil, &connectError{"socket connect failed", err}
	}
	if o.NoHandshake {
		return conn, nil
	}
	if err := Handshake(ctx, conn, o.Port); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func dial(ctx context.Context, path string, o *Options) (io.ReadWriteCloser, error) {
	if o.Dial != nil {
		return o.Dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// Handshake says "CONNECT <port>" on a fresh connection and takes "OK <port>" for an
// answer, whatever that port is: Firecracker's is one of the host's. It reads no byte beyond
// the answer. When ctx ends first, conn is closed; after any error it is of no use. The
// errors wrap ErrConnection.
func Handshake(ctx context.Context, conn io.ReadWriteCloser, port uint32) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = conn.Close()
	})
	err := handshake(conn, port)
	if !stop() {
		<-closed
		if err == nil {
			err = &connectError{"handshake failed", ctx.Err()}
		} else {
			err = fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
	return err
}

func handshake(conn io.ReadWriter, port uint32) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %d\n", port); err != nil {
		return &connectError{"handshake write failed", err}
	}
	answer := make([]byte, 0, maxHandshake)
	for len(answer) == 0 || answer[len(answer)-1] != '\n' {
		if len(answer) == maxHandshake {
			return &connectError{"handshake failed", errors.New(printable(answer) + "…")}
		}
		n, err := conn.Read(answer[len(answer) : len(answer)+1])
		answer = answer[:len(answer)+n]
		if n == 0 && err != nil {
			if len(answer) > 0 {
				return &connectError{"handshake failed", fmt.Errorf("%s: %w", printable(answer), err)}
			}
			return &connectError{"handshake failed", fmt.Errorf("no answer: %w", err)}
		}
	}
	text := strings.TrimRight(string(answer), "\r\n")
	if !isOK(text) {
		return &connectError{"handshake failed", errors.New(printable([]byte(text)))}
	}
	return nil
}

// isOK reports whether text is "OK" and a port.
func isOK(text string) bool {
	port, ok := strings.CutPrefix(text, "OK ")
	return ok && port != "" && strings.Trim(port, "0123456789") == ""
}

// printable is what the other end said, fit for an error message.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, strings.TrimRight(string(b), "\r\n"))
}
