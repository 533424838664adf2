package agent_test

import (
	"archive/tar"
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
			t.Cleanup(func() { // once the guest has ended, so that it has done all that it will
				if !wholeFilesOnly(t, dir, int64(len(body))) {
					t.Error("half a file is left")
				}
			})
			connect := guesttest.Connector(t, nil)
			conn, err := connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.Unpack(t.Context(), conn, agent.UnpackParams{Path: dir}, bytes.NewReader(whole.Bytes()[:length]))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("Unpack: err = %v, want %v", err, io.ErrUnexpectedEOF)
			}
		})
	}
}

// eventually waits for what the guest does when a connection has gone.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
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
	dir := t.TempDir() // removed once the guest has ended
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
	res, err := agent.Unpack(t.Context(), conn, agent.UnpackParams{Path: dir}, &endless{&head})
	if err == nil || !strings.Contains(err.Error(), "no name below the folder") || strings.Contains(err.Error(), "\x1b") || res.Error == "" {
		t.Errorf("Unpack: %+v, %v", res, err)
	}
}

func TestAnUnpackEndsWithItsContextAlsoWhereNothingComes(t *testing.T) {
	dir := t.TempDir() // removed once the guest has ended
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
