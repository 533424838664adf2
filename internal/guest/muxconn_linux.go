package guest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/mux"
)

// A muxSource is any number of connections over the standard input and output.
type muxSource struct {
	conn *stdioConn
	log  *slog.Logger
}

func openMux(stdin io.Reader, stdout io.Writer, log *slog.Logger) (source, error) {
	conn, err := openStdioConn(stdin, stdout)
	if err != nil {
		return nil, err
	}
	if f, ok := conn.Reader.(*os.File); ok {
		conn.Reader = tried{f}
	}
	if f, ok := conn.Writer.(*os.File); ok {
		conn.Writer = tried{f}
	}
	return &muxSource{conn: conn, log: log}, nil
}

// serve implements source. SIGUSR2 does no harm at any time: it has reads and writes tried again, for
// a host that has put other pipes in the place of those that they wait for.
func (m *muxSource) serve(ctx context.Context, a *Agent) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, unix.SIGUSR2)
	defer signal.Stop(again)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-again:
				m.tryAgain()
			case <-over:
				return
			}
		}
	}()
	return mux.Serve(ctx, m.conn, func(conn *mux.Conn) {
		err := a.Serve(ctx, conn)
		if err != nil && ctx.Err() == nil && !conn.Cut() {
			m.log.WarnContext(ctx, "connection ended", "error", err)
		}
	})
}

func (m *muxSource) tryAgain() {
	if f, ok := m.conn.Reader.(tried); ok {
		f.SetReadDeadline(past)
	}
	if f, ok := m.conn.Writer.(tried); ok {
		f.SetWriteDeadline(past)
	}
}

// Close implements source.
func (m *muxSource) Close() error { return m.conn.Close() }

// A tried is a file whose deadlines mean that what waits is to be tried again.
type tried struct{ *os.File }

func (f tried) Read(p []byte) (int, error) {
	for {
		n, err := f.File.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		f.SetReadDeadline(time.Time{})
	}
}

func (f tried) Write(p []byte) (int, error) {
	sent := 0
	for {
		n, err := f.File.Write(p[sent:])
		sent += n
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return sent, err
		}
		f.SetWriteDeadline(time.Time{})
	}
}
