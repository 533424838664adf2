package changes_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"airlock/internal/changes"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "upper", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack lays the recorded files out below the host's root. It wants what the tests
// need, and no more; times last, because making files changes their folders'.
func unpack(t *testing.T, h *host, data []byte) {
	t.Helper()
	in := tar.NewReader(strings.NewReader(string(data)))
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(h.root, e.Name)
		switch e.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(e.Linkname, name)
		case tar.TypeLink:
			err = os.Link(filepath.Join(h.root, e.Linkname), name)
		default:
			var content []byte
			if content, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, content, 0o644)
			}
			for key, value := range e.PAXRecords {
				if attr, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok && err == nil {
					if err = unix.Setxattr(name, attr, []byte(value), 0); errors.Is(err, unix.ENOTSUP) {
						t.Skipf("this file system keeps no attributes: %v", err)
					}
				}
			}
			if err == nil {
				err = os.Chtimes(name, e.ModTime, e.ModTime)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadWhatARealEngineWrote holds Read against an upper layer that gVisor wrote;
// testdata/upper/record.sh tells how it came to be.
func TestReadWhatARealEngineWrote(t *testing.T) {
	h := newHost(t)
	unpack(t, h, recorded(t, "before.tar.gz"))
	const w = "/tmp/airlock-record/w"
	if err := os.Chmod(h.name("/tmp"), os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	_, set, err := h.read(recorded(t, "upper.tar.gz"), &changes.ReadOptions{
		IDs: &changes.IDMap{
			UIDs: []changes.IDRange{{Sandbox: 0, Host: uid, Count: 1}, {Sandbox: 1000, Host: 1000, Count: 1}},
			GIDs: []changes.IDRange{{Sandbox: 0, Host: gid, Count: 1}, {Sandbox: 1000, Host: 1000, Count: 1}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	deep := `"` + w + "/deep"
	for range 3 {
		deep += "/" + strings.Repeat("d", 250)
	}
	want := []string{
		`modified "` + w + `/append" old:file new:file`,
		`metadata "` + w + `/chmod" old:file new:file`,
		`metadata "` + w + `/chown" old:file new:file`,
		`added "` + w + `/deep" new:dir`,
		`added ` + deep[:len(deep)-502] + `" new:dir`,
		`added ` + deep[:len(deep)-251] + `" new:dir`,
		`added ` + deep + `" new:dir`,
		`added ` + deep + `/bottom" new:file`,
		`deleted "` + w + `/del" old:file`,
		`deleted "` + w + `/deldir" old:dir`,
		`deleted "` + w + `/deldir/a" old:file`,
		`deleted "` + w + `/deldir/b" old:file`,
		`deleted "` + w + `/deldir/sub" old:dir`,
		`deleted "` + w + `/deldir/sub/c" old:file`,
		`added "` + w + `/dev" new:device refused:"a device is never committed"`,
		`metadata "` + w + `/dirmode" old:dir new:dir`,
		`added "` + w + `/fifo" new:fifo`,
		`modified "` + w + `/hl1" old:file new:file`,
		`added "` + w + `/hlnew" new:file`,
		`modified "` + w + `/linkmod" old:symlink new:symlink to:"elsewhere"`,
		`added "` + w + `/` + strings.Repeat("l", 255) + `" new:file`,
		`modified "` + w + `/mod" old:file new:file`,
		`deleted "` + w + `/mvover/dst/sub/z" old:file`,
		`added "` + w + `/mvover/dst/sub/x" new:file`,
		`deleted "` + w + `/mvover/src" old:dir`,
		`deleted "` + w + `/mvover/src/sub" old:dir`,
		`deleted "` + w + `/mvover/src/sub/x" old:file`,
		`deleted "` + w + `/mvover/src/y" old:file`,
		`added "` + w + `/n1" new:file`,
		`added "` + w + `/n2" new:file link:` + w + `/n1`,
		`added "` + w + `/new\xff\n\x1b[31m" new:file`,
		`added "` + w + `/newdir" new:dir`,
		`added "` + w + `/newdir/f" new:file`,
		`added "` + w + `/newdir/n3" new:file link:` + w + `/n1`,
		`deleted "` + w + `/remade/a" old:file`,
		`added "` + w + `/remade/new" new:file`,
		`deleted "` + w + `/remade/sub" old:dir`,
		`deleted "` + w + `/remade/sub/c" old:file`,
		`deleted "` + w + `/rendir" old:dir`,
		`deleted "` + w + `/rendir/a" old:file`,
		`deleted "` + w + `/rendir/b" old:file`,
		`deleted "` + w + `/rendir/sub" old:dir`,
		`deleted "` + w + `/rendir/sub/c" old:file`,
		`added "` + w + `/rendir2" new:dir`,
		`added "` + w + `/rendir2/a" new:file`,
		`added "` + w + `/rendir2/b" new:file`,
		`added "` + w + `/rendir2/sub" new:dir`,
		`added "` + w + `/rendir2/sub/c" new:file`,
		`added "` + w + `/renamed" new:file`,
		`deleted "` + w + `/renfile" old:file`,
		`metadata "` + w + `/setuid" old:file new:file`,
		`added "` + w + `/sl" new:symlink to:"t"`,
		`added "` + w + `/sl2" new:symlink to:"t" link:` + w + `/sl`,
		`added "` + w + `/sparse" new:file`,
		`modified "` + w + `/todir" old:file new:dir`,
		`added "` + w + `/todir/in" new:file`,
		`modified "` + w + `/tofile" old:dir new:file`,
		`deleted "` + w + `/tofile/a" old:file`,
		`deleted "` + w + `/tofile/sub" old:dir`,
		`deleted "` + w + `/tofile/sub/c" old:file`,
		`modified "` + w + `/tolink" old:file new:symlink to:"mod"`,
		`metadata "` + w + `/touch" old:file new:file`,
		`metadata "` + w + `/xa_keep" old:file new:file`,
		`metadata "` + w + `/xattrmod" old:file new:file`,
	}
	if diff := cmp.Diff(sortedLines(want), sortedLines(strings.Split(strings.TrimSpace(show(set)), "\n"))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for _, c := range set.Changes {
		switch c.Path {
		case w + "/setuid":
			if c.New.Mode != 0o4755 || !c.New.MTime.Equal(c.Old.MTime) {
				t.Errorf("setuid: %+v, want the bit and the old time, fraction and all", c.New)
			}
		case w + "/xa_keep":
			if diff := cmp.Diff(c.Old.Xattrs, c.New.Xattrs); diff != "" {
				t.Errorf("xa_keep: attributes that the layer cannot carry are lost:\n%s", diff)
			}
		case w + "/xattrmod":
			if got := string(c.New.Xattrs["user.k"]); got != "v2" {
				t.Errorf("xattrmod: user.k = %q, want v2", got)
			}
		}
	}
}
