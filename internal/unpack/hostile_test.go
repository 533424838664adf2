//go:build unix

package unpack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/unpack"
)

// A tar of little but folders with large attributes is small when it is compressed.
func TestWhatFoldersSayIsNotKeptWithoutEnd(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r, w := io.Pipe()
		go func() {
			out := tar.NewWriter(w)
			value := strings.Repeat("v", 900_000)
			for n := range 80 {
				h := &tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", n), Mode: 0o755, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.x": value}}
				if out.WriteHeader(h) != nil {
					return
				}
			}
			_ = w.CloseWithError(out.Close())
		}()
		_, err := unpack.Into(t.Context(), t.TempDir(), r, &unpack.Options{Xattrs: keep})
		_ = r.Close()
		if keep && !errors.Is(err, unpack.ErrLimit) || !keep && err != nil {
			t.Errorf("with attributes %v: err = %v", keep, err)
		}
	}
}

func TestFoldersWithoutEntriesCountToo(t *testing.T) {
	data := archive(t, file("a", ""), file(strings.Repeat("d/", 50)+"f", ""))
	res, err := unpack.Into(t.Context(), t.TempDir(), bytes.NewReader(data), &unpack.Options{Max: unpack.Limits{Entries: 40}})
	if !errors.Is(err, unpack.ErrLimit) || res.Folders > 40 {
		t.Errorf("Into = %+v, %v, want %v", res, err, unpack.ErrLimit)
	}
	if res, err = unpack.Into(t.Context(), t.TempDir(), bytes.NewReader(data), &unpack.Options{Max: unpack.Limits{Entries: 52}}); err != nil || res.Folders != 50 {
		t.Errorf("Into = %+v, %v, want 50 folders", res, err)
	}
}

func TestWhiteoutsKnowWhatDeepTarsMade(t *testing.T) {
	root := t.TempDir()
	deep := strings.Repeat("d/", 900)
	if err := os.MkdirAll(filepath.Join(root, "d", "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	data := archive(t, file(deep+"f", "x"), file("d/.wh..wh..opq", ""))
	if _, err := unpack.Into(t.Context(), root, bytes.NewReader(data), &unpack.Options{Whiteouts: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, deep, "f")); err != nil {
		t.Errorf("what the tar itself made is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "d", "old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what lay there before stays: %v", err)
	}
}

func TestATarThatIsTooMuchIsRefused(t *testing.T) {
	deep := strings.Repeat("d/", 50)
	for name, test := range map[string]struct {
		max     unpack.Limits
		entries []entry
		left    []string // what there is afterwards
	}{
		"too many bytes":             {unpack.Limits{Bytes: 10}, []entry{file("a", "123456"), file("b", "123456")}, []string{"a"}},
		"too many entries":           {unpack.Limits{Entries: 2}, []entry{file("a", ""), file("b", ""), file("c", "")}, []string{"a", "b"}},
		"too deep":                   {unpack.Limits{Depth: 50}, []entry{file("a", ""), file(deep+"f", "")}, []string{"a"}},
		"a name that is too long":    {unpack.Limits{Path: 30}, []entry{file("a", ""), file(strings.Repeat("n", 31), "")}, []string{"a"}},
		"a link that is too long":    {unpack.Limits{Path: 30}, []entry{file("a", ""), symlink("l", strings.Repeat("n", 31))}, []string{"a"}},
		"very deep":                  {unpack.Limits{}, []entry{file(strings.Repeat("d/", 1025)+"f", "")}, nil},
		"a name of more than a path": {unpack.Limits{}, []entry{file(strings.Repeat("long name/", 500)+"f", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			_, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, test.entries...)), &unpack.Options{Max: test.max})
			if !errors.Is(err, unpack.ErrLimit) {
				t.Errorf("err = %v, want %v", err, unpack.ErrLimit)
			}
			if got := names(t, root); fmt.Sprint(got) != fmt.Sprint(test.left) {
				t.Errorf("there is %q, want %q", got, test.left)
			}
		})
	}
}

// names lists what is below root.
func names(t testing.TB, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); rel != "." {
			found = append(found, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestATarWithinTheLimitsMayBeDeep(t *testing.T) {
	root := t.TempDir()
	deep := strings.Repeat("d/", 1023)
	entries := []entry{file(deep+"f", "x"), dir(deep), file("d/d/beside", "y"), file(deep+"g", "z"), hardlink("d/linked", deep+"f")}
	if _, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, entries...)), nil); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "d/linked")); err != nil || string(data) != "x" {
		t.Errorf("what is deep down is %q, %v", data, err)
	}
	var again bytes.Buffer
	res, err := unpack.Pack(t.Context(), &again, root, nil)
	if err != nil || res.Entries != 1+1023+4 {
		t.Errorf("Pack: %+v, %v", res, err)
	}
}

