package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"
)

const (
	maxConns    = 64                     // connections at the same time
	acceptPause = 100 * time.Millisecond // after an accept that failed, before the next
	socketMask  = 0o177                  // a socket's file has mode 0600
	dialTimeout = time.Second            // for asking whether a socket is alive
	maxUnixPath = 107                    // of a Unix socket's address
)

// A source is where connections come from.
type source interface {
	// serve serves connections until ctx ends or there are no more, and waits for them.
	serve(ctx context.Context, a *Agent) error
	io.Closer
}

// A listener is a source of any number of connections.
type listener struct {
	net.Listener
	log   *slog.Logger
	admit func(net.Conn) error // nil admits all
	clean func()               // after the end; nil: nothing
}

// listen opens unix:PATH or vsock:PORT.
func listen(where string, log *slog.Logger) (source, error) {
	kind, at, _ := strings.Cut(where, ":")
	switch {
	case kind == "unix" && at != "":
		l, clean, err := listenUnix(at)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", where, err)
		}
		return &listener{Listener: l, log: log, clean: clean}, nil
	case kind == "vsock":
		port, err := strconv.ParseUint(at, 10, 32)
		if err != nil || port == unix.VMADDR_PORT_ANY {
			return nil, fmt.Errorf("listen on %s: %q is no port", where, at)
		}
		l, err := listenVsock(uint32(port))
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", where, err)
		}
		return &listener{Listener: l, log: log, admit: refuseLocal}, nil
	}
	return nil, fmt.Errorf("listen on %q: want vsock:PORT, unix:PATH, stdio or mux", clip(where))
}

// listenUnix binds path. A socket that nobody listens on any more is replaced; anything
// else that lies there is somebody's and is left alone.
func listenUnix(path string) (net.Listener, func(), error) {
	if len(path) > maxUnixPath {
		return nil, nil, fmt.Errorf("the path has %d bytes, and a socket's may have %d", len(path), maxUnixPath)
	}
	if err := clearStale(path); err != nil {
		return nil, nil, err
	}
	old := unix.Umask(socketMask) // the file never has another mode
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, nil, netCause(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	mine, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	clean := func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			_ = os.Remove(path) // nobody is left to tell; the next one clears it
		}
	}
	return l, clean, nil
}

func clearStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cause(err)
	}
	if st.Mode().Type() != os.ModeSocket {
		return errors.New("a file that is no socket is there already")
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(context.Background(), "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return errors.New("somebody listens there already")
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("a socket is there already: %w", netCause(err))
	}
	return os.Remove(path)
}

// netCause is the system's own error, without the words of package net.
func netCause(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	return err
}

// listenVsock listens on every context ID: a machine's changes when it is restored
// under another.
func listenVsock(port uint32) (net.Listener, error) {
	l, err := vsock.ListenContextID(unix.VMADDR_CID_ANY, port, nil)
	if err == nil {
		return l, nil
	}
	if _, missing := os.Stat("/dev/vsock"); missing != nil {
		return nil, errors.New("there is no /dev/vsock: this is no virtual machine with a vsock device, or its driver is not loaded; --listen unix:PATH works everywhere")
	}
	return nil, netCause(err)
}

// refuseLocal keeps out processes of the guest itself: over the loopback of vsock any
// user's could command the agent, which has no other way to tell them from the host.
func refuseLocal(conn net.Conn) error {
	from, ok := conn.RemoteAddr().(*vsock.Addr)
	if !ok || from.ContextID == unix.VMADDR_CID_LOCAL {
		return errors.New("it comes from this machine itself")
	}
	if own, err := vsock.ContextID(); err == nil && own == from.ContextID {
		return errors.New("it comes from this machine itself")
	}
	return nil
}

func (l *listener) serve(ctx context.Context, a *Agent) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	defer context.AfterFunc(ctx, func() { l.Listener.Close() })()
	slots := make(chan struct{}, maxConns)
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return ctx.Err()
		case err != nil:
			l.log.WarnContext(ctx, "accept failed", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		if err := l.enter(conn, slots); err != nil {
			l.log.WarnContext(ctx, "connection refused", "reason", err)
			conn.Close()
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			if err := a.Serve(ctx, conn); err != nil && ctx.Err() == nil {
				l.log.WarnContext(ctx, "connection ended", "error", err)
			}
		})
	}
}

// enter admits conn and takes a slot for it.
func (l *listener) enter(conn net.Conn, slots chan<- struct{}) error {
	if l.admit != nil {
		if err := l.admit(conn); err != nil {
			return err
		}
	}
	select {
	case slots <- struct{}{}:
		return nil
	default:
		return fmt.Errorf("there are %d connections already", maxConns)
	}
}

func (l *listener) Close() error {
	err := l.Listener.Close()
	if l.clean != nil {
		l.clean()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
