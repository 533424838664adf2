package material_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"airlock/internal/planner/material"
)

func TestWhatCannotBeIncludedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"folder/a": "x", "secrets/key": "k", "unread": "x"})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, to := range map[string]string{
		"to-secret": "secrets/key", "to-secrets": "secrets", "to-fifo": "fifo", "to-zero": "/dev/zero", "to-environ": "/proc/self/environ",
		"loop": "loop", "nowhere": "absent",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	hidden := func(p string) bool {
		return p == filepath.Join(dir, "secrets") || strings.HasPrefix(p, filepath.Join(dir, "secrets")+"/")
	}
	for _, tt := range []struct{ name, include, want string }{
		{"a name that is empty", "", "include : the name is empty"},
		{"a file that is absent", "absent", "include absent: there is no such file"},
		{"a link to nothing", "nowhere", "there is no such file"},
		{"a link to itself", "loop", "too many levels of symbolic links"},
		{"a file below a file", "unread/x", "not a directory"},
		{"a folder", "folder/", "include folder/: it is a folder: write folder/** for the files in it"},
		{"a pattern that matches nothing", "*.nothing", "include *.nothing: it matches no file"},
		{"a pattern of a folder that is absent", "absent/*", "there is no folder"},
		{"a pattern that is none", "[a", "there is no such file, and it is no pattern"},
		{"a pipe", "fifo", "it is a named pipe, not a file"},
		{"a link to a pipe", "to-fifo", "it is a named pipe"},
		{"a socket", "sock", "it is a socket"},
		{"a device", "/dev/zero", "it is a device"},
		{"a link to a device", "to-zero", "it is a device"},
		{"a file of the kernel's", "/proc/kmsg", "it is a file of the kernel's own"},
		{"an environment", "/proc/self/environ", "the kernel's own"},
		{"a link to an environment", "to-environ", "the kernel's own"},
		{"a hidden file", "secrets/key", "hidden from sandboxes"},
		{"a link to a hidden file", "to-secret", "hidden from sandboxes"},
		{"a hidden file through a linked folder", "to-secrets/key", "hidden from sandboxes"},
		{"a way around", "folder/../secrets/key", "hidden from sandboxes"},
		{"a pattern in a hidden folder", "secrets/*", "hidden from sandboxes"},
		{"a pattern in a linked hidden folder", "to-secrets/*", "hidden from sandboxes"},
		{"a hidden folder's name", "secrets", "it is a folder"},
		{"a NUL", "a\x00b", `include a\x00b: there is a NUL`},
		{"a name that plays with the terminal", "\x1b[2Jgone\n", `include \x1b[2Jgone\n: there is no such file`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := material.Gather(context.Background(), &material.Options{WorkDir: dir, Hidden: hidden, Include: []string{tt.include}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Gather: %+v, err = %v, want %q in it", got, err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\n\x00") {
				t.Errorf("err = %q is not printable", err)
			}
		})
	}
}

func TestAPatternTakesFilesAlone(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, outside, map[string]string{"diary": "dear diary"})
	write(t, dir, map[string]string{"in/a": "a", "in/secret/k": "k", "in/bin": "a\x00b", "in/latin": "caf\xe9", "in/sub/.git/config": "g", "in/empty": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "in/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"in/diary": filepath.Join(outside, "diary"), "in/up": "..", "in/again": "a", "in/hid": "secret/k", "in/home": outside} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	hidden := func(p string) bool { return strings.HasPrefix(p, filepath.Join(dir, "in/secret")) }
	for _, pattern := range []string{"in/**", filepath.Join(dir, "**"), "**/*", "in/{*,**}", "./in/../in/**/*"} {
		got := gather(t, &material.Options{WorkDir: dir, Hidden: hidden, Include: []string{pattern}})
		all := fmt.Sprintf("%+v", got.Pieces)
		if len(got.Pieces) != 2 || strings.Contains(all, "diary") || strings.Contains(all, "Text:k") || strings.Contains(all, "Text:g") {
			t.Errorf("%s: pieces %s", pattern, all)
		}
		notes := strings.Join(got.Notes, "\n")
		for _, want := range []string{"(no text)", "bin", "latin", "(a link that leads elsewhere", "diary", "(hidden from sandboxes", "hid"} {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: notes %q, want %q in them", pattern, notes, want)
			}
		}
	}
	// What is named itself may lie anywhere.
	if got := gather(t, &material.Options{WorkDir: dir, Include: []string{"in/diary"}}); got.Pieces[0].Text != "dear diary" {
		t.Errorf("pieces %+v", got.Pieces)
	}
}