func TestASizeIsNotBelieved(t *testing.T) {
	for name, test := range map[string]struct {
		header tar.Header
		want   error
	}{
		"more than there is":       {tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 1 << 62}, unpack.ErrFormat},
		"of a link":                {tar.Header{Typeflag: tar.TypeSymlink, Name: "big", Linkname: "x"}, unpack.ErrFormat},
		"of what is cut at a byte": {tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 1}, unpack.ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tar.NewWriter(&out).WriteHeader(&test.header); err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			_, err := unpack.Into(t.Context(), root, &out, nil)
			if !errors.Is(err, test.want) {
				t.Errorf("err = %v, want %v", err, test.want)
			}
			if st, err := os.Stat(filepath.Join(root, "big")); err == nil {
				t.Errorf("a half file of %d bytes is there", st.Size())
			}
		})
	}
}

// sparseTar is an old tar's file of size bytes with data in front and a hole behind.
func sparseTar(size int64, data string) []byte {
	var b [512]byte
	copy(b[0:], "holes")
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x00")
	copy(b[116:], "0000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", len(data)))
	copy(b[136:], "00000000000\x00")
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00")
	number := func(at int, n int64) {
		b[at] = 0x80
		for i := range 8 {
			b[at+11-i] = byte(n >> (8 * i))
		}
	}
	number(386, 0)
	number(398, int64(len(data)))
	number(410, size)
	number(422, 0)
	number(483, size)
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	out := append(b[:], data...)
	out = append(out, make([]byte, (512-len(data)%512)%512)...)
	return append(out, make([]byte, 1024)...)
}

