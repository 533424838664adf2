package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/guest/guesttest"
	"airlock/internal/unpack"
)

type copier func(ctx context.Context, connect agent.Connector, src, dst string, opts *agent.CopyOptions) (agent.CopyResult, error)

// copies are what a copy does, whichever way: src and dst are below a folder that has file, dir/in, other
// and full/dir/old.
var copies = map[string]struct {
	src, dst string
	want     string // a path that has src's content afterwards, or is a folder
	absent   string // a path that must not be there
	err      error
}{
	"a file to a new name":                       {src: "file", dst: "new", want: "new"},
	"a file into a folder":                       {src: "file", dst: "full", want: "full/file"},
	"a file into a folder said with a slash":     {src: "file", dst: "full/", want: "full/file"},
	"a file over a file":                         {src: "file", dst: "other", want: "other"},
	"a file over a link":                         {src: "file", dst: "link", want: "link"},
	"a file into a linked folder":                {src: "file", dst: "linked", want: "full/file"},
	"a file into a folder that is not there":     {src: "file", dst: "none/file", err: agent.ErrNoParent},
	"a file to a folder that is not there":       {src: "file", dst: "none/", err: agent.ErrNoParent},
	"a file to what is no folder":                {src: "file", dst: "other/", err: errAny},
	"a file below a file":                        {src: "file", dst: "other/new", err: errAny},
	"a file that is said to be a folder":         {src: "file/", dst: "new", err: errAny},
	"a folder to a new name":                     {src: "dir", dst: "new", want: "new/in", absent: "new/dir"},
	"a folder to a new name said with a slash":   {src: "dir", dst: "new/", want: "new/in"},
	"what is in a folder to a new name":          {src: "dir/.", dst: "new", want: "new/in"},
	"what is in a folder to a new name, slashed": {src: "dir/.", dst: "new/.", want: "new/in"},
	"a folder into a folder":                     {src: "dir", dst: "full", want: "full/dir/in"},
	"a folder said with a slash into a folder":   {src: "dir/", dst: "full", want: "full/dir/in"},
	"what is in a folder into a folder":          {src: "dir/.", dst: "full", want: "full/in", absent: "full/dir/in"},
	"a folder over a file":                       {src: "dir", dst: "other", err: agent.ErrClash},
	"a folder into a folder that is not there":   {src: "dir", dst: "none/at", err: agent.ErrNoParent},
	"a source that is not there":                 {src: "none", dst: "new", err: agent.ErrNoSource},
	"a link as it is":                            {src: "link", dst: "new", want: "new"},
	"a file to nowhere but up":                   {src: "file", dst: "none/..", err: agent.ErrNoParent},
}

var errAny = errors.New("any error")

