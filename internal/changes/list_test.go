package changes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/changes"
)

func file(size int64, mode uint32) *changes.Node {
	return &changes.Node{Type: changes.File, Size: size, Mode: mode}
}

func TestList(t *testing.T) {
	work := func(p string, k changes.Kind, old, now *changes.Node) changes.Change {
		return changes.Change{Path: changes.Path("/w/" + p), Kind: k, Scope: changes.Work, Old: old, New: now}
	}
	dir := &changes.Node{Type: changes.Dir, Mode: 0o755}
	for _, tt := range []struct {
		name string
		set  []changes.Change
		opts *changes.ListOptions
		want string
	}{
		{"nothing", nil, nil, "Nothing was changed.\n"},
		{
			"one of each kind",
			[]changes.Change{
				work("a", changes.Added, nil, file(10, 0o644)),
				work("d", changes.Deleted, dir, nil),
				work("d/x", changes.Deleted, file(1, 0o644), nil),
				work("m", changes.Modified, file(1, 0o644), file(3000, 0o755)),
				work("t", changes.Metadata, file(1, 0o644), file(1, 0o644)),
			},
			nil,
			"  A a  (10 B)\n  D d/\n  D d/x\n  M m  (2.9 KiB, mode 0644 to 0755)\n  T t  (time)\n",
		},
		{
			"set-uid and a new owner are spelled out",
			[]changes.Change{
				work("a", changes.Added, nil, file(1, 0o4755)),
				work("b", changes.Metadata, file(1, 0o755), &changes.Node{Type: changes.File, Size: 1, Mode: 0o2755, UID: 5}),
			},
			nil,
			"  A a  (1 B, mode 4755 set-uid)\n  T b  (mode 0755 to 2755 set-gid, owner 0:0 to 5:0)\n",
		},
		{
			"names cannot control the terminal or deceive the eye",
			[]changes.Change{
				work("\x1b[2J\r", changes.Added, nil, file(1, 0o644)),
				work("gpj\u202eexe.", changes.Added, nil, file(1, 0o644)),
				work("l", changes.Added, nil, &changes.Node{Type: changes.Symlink, Target: "a\nD other"}),
				work("\xffü\\n\u200b\u3164\ufe0f", changes.Added, nil, file(1, 0o644)),
			},
			nil,
			`  A \x1b[2J\r  (1 B)` + "\n" + `  A gpj\u202eexe.  (1 B)` + "\n" + `  A l -> a\nD other` + "\n" +
				`  A \xffü\\n\u200b\u3164\ufe0f  (1 B)` + "\n",
		},
		{
			"refusals and conflicts are said",
			[]changes.Change{
				{Path: "/w/a", Kind: changes.Added, Scope: changes.Work, New: file(1, 0o644), Refused: "never"},
				{Path: "/w/b", Kind: changes.Added, Scope: changes.Work, New: file(1, 0o644), Conflict: "it moved"},
			},
			nil,
			"  A a  (1 B)  refused: never\n  A b  (1 B)  conflict: it moved\n",
		},
		{
			"what is beside the work is counted",
			[]changes.Change{
				work("a", changes.Added, nil, file(1, 0o644)),
				{Path: "/x", Kind: changes.Deleted, Scope: changes.Outside, Old: file(1, 0)},
				{Path: "/y", Kind: changes.Added, Scope: changes.Outside, New: file(1, 0)},
				{Path: "/tmp/z", Kind: changes.Added, Scope: changes.Noise, New: file(1, 0)},
			},
			nil,
			"  A a  (1 B)\nand 2 changes outside /w (1 deletion), 1 of noise (caches, /tmp): not committed unless named\n",
		},
		{
			"all of it on demand",
			[]changes.Change{
				{Path: "/x", Kind: changes.Added, Scope: changes.Outside, New: file(1, 0)},
				{Path: "/tmp/z", Kind: changes.Added, Scope: changes.Noise, New: file(1, 0)},
			},
			&changes.ListOptions{All: true},
			"Outside /w, not committed unless named:\n  A /x  (1 B)\nNoise (caches, /tmp), not committed unless named:\n  A /tmp/z  (1 B)\n",
		},
		{
			"a long list is cut, but for deletions",
			[]changes.Change{
				work("a", changes.Added, nil, file(1, 0o644)),
				work("b", changes.Deleted, file(1, 0o644), nil),
				work("c", changes.Added, nil, file(1, 0o644)),
				work("d", changes.Deleted, file(1, 0o644), nil),
				work("e", changes.Added, nil, file(1, 0o644)),
			},
			&changes.ListOptions{Max: 1},
			"  A a  (1 B)\n  D b\n  D d\n  … and 2 changes more, none a deletion\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			set := &changes.Set{Header: changes.Header{WorkDir: "/w"}, Changes: tt.set}
			for _, c := range tt.set {
				if c.Scope == changes.Work {
					set.Work++
				}
			}
			if err := changes.List(&b, set, tt.opts); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListInColorEscapesAsWell(t *testing.T) {
	set := &changes.Set{Header: changes.Header{WorkDir: "/w"}, Changes: []changes.Change{
		{Path: "/w/\x1b[31m", Kind: changes.Added, Scope: changes.Work, New: file(1, 0o644)},
	}}
	var b strings.Builder
	if err := changes.List(&b, set, &changes.ListOptions{Color: true}); err != nil {
		t.Fatal(err)
	}
	if want := "  \x1b[32mA\x1b[0m \x1b[32m\\x1b[31m\x1b[0m  (1 B)\n"; b.String() != want {
		t.Errorf("List = %q, want %q", b.String(), want)
	}
}

func TestEntries(t *testing.T) {
	set := &changes.Set{Changes: []changes.Change{
		{Path: "/w/a", Kind: changes.Added, Scope: changes.Work, New: file(5, 0o644)},
		{Path: "/w/b\xff", Kind: changes.Deleted, Scope: changes.Work, Old: file(7, 0o4755)},
		{Path: "/tmp/x", Kind: changes.Added, Scope: changes.Noise, New: file(1, 0)},
	}}
	got, err := json.Marshal(changes.Entries(set, changes.Work))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"path":"/w/a","kind":"added","scope":"work","type":"file","size":5,"mode":"0644"},` +
		`{"path":"/w/b�","path_base64":"L3cvYv8=","kind":"deleted","scope":"work","type":"file","size":7,"mode":"4755"}]`
	if string(got) != want {
		t.Errorf("Entries:\n%s\nwant\n%s", got, want)
	}
	if all := changes.Entries(set); len(all) != 3 {
		t.Errorf("Entries of all scopes: %d, want 3", len(all))
	}
	if got, _ := json.Marshal(changes.Entries(&changes.Set{})); string(got) != "[]" {
		t.Errorf("no entries are %s, want []", got)
	}
}

func ExampleList() {
	set := &changes.Set{
		Header: changes.Header{WorkDir: "/home/me/shop", Work: 2, NoiseCount: 1},
		Changes: []changes.Change{
			{Path: "/home/me/shop/cart.go", Kind: changes.Modified, Scope: changes.Work, Old: file(900, 0o644), New: file(1000, 0o644)},
			{Path: "/home/me/shop/old.go", Kind: changes.Deleted, Scope: changes.Work, Old: file(10, 0o644)},
			{Path: "/tmp/build.log", Kind: changes.Added, Scope: changes.Noise, New: file(10, 0o644)},
		},
	}
	var b strings.Builder
	if err := changes.List(&b, set, nil); err != nil {
		panic(err)
	}
	fmt.Print(b.String())
	// Output:
	//   M cart.go  (1000 B)
	//   D old.go
	// and 1 of noise (caches, /tmp): not committed unless named
}

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"text stays, spaces and backslashes too", `grep "a\.b" é 日本`, `grep "a\.b" é 日本`},
		{"an escape sequence does not reach the terminal", "\x1b[2J", `\x1b[2J`},
		{"a line feed does not begin a line", "a\nb\r\tc", `a\nb\r\tc`},
		{"what reorders is shown", "\u202egpj", `\u202egpj`},
		{"what is invisible is shown", "a\u200bb\u00adc\u3164d\ufe0f", `a\u200bb\u00adc\u3164d\ufe0f`},
		{"the second set of controls too", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"bytes that are no text", "a\xffb", `a\xffb`},
		{"far planes", "\U000e0041", `\U000e0041`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := changes.Printable(tt.text)
			if got != tt.want {
				t.Errorf("Printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
			if again := changes.Printable(got); again != got {
				t.Errorf("Printable(%q) = %q: not as it was", got, again)
			}
		})
	}
}