func TestHolesStayHoles(t *testing.T) {
	root := t.TempDir()
	const size = 128 << 20
	res, err := unpack.Into(t.Context(), root, bytes.NewReader(sparseTar(size, "data")), nil)
	if err != nil || res.Bytes != size {
		t.Fatalf("Into: %+v, %v", res, err)
	}
	st, err := os.Stat(filepath.Join(root, "holes"))
	if err != nil || st.Size() != size {
		t.Fatalf("%v, %v", st, err)
	}
	if used := blocks(st) * 512; used > 1<<20 {
		t.Errorf("it takes %d bytes", used)
	}
	data := make([]byte, 8)
	f, err := os.Open(filepath.Join(root, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, data); err != nil || string(data) != "data\x00\x00\x00\x00" {
		t.Errorf("it begins with %q, %v", data, err)
	}
	// File systems differ in what they take; what none does is to go on when nobody waits any more.
	ctx, cancel := context.WithCancel(t.Context())
	left := t.TempDir()
	_, err = unpack.Into(ctx, left, bytes.NewReader(sparseTar(1<<62, "data")), &unpack.Options{Progress: func(unpack.Result) { cancel() }})
	if err == nil || len(names(t, left)) > 0 {
		t.Errorf("a file of 4 EiB: %v, and there is %q", err, names(t, left))
	}
	cancel()
	limits := &unpack.Options{Max: unpack.Limits{Bytes: 1 << 20}}
	if _, err := unpack.Into(t.Context(), t.TempDir(), bytes.NewReader(sparseTar(size, "data")), limits); !errors.Is(err, unpack.ErrLimit) {
		t.Errorf("holes above the limit: err = %v, want %v", err, unpack.ErrLimit)
	}
}

func TestWhatIsReplaced(t *testing.T) {
	lower := []entry{dir("full"), file("full/in", "old"), dir("empty"), file("file", "old"), symlink("link", "full")}
	for name, test := range map[string]struct {
		replace unpack.Replace
		entries []entry
		path    string
		want    string // its content; "/": a folder
		err     error
	}{
		"a file takes a file's place":                      {unpack.ReplaceSame, []entry{file("file", "new")}, "file", "new", nil},
		"a file takes a link's place and not its target's": {unpack.ReplaceSame, []entry{file("link", "new")}, "full/in", "old", nil},
		"the last of two counts":                           {unpack.ReplaceSame, []entry{file("x", "first"), file("x", "new")}, "x", "new", nil},
		"a hard link takes a file's place":                 {unpack.ReplaceSame, []entry{hardlink("file", "full/in")}, "file", "old", nil},
		"folders become one":                               {unpack.ReplaceSame, []entry{dir("full"), file("full/new", "new")}, "full/in", "old", nil},
		"a file not an empty folder's":                     {unpack.ReplaceSame, []entry{file("empty", "new")}, "empty", "/", unpack.ErrExists},
		"a file not a folder's on the way":                 {unpack.ReplaceSame, []entry{file("file/new", "new")}, "file", "old", errAny},
		"a folder not a file's":                            {unpack.ReplaceSame, []entry{dir("file")}, "file", "old", unpack.ErrExists},
		"but if told":                                      {unpack.ReplaceEmpty, []entry{file("empty", "new")}, "empty", "new", nil},
		"a folder too":                                     {unpack.ReplaceEmpty, []entry{dir("file")}, "file", "/", nil},
		"a folder on the way too":                          {unpack.ReplaceEmpty, []entry{file("file/new", "new")}, "file/new", "new", nil},
		"a link on the way not":                            {unpack.ReplaceEmpty, []entry{file("link/new", "new")}, "full/in", "old", unpack.ErrLink},
		"a folder takes a link's place":                    {unpack.ReplaceEmpty, []entry{dir("link"), file("link/new", "new")}, "link/new", "new", nil},
		"a full folder not":                                {unpack.ReplaceEmpty, []entry{file("full", "new")}, "full/in", "old", unpack.ErrExists},
		"but if told so":                                   {unpack.ReplaceAll, []entry{file("full", "new")}, "full", "new", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if _, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, lower...)), nil); err != nil {
				t.Fatal(err)
			}
			_, err := unpack.Into(t.Context(), root, bytes.NewReader(archive(t, test.entries...)), &unpack.Options{Replace: test.replace})
			if errors.Is(test.err, errAny) && err != nil {
				err = errAny
			}
			if !errors.Is(err, test.err) {
				t.Errorf("err = %v, want %v", err, test.err)
			}
			path := filepath.Join(root, test.path)
			st, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if data, _ := os.ReadFile(path); st.IsDir() != (test.want == "/") || !st.IsDir() && string(data) != test.want {
				t.Errorf("%s is %v with %q, want %q", test.path, st.Mode(), data, test.want)
			}
			for _, name := range names(t, root) {
				if strings.Contains(name, ".airlock-") {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

var errAny = errors.New("any error")

func TestAFileThatIsNotCompleteLeavesTheOldOne(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := archive(t, file("file", strings.Repeat("new", 1000)))
	if _, err := unpack.Into(t.Context(), root, bytes.NewReader(whole[:2000]), nil); !errors.Is(err, unpack.ErrFormat) {
		t.Errorf("err = %v, want %v", err, unpack.ErrFormat)
	}
	if data, err := os.ReadFile(filepath.Join(root, "file")); err != nil || string(data) != "old" {
		t.Errorf("it is %q, %v", data, err)
	}
	if got := names(t, root); len(got) != 1 {
		t.Errorf("there is %q", got)
	}
}

// A stopping reader ends a context when it is read from for the nth time.
type stopping struct {
	io.Reader
	n    int
	stop func()
}

func (s *stopping) Read(p []byte) (int, error) {
	if s.n--; s.n == 0 {
		s.stop()
	}
	return s.Reader.Read(p[:min(len(p), 4096)])
}

func TestAnEndOfItsContextLeavesNoHalfFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	root := t.TempDir()
	whole := archive(t, file("first", "x"), file("second", strings.Repeat("x", 1<<20)))
	_, err := unpack.Into(ctx, root, &stopping{bytes.NewReader(whole), 20, cancel}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want %v", err, context.Canceled)
	}
	if got := names(t, root); len(got) != 1 || got[0] != "first" {
		t.Errorf("there is %q", got)
	}
}

func TestASwappedLinkLeadsNowhere(t *testing.T) {
	top := t.TempDir()
	root, out := filepath.Join(top, "root"), filepath.Join(top, "out")
	err := errors.Join(os.MkdirAll(filepath.Join(root, "real"), 0o755), os.Mkdir(out, 0o755),
		os.Symlink(out, filepath.Join(root, "evil")))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		at := func(name string) string { return filepath.Join(root, name) }
		for {
			select {
			case <-stop:
				return
			default:
			}
			// real and evil change places all the time.
			_ = os.Rename(at("real"), at("away"))
			_ = os.Rename(at("evil"), at("real"))
			_ = os.Rename(at("real"), at("evil"))
			_ = os.Rename(at("away"), at("real"))
		}
	}()
	through, whole := 0, archive(t, dir("real"), file("real/a", "x"), file("other", "x"), file("real/b/c", "x"), file("real/a", "y"))
	for range 100 {
		if _, err := unpack.Into(t.Context(), root, bytes.NewReader(whole), &unpack.Options{Replace: unpack.ReplaceEmpty}); err == nil {
			through++
		}
	}
	close(stop)
	<-done
	if got := names(t, out); len(got) > 0 {
		t.Errorf("outside there is %q", got)
	}
	if through == 0 {
		t.Error("nothing was ever unpacked: the race was not run")
	}
}

func FuzzInto(f *testing.F) {
	f.Add(archive(f, dir("a"), file("a/b", "hello"), symlink("l", "../.."), file("l/x", "x"), hardlink("h", "a/b")), uint8(0))
	f.Add(archive(f, file(".wh.a", ""), file("a/.wh..wh..opq", ""), file("../x", "x")), uint8(255))
	f.Add(sparseTar(1<<20, "data"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		top := t.TempDir()
		root := filepath.Join(top, "root")
		if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(top, "canary"), []byte("c"), 0o600),
			os.Symlink("..", filepath.Join(root, "l")), os.Mkdir(filepath.Join(root, "a"), 0o755)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Stat(filepath.Join(top, "canary"))
		_, _ = unpack.Into(t.Context(), root, bytes.NewReader(data), &unpack.Options{
			Replace: unpack.Replace(how % 3), Follow: how&4 != 0, Whiteouts: how&8 != 0, SkipDevices: how&16 != 0,
			SetID: how&32 != 0, Xattrs: how&64 != 0, KeepRoot: how&128 != 0,
			Max: unpack.Limits{Bytes: 1 << 20, Entries: 100, Depth: 30},
		})
		if got, err := os.ReadDir(top); err != nil || len(got) != 2 {
			t.Fatalf("outside there is %v, %v", got, err)
		}
		after, err := os.Stat(filepath.Join(top, "canary"))
		if err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) || nlink(after) != 1 {
			t.Fatalf("outside the file is %v, %v", after, err)
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o755) // so that it can be removed
			}
			return nil
		})
	})
}
