package material_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/material"
)

// lines is a reader of n lines of 32 bytes, of which every one tells its number.
type lines struct{ at, n int }

func (l *lines) Read(p []byte) (int, error) {
	read := 0
	for read+32 <= len(p) && l.at < l.n {
		read += copy(p[read:], []byte("line "+pad(l.at)+" .................\n"))
		l.at++
	}
	if read == 0 {
		return 0, os.ErrClosed
	}
	return read, nil
}

func pad(n int) string {
	s := "00000000"
	for i := 7; n > 0; i-- {
		s = s[:i] + string(rune('0'+n%10)) + s[i+1:]
		n /= 10
	}
	return s
}

func TestAPipe(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL\n", 40) + "-----END RSA PRIVATE KEY-----\n"
	filler := strings.Repeat("a line of no interest at all ...\n", 20<<10) // 660 KiB
	for _, tt := range []struct {
		name, in   string
		has, hasno []string
		note       string
	}{
		{name: "a text", in: "a diff\n", has: []string{"a diff\n"}},
		{name: "a secret", in: "PASSWORD=hunter2\n", has: []string{"PASSWORD=[redacted:password]\n"}},
		{name: "a secret with colours in it", in: "PASS\x1b[1mWORD=hun\x1b[mter2\n", has: []string{"PASSWORD=[redacted:password]\n"}},
		{name: "one that is too long", in: "the first\n" + filler + "the last\n", has: []string{"the first\n", "\nthe last\n", "left out"}, note: "the first 255 KiB and the last 255 KiB of 660 KiB"},
		{
			name: "a key that the cut goes through", in: filler[:300<<10] + filler[:200<<10] + key + filler[:254<<10] + "\n",
			has: []string{"left out"}, hasno: []string{"MIIE"}, note: "the first",
		},
		{
			name: "a key at the beginning's end", in: filler[:255<<10] + "\n" + key + filler,
			has: []string{"left out"}, hasno: []string{"MIIE"}, note: "the first",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := gather(t, &material.Options{Pipe: strings.NewReader(tt.in)})
			p := got.Pieces[0]
			if p.Kind != planner.FromPipe || len(p.Text) > material.MaxPipe+64 || !strings.HasPrefix(p.Note, tt.note) || (p.Note == "") != (tt.note == "") || len(got.Notes) != min(1, len(tt.note)) {
				t.Errorf("%d bytes, note %q, notes %q", len(p.Text), p.Note, got.Notes)
			}
			for _, want := range tt.has {
				if !strings.Contains(p.Text, want) {
					t.Errorf("%q is not in %.300q", want, p.Text)
				}
			}
			for _, no := range tt.hasno {
				if strings.Contains(p.Text, no) {
					t.Errorf("%q is in it", no)
				}
			}
		})
	}
}

func TestAPipeThatCannotBeSent(t *testing.T) {
	for _, in := range []string{"\x00", "a\x00b", "caf\xe9 au lait", strings.Repeat("a", 1<<20) + "\x00", strings.Repeat("a", 1<<20) + "\xff\xff\xff\xff"} {
		if _, err := material.Gather(context.Background(), &material.Options{Pipe: strings.NewReader(in)}); err == nil || !strings.Contains(err.Error(), "is no text") {
			t.Errorf("%.20q: err = %v", in, err)
		}
	}
	if _, err := material.Gather(context.Background(), &material.Options{Pipe: &lines{n: 10}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("err = %v", err)
	}
	got := gather(t, &material.Options{Pipe: strings.NewReader("")})
	if len(got.Pieces) != 0 || len(got.Notes) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPipeWithoutAnEnd(t *testing.T) {
	got := gather(t, &material.Options{Pipe: &lines{n: 1 << 30}})
	p := got.Pieces[0]
	if !strings.HasPrefix(p.Text, "line 00000000 ") || !strings.HasSuffix(p.Text, "line 02097151 .................\n") || !strings.Contains(p.Note, "of 64.0 MiB, beyond which it was not read") {
		t.Errorf("%d bytes, %.30q ... %q, note %q", len(p.Text), p.Text, p.Text[len(p.Text)-40:], p.Note)
	}
}

func TestInstructions(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"AGENTS.md": "outside", "repo/.git/HEAD": "x", "repo/AGENTS.md": "root TOKEN=Kq7wXz3vBn", "repo/a/x": "", "repo/a/b/AGENTS.md": "nearest",
		"repo/big/AGENTS.md": strings.Repeat("a line of it\n", 20_000), "repo/bin/AGENTS.md": "a\x00b", "repo/dir/AGENTS.md/x": "x",
		"plain/AGENTS.md": "plain", "plain/sub/x": "", "repo/env/.env": "WORD=x\n",
	})
	for name, to := range map[string]string{
		"repo/link/AGENTS.md": filepath.Join(dir, "AGENTS.md"), "repo/in/AGENTS.md": "../AGENTS.md", "repo/env/AGENTS.md": ".env", "repo/fifo/AGENTS.md": "/dev/zero",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, tt := range []struct {
		name, in string
		want     []string
		notes    int
		note     string
	}{
		{"of the repository and of the folder", "repo/a/b", []string{"root TOKEN=[redacted:secret]", "nearest"}, 2, "are sent along"},
		{"of the repository alone", "repo/a", []string{"root TOKEN=[redacted:secret]"}, 1, "are sent along"},
		{"a link out of it", "repo/link", []string{"root TOKEN=[redacted:secret]"}, 2, "leads out of the project"},
		{"a link within it", "repo/in", []string{"root TOKEN=[redacted:secret]"}, 1, "are sent along"},
		{"a link to what holds secrets", "repo/env", []string{"root TOKEN=[redacted:secret]", "WORD=[redacted:env]\n"}, 2, "are sent along"},
		{"a link to a device", "repo/fifo", []string{"root TOKEN=[redacted:secret]"}, 2, "it is a device"},
		{"no text", "repo/bin", []string{"root TOKEN=[redacted:secret]"}, 2, "is no text"},
		{"a folder", "repo/dir", []string{"root TOKEN=[redacted:secret]"}, 2, "it is a folder"},
		{"a long one", "repo/big", []string{"root TOKEN=[redacted:secret]", "a line of it\n"}, 2, "cut after its first 99 KiB of 253 KiB"},
		{"without a repository", "plain", []string{"plain"}, 1, "are sent along"},
		{"without a repository, those above do not count", "plain/sub", nil, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := gather(t, &material.Options{WorkDir: filepath.Join(dir, tt.in), Instructions: true})
			if len(got.Pieces) != len(tt.want) || len(got.Notes) != tt.notes || !strings.Contains(strings.Join(got.Notes, "\n"), tt.note) {
				t.Fatalf("%d pieces, notes %q", len(got.Pieces), got.Notes)
			}
			for i, p := range got.Pieces {
				if p.Kind != planner.FromInstructions || len(p.Text) > material.MaxFile || !strings.HasPrefix(p.Text, tt.want[i]) {
					t.Errorf("%.100q, want %q", p.Text, tt.want[i])
				}
			}
		})
	}
}