// setUp makes the folder that copies speak of.
func setUp(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o640),
		os.WriteFile(filepath.Join(root, "other"), []byte("something else"), 0o600),
		os.Mkdir(filepath.Join(root, "dir"), 0o750),
		os.WriteFile(filepath.Join(root, "dir/in"), []byte("content"), 0o640),
		os.MkdirAll(filepath.Join(root, "full/dir"), 0o755),
		os.WriteFile(filepath.Join(root, "full/dir/old"), []byte("old"), 0o600),
		os.Symlink("file", filepath.Join(root, "link")),
		os.Symlink("full", filepath.Join(root, "linked")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestWhereACopyGoes(t *testing.T) {
	connect := agent.Connector(guesttest.Connector(t, nil))
	for direction, cp := range map[string]copier{"in": agent.CopyIn, "out": agent.CopyOut} {
		for name, test := range copies {
			t.Run(direction+"/"+name, func(t *testing.T) {
				root := setUp(t)
				before := listing(t, root)
				_, err := cp(t.Context(), connect, root+"/"+test.src, root+"/"+test.dst, nil)
				if test.err != nil {
					if err == nil || !errors.Is(test.err, errAny) && !errors.Is(err, test.err) {
						t.Errorf("err = %v, want %v", err, test.err)
					}
					if after := listing(t, root); after != before {
						t.Errorf("before:\n%safter:\n%s", before, after)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(filepath.Join(root, test.want))
				if err != nil || string(data) != "content" {
					t.Errorf("%s is %q, %v:\n%s", test.want, data, err, listing(t, root))
				}
				if old, err := os.ReadFile(filepath.Join(root, "full/dir/old")); err != nil || string(old) != "old" {
					t.Errorf("what was in the folder is %q, %v", old, err)
				}
				if test.absent != "" {
					if _, err := os.Lstat(filepath.Join(root, test.absent)); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: %v", test.absent, err)
					}
				}
			})
		}
	}
}

func TestACopyKeepsWhatATreeIs(t *testing.T) {
	connect := agent.Connector(guesttest.Connector(t, nil))
	from, inside, back := filepath.Join(t.TempDir(), "tree"), t.TempDir(), t.TempDir()
	makeTree(t, from)
	var last agent.CopyResult
	opts := &agent.CopyOptions{Progress: func(res agent.CopyResult) { last = res }}
	in, err := agent.CopyIn(t.Context(), connect, from, inside+"/copy", opts)
	t.Cleanup(func() { _ = os.Chmod(inside+"/copy/deep", 0o755) })
	if err != nil || in.Entries != 13 || last.Bytes != in.Bytes {
		t.Fatalf("CopyIn: %+v, %v; at last %+v", in, err, last)
	}
	if got, want := listing(t, inside+"/copy"), listing(t, from); got != want {
		t.Errorf("in:\n%sfrom:\n%s", got, want)
	}
	out, err := agent.CopyOut(t.Context(), connect, inside+"/copy", back, opts)
	t.Cleanup(func() { _ = os.Chmod(back+"/copy/deep", 0o755) })
	if err != nil || out.Entries != 13 || last.Bytes != out.Bytes {
		t.Fatalf("CopyOut: %+v, %v; at last %+v", out, err, last)
	}
	// Set-id bits do not come out.
	want := strings.ReplaceAll(listing(t, from), " 104755 ", " 100755 ")
	if got := listing(t, back+"/copy"); got != want {
		t.Errorf("out:\n%sfrom:\n%s", got, want)
	}
}

// lying makes connections to a guest that says that everything is a file and packs the tar.
func lying(t *testing.T, tarball []byte) agent.Connector {
	real := guesttest.Connector(t, nil)
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := real(ctx)
		if err != nil {
			return nil, err
		}
		return &liar{Conn: conn, tarball: tarball}, nil
	}
}

// A liar answers pack by itself and leaves everything else to the guest.
type liar struct {
	net.Conn
	tarball []byte
	packing io.Reader
}

func (l *liar) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"method":"pack"`)) {
		l.packing = io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"), bytes.NewReader(l.tarball))
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func (l *liar) Read(p []byte) (int, error) {
	if l.packing != nil {
		return l.packing.Read(p)
	}
	return l.Conn.Read(p)
}

func TestAGuestThatLiesWritesNowhereElse(t *testing.T) {
	reg := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4755, Size: 4}
	}
	link := func(name, text string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: text}
	}
	for name, test := range map[string]struct {
		headers []tar.Header
		dst     string
		want    error
	}{
		"with dots":                     {[]tar.Header{reg("file/../../pwned")}, "out/", unpack.ErrName},
		"with another name":             {[]tar.Header{reg("file"), reg("pwned")}, "out/", unpack.ErrName},
		"through a link":                {[]tar.Header{link("file", ".."), reg("file/pwned")}, "out/", unpack.ErrLink},
		"through a link that was there": {[]tar.Header{{Typeflag: tar.TypeDir, Name: "file", Mode: 0o755}, reg("file/up/pwned")}, "old", unpack.ErrLink},
		"with a hard link":              {[]tar.Header{{Typeflag: tar.TypeLink, Name: "file", Linkname: "../secret"}}, "out/", unpack.ErrName},
		"with the folder itself":        {[]tar.Header{{Typeflag: tar.TypeDir, Name: "./", Mode: 0o777}}, "out/", unpack.ErrName},
		"with a name of its own choice": {[]tar.Header{reg("pwned")}, "out/", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var tarball bytes.Buffer
			w := tar.NewWriter(&tarball)
			for _, h := range test.headers {
				err := w.WriteHeader(&h)
				if h.Size > 0 {
					_, err = w.Write([]byte("evil"))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			_ = w.Close()
			src, root := t.TempDir(), t.TempDir()
			err := errors.Join(
				os.WriteFile(src+"/file", []byte("s"), 0o600),
				os.WriteFile(root+"/secret", []byte("s"), 0o600),
				os.Mkdir(root+"/out", 0o700),
				os.MkdirAll(root+"/old/file", 0o700),
				os.Symlink(root, root+"/old/file/up"),
			)
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.CopyOut(t.Context(), lying(t, tarball.Bytes()), src+"/file", root+"/"+test.dst, nil)
			if !errors.Is(err, test.want) {
				t.Errorf("CopyOut: err = %v, want %v", err, test.want)
			}
			after := listing(t, root)
			if strings.Contains(after, "pwned") || strings.Contains(after, " 104755 ") {
				t.Errorf("there is now:\n%s", after)
			}
			if st, err := os.Stat(root + "/out"); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("the folder is now %v, %v", st, err)
			}
		})
	}
}
