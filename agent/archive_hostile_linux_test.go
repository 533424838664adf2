package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"airlock/agent"
	"airlock/internal/guest/guesttest"
)

// answering makes connections to somebody who answers each first line with text and goes away.
func answering(text string) agent.Connector {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			in := bufio.NewReader(far)
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, in) }()
			_, _ = io.WriteString(far, text)
		}()
		return near, nil
	}
}

func TestAGuestThatDoesNotKeepToTheProtocol(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	for name, test := range map[string]struct {
		answer string
		want   error
	}{
		"that is too old":              {`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: pack"}}` + "\n", agent.ErrUnsupported},
		"that goes away":               {"", agent.ErrConnectionLost},
		"that goes away in its answer": {ok[:20], agent.ErrConnectionLost},
		"that answers something else":  {`{"jsonrpc":"2.0","id":2,"result":{}}` + "\n", agent.ErrJSON},
		"that answers no JSON":         {"OK 1\n", agent.ErrJSON},
		"that answers nothing":         {`{"jsonrpc":"2.0","id":1}` + "\n", agent.ErrMissingResult},
		"that never ends its line":     {strings.Repeat(" ", 1<<20), agent.ErrJSON},
		"that sends no tar":            {ok, io.ErrUnexpectedEOF},
		"that sends half a header":     {ok + strings.Repeat("x", 300), io.ErrUnexpectedEOF},
		"that sends something else":    {ok + strings.Repeat("x", 30_000), io.ErrUnexpectedEOF},
		"that sends one empty block":   {ok + strings.Repeat("\x00", 512), io.ErrUnexpectedEOF},
		"that sends an empty tar":      {ok + strings.Repeat("\x00", 1024), nil},
		"that sends more than a tar":   {ok + strings.Repeat("\x00", 1024) + "more", nil},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := answering(test.answer)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			archive, err := agent.Pack(t.Context(), conn, agent.PackParams{Path: "/"})
			if err == nil {
				defer archive.Close()
				var n int64
				n, err = io.Copy(io.Discard, archive)
				if test.want == nil && n != 1024 {
					t.Errorf("read %d bytes", n)
				}
			}
			if !errors.Is(err, test.want) {
				t.Errorf("err = %v, want %v", err, test.want)
			}
		})
	}
}

func TestThereIsALimitToArchives(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	begin := func() error {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		begun := make(chan struct{})
		ended := make(chan error, 1)
		waiting.Go(func() {
			_, err := agent.Unpack(ctx, conn, agent.UnpackParams{Path: dir}, &silent{ctx, begun})
			ended <- err
		})
		select {
		case <-begun:
			return nil
		case err := <-ended:
			return err
		}
	}
	for i := range 32 {
		if err := begin(); err != nil {
			t.Fatalf("archive %d: %v", i, err)
		}
	}
	if err := begin(); err == nil || !strings.Contains(err.Error(), "32 archives are under way already") {
		t.Errorf("one more: err = %v", err)
	}
}

// silent says when it is read from, and then nothing until its context ends.
type silent struct {
	ctx   context.Context //nolint:containedctx // a Read takes none
	begun chan struct{}
}

func (s *silent) Read([]byte) (int, error) {
	close(s.begun)
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// FuzzStreamAnswer answers pack with anything.
func FuzzStreamAnswer(f *testing.F) {
	const ok = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	f.Add([]byte(ok + strings.Repeat("\x00", 1024)))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no \u001b"}}` + "\n"))
	f.Add(append([]byte(ok), tars(f)["a note"]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := answering(string(data))(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		archive, err := agent.Pack(t.Context(), conn, agent.PackParams{Path: "/"})
		if err != nil {
			if archive != nil {
				t.Fatal("an archive and an error")
			}
			return
		}
		defer archive.Close()
		var out bytes.Buffer
		if _, err := io.Copy(&out, archive); err == nil {
			if used, whole := agent.TarEnd(out.Bytes()); !whole || used != out.Len() {
				t.Fatalf("%d bytes that are no whole tar", out.Len())
			}
		}
		archive.Skipped()
	})
}