func TestFilesHaveTheNamesTheyHave(t *testing.T) {
	dir := t.TempDir()
	all := []string{"[a]", "a*b", "-rf", "line\nfeed", "\x1b]0;owned\x07", "{x,y}", "~", "a b", "\u202egnp.exe", "caf\xe9"}
	for _, name := range all {
		write(t, dir, map[string]string{name: "text of it"})
		got := gather(t, &material.Options{WorkDir: dir, Include: []string{"./" + name}})
		if len(got.Pieces) != 1 || got.Pieces[0].Text != "text of it" {
			t.Errorf("%q: %+v", name, got.Pieces)
		}
	}
	got := gather(t, &material.Options{WorkDir: dir, Include: []string{"*"}})
	if len(got.Pieces) != len(all) {
		t.Errorf("%d pieces, want %d: %q", len(got.Pieces), len(all), names(got.Pieces))
	}
	for _, p := range got.Pieces {
		if !utf8.ValidString(p.Name) || strings.ContainsAny(p.Name, "\n\x1b\a\u202e") {
			t.Errorf("the name %q is not printable", p.Name)
		}
	}
}

func TestThereAreBounds(t *testing.T) {
	dir := t.TempDir()
	line := strings.Repeat("0123456789abcde\n", 64) // a KiB
	write(t, dir, map[string]string{
		"big": strings.Repeat(line, 300), "exact": strings.Repeat(line, 100), "line": strings.Repeat("é", 80<<10),
	})
	for i := range 8 {
		write(t, dir, map[string]string{fmt.Sprintf("full/%d", i): strings.Repeat(line, 90)})
	}
	got := gather(t, &material.Options{WorkDir: dir, Include: []string{"big", "exact", "line"}})
	for i, p := range got.Pieces {
		if len(p.Text) > material.MaxFile || (p.Note == "") != (i == 1) {
			t.Errorf("%s: %d bytes, note %q", p.Name, len(p.Text), p.Note)
		}
	}
	if p := got.Pieces[0]; !strings.HasSuffix(p.Text, "e\n") || p.Note != "cut after its first 100 KiB of 300 KiB" || len(got.Notes) != 2 {
		t.Errorf("note %q, notes %q", p.Note, got.Notes)
	}
	got = gather(t, &material.Options{WorkDir: dir, Include: []string{"full/*", "exact"}})
	sum := 0
	for _, p := range got.Pieces {
		sum += len(p.Text)
	}
	if sum > material.MaxFiles || sum < material.MaxFiles-1024 || len(got.Pieces) != 6 {
		t.Errorf("%d bytes in %d pieces", sum, len(got.Pieces))
	}
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "full/6, full/7") || !strings.Contains(notes, "exact was left out") {
		t.Errorf("notes %q", notes)
	}
}

func TestTenThousandFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 10_000 {
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i/1000)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprintf("%04d", i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	got := gather(t, &material.Options{WorkDir: dir, Include: []string{"**"}})
	if len(got.Pieces) != material.MaxIncluded || got.Pieces[0].Name != "0/0000" || !strings.Contains(strings.Join(got.Notes, ""), "9797 more") {
		t.Errorf("%d pieces, notes %q", len(got.Pieces), got.Notes)
	}
	t.Logf("took %v", time.Since(began))
}

func TestTheWholeMachineIsTooMuch(t *testing.T) {
	began := time.Now()
	for _, pattern := range []string{"/**", "/**/*.absent", "/{*,*/*,**}/**/x"} {
		_, err := material.Gather(context.Background(), &material.Options{Include: []string{pattern}})
		if err == nil || !strings.Contains(err.Error(), "it matches too much") && !strings.Contains(err.Error(), "matches no file") {
			t.Errorf("%s: err = %v", pattern, err)
		}
	}
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestAFileThatGrowsWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop, ended := make(chan struct{}), make(chan error, 1)
	started := make(chan struct{})
	go func() {
		block := []byte(strings.Repeat("more and more\n", 1000))
		for i := range 1000 {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := f.Write(block); err != nil {
				ended <- err
				return
			}
			if i == 20 {
				close(started)
			}
		}
		ended <- nil
	}()
	<-started
	got := gather(t, &material.Options{WorkDir: dir, Include: []string{"log"}})
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if p := got.Pieces[0]; len(p.Text) > material.MaxFile || p.Note == "" {
		t.Errorf("%d bytes, note %q", len(p.Text), p.Note)
	}
}

func TestALinkThatIsTurnedMeanwhileDoesNotLeadToWhatIsHidden(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"open/f": "open", "hidden/f": "hidden"})
	turn := func(to string) error {
		if err := os.Symlink(to, filepath.Join(dir, "new")); err != nil {
			return err
		}
		return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "way"))
	}
	if err := turn("open"); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := errors.Join(turn("hidden"), turn("open")); err != nil {
				ended <- err
				return
			}
		}
	}()
	hidden := func(p string) bool { return strings.HasPrefix(p, filepath.Join(dir, "hidden")) }
	for range 300 {
		for _, word := range []string{"way/f", "way/*"} {
			got, err := material.Gather(context.Background(), &material.Options{WorkDir: dir, Hidden: hidden, Include: []string{word}})
			if err == nil && len(got.Pieces) > 0 && got.Pieces[0].Text != "open" {
				t.Fatalf("%s: %+v", word, got.Pieces)
			}
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestGatherEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := material.Gather(ctx, &material.Options{Pipe: r})
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for a pipe that nobody writes to")
	}
}
