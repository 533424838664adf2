package agent_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/guest/guesttest"
	"airlock/internal/mux"
)

// makeTree makes a folder with something of every kind in it.
func makeTree(t testing.TB, root string) {
	t.Helper()
	old := time.Date(2001, 2, 3, 4, 5, 6, 700, time.UTC)
	err := errors.Join(
		os.MkdirAll(filepath.Join(root, "deep/er"), 0o755),
		os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o640),
		os.WriteFile(filepath.Join(root, "empty"), nil, 0o644),
		os.WriteFile(filepath.Join(root, "deep/er/large"), bytes.Repeat([]byte("0123456789abcdef"), 100_000), 0o600),
		os.WriteFile(filepath.Join(root, "deep/run"), []byte("#!/bin/sh\n"), 0o755),
		os.Symlink("/etc/passwd", filepath.Join(root, "absolute")),
		os.Symlink("deep/run", filepath.Join(root, "relative")),
		os.Symlink("nowhere", filepath.Join(root, "dangling")),
		os.Link(filepath.Join(root, "file"), filepath.Join(root, "deep/another")),
		os.WriteFile(filepath.Join(root, "not \xff UTF-8\n"), []byte("x"), 0o644),
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o620),
		os.Chmod(filepath.Join(root, "deep/run"), 0o755|fs.ModeSetuid),
		os.Chtimes(filepath.Join(root, "deep/run"), old, old),
		os.Chtimes(filepath.Join(root, "deep"), old, old),
		os.Chmod(filepath.Join(root, "deep"), 0o555),
	)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "deep"), 0o755) })
	if err != nil {
		t.Fatal(err)
	}
}

// listing says what is below root, a line an entry, without its own name.
func listing(t testing.TB, root string) string {
	t.Helper()
	var out strings.Builder
	inodes := map[uint64]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		fmt.Fprintf(&out, "%q %o %d.%d", rel, st.Mode, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %d bytes %.20q", len(data), data)
			if first, ok := inodes[st.Ino]; ok {
				fmt.Fprintf(&out, " is %s", first)
			}
			inodes[st.Ino] = rel
		case unix.S_IFLNK:
			text, _ := os.Readlink(path)
			fmt.Fprintf(&out, " to %q", text)
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// pipeConnector makes connections that cannot be closed one way, to a guest agent of its own.
func pipeConnector(t testing.TB) agent.Connector {
	t.Helper()
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		g.Close()
		serving.Wait()
	})
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		serving.Go(func() { _ = g.Serve(context.Background(), far) })
		return near, nil
	}
}

// muxConnector makes connections over one pair of pipes to a guest agent of its own.
func muxConnector(t testing.TB) agent.Connector {
	t.Helper()
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = mux.Serve(context.Background(), far, func(conn *mux.Conn) { _ = g.Serve(context.Background(), conn) })
	})
	session, err := mux.Dial(t.Context(), near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		g.Close()
		serving.Wait()
	})
	return func(ctx context.Context) (net.Conn, error) { return session.Open(ctx) }
}

func TestAFolderComesOutAndGoesInAsItIs(t *testing.T) {
	for name, connect := range map[string]agent.Connector{
		"over one of many connections on one stream": muxConnector(t),
		"over a socket": guesttest.Connector(t, nil),
		"over what cannot say that no more comes": pipeConnector(t),
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "tree"), t.TempDir()
			makeTree(t, from)
			in, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			archive, err := agent.Pack(t.Context(), in, agent.PackParams{Path: from})
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			out, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			res, err := agent.Unpack(t.Context(), out, agent.UnpackParams{Path: to}, archive)
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "tree/deep"), 0o755) })
			if err != nil || res.Entries != 13 || res.Bytes != 1_600_018 {
				t.Fatalf("Unpack: %+v, %v", res, err)
			}
			if got, want := listing(t, filepath.Join(to, "tree")), listing(t, from); got != want {
				t.Errorf("in:\n%sout:\n%s", got, want)
			}
		})
	}
}

func TestWhatAnArchiveLeavesOutIsNamed(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	dir := t.TempDir()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := agent.Pack(t.Context(), conn, agent.PackParams{Path: dir + "/."})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := io.Copy(io.Discard, archive); err != nil {
		t.Fatal(err)
	}
	if names := archive.Skipped(); len(names) != 1 || names[0] != "./socket" {
		t.Errorf("Skipped: %q", names)
	}
}

func TestATarThatIsCutOffLeavesNoHalfFile(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	var whole bytes.Buffer
	w := tar.NewWriter(&whole)
	body := bytes.Repeat([]byte("x"), 10_000)
	for _, name := range []string{"first", "second"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{0, 1, 511, 512, 700, whole.Len()/2 - 600, whole.Len()/2 + 700, whole.Len() - 1024, whole.Len() - 512, whole.Len() - 1} {
		t.Run(fmt.Sprintf("after %d bytes", length), func(t *testing.T) {
			dir := t.TempDir()
			conn, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.Unpack(t.Context(), conn, agent.UnpackParams{Path: dir}, bytes.NewReader(whole.Bytes()[:length]))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("Unpack: err = %v, want %v", err, io.ErrUnexpectedEOF)
			}
			eventually(t, func() bool { return wholeFilesOnly(t, dir, int64(len(body))) })
		})
	}
}

// eventually waits for what the guest does when a connection has gone.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
		time.Sleep(time.Millisecond)
	}
}

func wholeFilesOnly(t testing.TB, dir string, size int64) bool {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if st, err := name.Info(); err != nil || st.Size() != size {
			return false
		}
	}
	return true
}

// endless is a tar that never ends, with a first entry that no guest takes.
type endless struct{ head io.Reader }

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); err == nil {
		return n, nil
	}
	clear(p)
	return len(p), nil
}

func TestAGuestThatTakesNoMoreSaysWhy(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../out\x1b[2J", Size: 1 << 50}); err != nil {
		t.Fatal(err)
	}
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	res, err := agent.Unpack(t.Context(), conn, agent.UnpackParams{Path: dir}, &endless{&head})
	if err == nil || !strings.Contains(err.Error(), "no name below the folder") || strings.Contains(err.Error(), "\x1b") || res.Error == "" {
		t.Errorf("Unpack: %+v, %v", res, err)
	}
}

func TestAnUnpackEndsWithItsContextAlsoWhereNothingComes(t *testing.T) {
	connect := guesttest.Connector(t, nil)
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "half", Size: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	go func() {
		_, _ = w.Write(append(head.Bytes(), make([]byte, 1<<20)...))
		for {
			if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := agent.Unpack(ctx, conn, agent.UnpackParams{Path: dir}, r); !errors.Is(err, context.Canceled) {
		t.Errorf("Unpack: err = %v, want %v", err, context.Canceled)
	}
	eventually(t, func() bool { return wholeFilesOnly(t, dir, 1<<30) })
}

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
