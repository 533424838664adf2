package changes_test

import (
	"archive/tar"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/changes"
)

func TestReadFindsWhatChanged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		host  func(h *host)
		layer func(l *layer)
		opts  *changes.ReadOptions
		want  string
	}{
		{
			name: "nothing was touched",
			host: func(*host) {}, layer: func(*layer) {},
		},
		{
			name:  "a file was added, in a folder that was copied up",
			host:  func(h *host) { h.dir("/w") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/a", "new") },
			want:  lines(`added "/w/a" new:file`),
		},
		{
			name:  "a file was opened for writing and not changed",
			host:  func(h *host) { h.file("/w/a", "same") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/a", "same") },
		},
		{
			name:  "the content changed, the size did not",
			host:  func(h *host) { h.file("/w/a", "old") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/a", "new") },
			want:  lines(`modified "/w/a" old:file new:file`),
		},
		{
			name: "only the time changed",
			host: func(h *host) { h.file("/w/a", "same") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).add(tar.Header{
					Typeflag: tar.TypeReg, Name: "./w/a", Mode: 0o644, ModTime: time.Unix(1_700_000_000, 0),
					Uid: os.Getuid(), Gid: os.Getgid(),
				}, "same")
			},
			want: lines(`metadata "/w/a" old:file new:file`),
		},
		{
			name:  "the mode of a folder changed",
			host:  func(h *host) { h.dir("/w/d") },
			layer: func(l *layer) { l.dir("./w/", 0o755).dir("./w/d/", 0o700) },
			want:  lines(`metadata "/w/d" old:dir new:dir`),
		},
		{
			name:  "a file was deleted",
			host:  func(h *host) { h.file("/w/a", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).gone("./w/a") },
			want:  lines(`deleted "/w/a" old:file`),
		},
		{
			name:  "two files were deleted, the second as a link to the first",
			host:  func(h *host) { h.file("/w/a", "x"); h.file("/w/b", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).gone("./w/b").link("./w/a", "./w/b") },
			want:  lines(`deleted "/w/a" old:file`, `deleted "/w/b" old:file`),
		},
		{
			name:  "something was deleted that the host does not have",
			host:  func(h *host) { h.dir("/w") },
			layer: func(l *layer) { l.dir("./w/", 0o755).gone("./w/a") },
		},
		{
			name: "a folder was deleted, and links in it are not followed",
			host: func(h *host) {
				h.file("/w/d/e/f", "x")
				h.file("/secret/x", "x")
				h.symlink("/w/d/l", "../../secret")
			},
			layer: func(l *layer) { l.dir("./w/", 0o755).gone("./w/d") },
			want: lines(`deleted "/w/d" old:dir`, `deleted "/w/d/e" old:dir`,
				`deleted "/w/d/e/f" old:file`, `deleted "/w/d/l" old:symlink`),
		},
		{
			name: "a folder was deleted and made again",
			host: func(h *host) { h.file("/w/d/a", "x"); h.file("/w/d/b", "x") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).opaque("./w/d/", 0o755).file("./w/d/a", "x").file("./w/d/c", "x")
			},
			want: lines(`deleted "/w/d/b" old:file`, `added "/w/d/c" new:file`),
		},
		{
			name: "a folder was moved over another: all of the other's depth is gone",
			host: func(h *host) { h.file("/w/d/sub/z", "x"); h.file("/w/e/sub/x", "x") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).opaque("./w/d/", 0o755).dir("./w/d/sub/", 0o755).file("./w/d/sub/x", "x").gone("./w/e")
			},
			want: lines(`added "/w/d/sub/x" new:file`, `deleted "/w/d/sub/z" old:file`,
				`deleted "/w/e" old:dir`, `deleted "/w/e/sub" old:dir`, `deleted "/w/e/sub/x" old:file`),
		},
		{
			name:  "a folder became a file",
			host:  func(h *host) { h.file("/w/d/a", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/d", "x") },
			want:  lines(`modified "/w/d" old:dir new:file`, `deleted "/w/d/a" old:file`),
		},
		{
			name:  "a file became a folder",
			host:  func(h *host) { h.file("/w/d", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).opaque("./w/d/", 0o755).file("./w/d/a", "x") },
			want:  lines(`modified "/w/d" old:file new:dir`, `added "/w/d/a" new:file`),
		},
		{
			name: "a link to a folder became a folder: the link is not followed",
			host: func(h *host) { h.file("/real/a", "same"); h.symlink("/w/d", "../real") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).opaque("./w/d/", 0o755).file("./w/d/a", "same")
			},
			want: lines(`modified "/w/d" old:symlink new:dir`, `added "/w/d/a" new:file`),
		},
		{
			name:  "a link's target changed, another was made anew the same",
			host:  func(h *host) { h.symlink("/w/a", "x"); h.symlink("/w/b", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).symlink("./w/a", "../../y").symlink("./w/b", "x") },
			want:  lines(`modified "/w/a" old:symlink new:symlink to:"../../y"`),
		},
		{
			name: "hard links among what is new, whatever their order",
			host: func(h *host) { h.dir("/w") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).file("./w/c", "x").link("./w/a", "./w/c").link("./w/b", "./w/a")
			},
			want: lines(`added "/w/a" new:file`, `added "/w/b" new:file link:/w/a`, `added "/w/c" new:file link:/w/a`),
		},
		{
			name:  "a hard link to what did not change is a copy",
			host:  func(h *host) { h.file("/w/a", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/b", "x").link("./w/a", "./w/b") },
			want:  lines(`added "/w/b" new:file`),
		},
		{
			name: "devices are shown and refused",
			host: func(h *host) { h.dir("/w") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).add(tar.Header{Typeflag: tar.TypeChar, Name: "./w/null", Devmajor: 1, Devminor: 3, Mode: 0o666}, "").
					add(tar.Header{Typeflag: tar.TypeBlock, Name: "./w/zero", Mode: 0o666}, "")
			},
			want: lines(`added "/w/null" new:device refused:"a device is never committed"`,
				`added "/w/zero" new:device refused:"a device is never committed"`),
		},
		{
			name: "what is hidden is refused, and the whiteout that hides it is nothing",
			host: func(h *host) { h.file("/w/.ssh/id", "secret"); h.file("/w/.netrc", "secret") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).opaque("./w/.ssh/", 0o755).file("./w/.ssh/authorized_keys", "mine").gone("./w/.ssh/id").
					gone("./w/.netrc").link("./w/.aws", "./w/.netrc").file("./w/.sshx", "x")
			},
			opts: &changes.ReadOptions{Hidden: []string{"/w/.ssh", "/w/.aws", "/w/.netrc"}},
			want: lines(`added "/w/.ssh" new:dir refused:"hidden from the sandbox"`,
				`added "/w/.ssh/authorized_keys" new:file refused:"hidden from the sandbox"`,
				`added "/w/.sshx" new:file`),
		},
		{
			name:  "a folder that holds something hidden may be made anew",
			host:  func(h *host) { h.file("/w/d/.ssh/id", "secret"); h.file("/w/d/a", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).opaque("./w/d/", 0o755) },
			opts:  &changes.ReadOptions{Hidden: []string{"/w/d/.ssh"}},
			want:  lines(`deleted "/w/d/a" old:file`),
		},
		{
			name:  "a folder that holds something hidden is never deleted",
			host:  func(h *host) { h.file("/w/d/e/.ssh/id", "secret"); h.file("/w/d/a", "x"); h.file("/w/d/f/b", "x") },
			layer: func(l *layer) { l.dir("./w/", 0o755).gone("./w/d") },
			opts:  &changes.ReadOptions{Hidden: []string{"/w/d/e/.ssh"}},
			want: lines(`deleted "/w/d" old:dir refused:"it holds /w/d/e/.ssh, which is hidden from the sandbox"`,
				`deleted "/w/d/a" old:file`,
				`deleted "/w/d/e" old:dir refused:"it holds /w/d/e/.ssh, which is hidden from the sandbox"`,
				`deleted "/w/d/f" old:dir`, `deleted "/w/d/f/b" old:file`),
		},
		{
			name:  "nor does it become a file",
			host:  func(h *host) { h.file("/w/d/.ssh/id", "secret") },
			layer: func(l *layer) { l.dir("./w/", 0o755).file("./w/d", "x") },
			opts:  &changes.ReadOptions{Hidden: []string{"/w/d/.ssh"}},
			want:  lines(`modified "/w/d" old:dir new:file refused:"it holds /w/d/.ssh, which is hidden from the sandbox"`),
		},
		{
			name:  "the machinery's own paths are left out",
			host:  func(h *host) { h.dir("/w") },
			layer: func(l *layer) { l.dir("./w/", 0o755).dir("./run/", 0o755).file("./run/agent", "x").file("./w/a", "x") },
			opts:  &changes.ReadOptions{Ignore: []string{"/run"}},
			want:  lines(`added "/w/a" new:file`),
		},
		{
			name: "strange names are kept byte for byte",
			host: func(h *host) { h.dir("/w") },
			layer: func(l *layer) {
				l.dir("./w/", 0o755).file("./w/a\xff\n\x1b[31m", "x").file("./w/ \t", "x").file("./w/...", "x")
			},
			want: lines(`added "/w/ \t" new:file`, `added "/w/..." new:file`, `added "/w/a\xff\n\x1b[31m" new:file`),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.host(h)
			l := newLayer()
			tt.layer(l)
			_, set, err := h.read(l.bytes(t), tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(set)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPathTooLongForTheSystemIsRefusedOnce(t *testing.T) {
	h := newHost(t)
	h.dir("/w")
	l := newLayer().dir("./w/", 0o755)
	name := "./w/"
	for range 20 {
		name += strings.Repeat("d", 255) + "/"
		l.opaque(name, 0o755)
	}
	l.file(name+"f", "x").link("./w/f", name+"f")
	_, set, err := h.read(l.bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused, found := 0, false
	for _, c := range set.Changes {
		if c.Refused != "" {
			refused++
		}
		found = found || c.Path == "/w/f" && c.Refused == "" && c.Blob != "" && c.HardLink == ""
	}
	if refused != 1 || !found {
		t.Errorf("%d changes refused, want one; /w/f usable: %v", refused, found)
	}
}

func TestWhatIsNotedOfBothSides(t *testing.T) {
	h := newHost(t)
	h.file("/w/a", "old")
	l := newLayer().dir("./w/", 0o755)
	l.add(tar.Header{
		Typeflag: tar.TypeReg, Name: "./w/a", Mode: 0o4755, Uid: 7, Gid: 8, ModTime: time.Unix(99, 0),
		PAXRecords: map[string]string{"SCHILY.xattr.user.k": "v", "SCHILY.xattr.security.x": "no"},
	}, "content")
	s, set, err := h.read(l.bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	const sum = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
	c := set.Changes[0]
	want := &changes.Node{
		Type: changes.File, Size: 7, Mode: 0o4755, UID: 7, GID: 8, MTime: time.Unix(99, 0).UTC(),
		SHA256: sum, Xattrs: map[string][]byte{"user.k": []byte("v")},
	}
	if diff := cmp.Diff(want, c.New); diff != "" || c.Blob != sum {
		t.Errorf("New (-want +got), blob %s:\n%s", c.Blob, diff)
	}
	f, err := s.Blob(testID, sum)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); string(data) != "content" || err != nil {
		t.Errorf("Blob = %q, %v", data, err)
	}
	if c.Old.Ino == 0 || c.Old.Nlink != 1 || c.Old.CTime.IsZero() || c.Old.Size != 3 || len(c.Old.SHA256) != 64 {
		t.Errorf("Old = %+v, want all of it known", c.Old)
	}
}

func TestOwnersAreMapped(t *testing.T) {
	h := newHost(t)
	h.file("/w/same", "x")
	h.file("/w/unknown", "x")
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	l := newLayer().dir("./w/", 0o755)
	for name, id := range map[string]int{"same": 0, "unknown": 65534, "new": 0, "strange": 65534, "second": 5} {
		l.add(tar.Header{Typeflag: tar.TypeReg, Name: "./w/" + name, Mode: 0o644, Uid: id, Gid: id}, "x")
	}
	_, set, err := h.read(l.bytes(t), &changes.ReadOptions{IDs: &changes.IDMap{
		UIDs: []changes.IDRange{{Sandbox: 0, Host: uid, Count: 1}, {Sandbox: 1, Host: 100_000, Count: 1000}},
		GIDs: []changes.IDRange{{Sandbox: 0, Host: gid, Count: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(`added "/w/new" new:file`, `added "/w/second" new:file`, `added "/w/strange" new:file`), show(set)); diff != "" {
		t.Fatalf("changes (-want +got):\n%s", diff)
	}
	for i, want := range []uint32{uid, 100_004, uid} {
		if got := set.Changes[i].New.UID; got != want {
			t.Errorf("%s belongs to %d, want %d", set.Changes[i].Path, got, want)
		}
	}
}

func TestTheHostMovedOn(t *testing.T) {
	const while = " on the host while the sandbox ran"
	for _, tt := range []struct {
		name  string
		then  func(h *host)
		layer func(l *layer)
		want  string
	}{
		{
			name:  "it did not",
			then:  func(h *host) { h.file("/w/other", "x") },
			layer: func(l *layer) { l.file("./w/a", "new").gone("./w/d").file("./w/b", "x") },
			want: lines(`modified "/w/a" old:file new:file`, `added "/w/b" new:file`,
				`deleted "/w/d" old:dir`, `deleted "/w/d/x" old:file`),
		},
		{
			name:  "a file that the sandbox changed was changed",
			then:  func(h *host) { h.file("/w/a", "two") },
			layer: func(l *layer) { l.file("./w/a", "new") },
			want:  lines(`modified "/w/a" old:file new:file conflict:"/w/a was changed` + while + `"`),
		},
		{
			name:  "a file was made on both sides",
			then:  func(h *host) { h.file("/w/b", "two") },
			layer: func(l *layer) { l.file("./w/b", "new") },
			want:  lines(`modified "/w/b" old:file new:file conflict:"/w/b was changed` + while + `"`),
		},
		{
			name:  "a file came into a folder that the sandbox deleted",
			then:  func(h *host) { h.file("/w/d/y", "y") },
			layer: func(l *layer) { l.gone("./w/d") },
			want: lines(`deleted "/w/d" old:dir`, `deleted "/w/d/x" old:file`,
				`deleted "/w/d/y" old:file conflict:"/w/d/y was changed`+while+`"`),
		},
		{
			name: "a folder on the way was replaced",
			then: func(h *host) {
				if err := os.Rename(h.name("/w/d"), h.name("/w/moved")); err != nil {
					h.t.Fatal(err)
				}
				h.dir("/w/d")
			},
			layer: func(l *layer) { l.dir("./w/d/", 0o755).file("./w/d/x", "new") },
			want:  lines(`added "/w/d/x" new:file conflict:"the folder /w/d was replaced` + while + `"`),
		},
		{
			name: "a folder was moved here",
			then: func(h *host) {
				if err := os.Rename(h.name("/w/d"), h.name("/w/e")); err != nil {
					h.t.Fatal(err)
				}
			},
			layer: func(l *layer) { l.opaque("./w/e/", 0o755).file("./w/e/x", "x").file("./w/e/z", "z") },
			want:  lines(`added "/w/e/z" new:file conflict:"the folder /w/e was replaced` + while + `"`),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.file("/w/a", "old")
			h.file("/w/d/x", "x")
			started := time.Now()
			h.later(started) // the kernel's stamps are a tick behind its clock
			tt.then(h)
			l := newLayer().dir("./w/", 0o755)
			tt.layer(l)
			_, set, err := h.read(l.bytes(t), &changes.ReadOptions{Started: started})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(set)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
