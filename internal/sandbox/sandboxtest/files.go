package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

func asPerson(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	b.want(sb, "id -u", fmt.Sprint(os.Getuid()))
	b.want(sb, "pwd", b.work)
	b.file("in", "from the host")
	b.want(sb, "cat in", "from the host")
	if !sandbox.ValidID(sb.ID()) {
		b.Errorf("ID = %q, which is none", sb.ID())
	}
	if sb.Err() != nil {
		b.Errorf("Err of a sandbox that runs = %v", sb.Err())
	}
	if time.Since(sb.Started()) < 0 || time.Since(sb.Started()) > time.Hour {
		b.Errorf("Started = %v", sb.Started())
	}
}

// upper reads a sandbox's upper layer: names below the root, and what they are.
func (b *bench) upper(sb sandbox.Sandbox) map[string]string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	var buf bytes.Buffer
	if err := sb.Upper(ctx, &buf); err != nil {
		b.Fatalf("Upper: %v", err)
	}
	got := map[string]string{}
	r := tar.NewReader(&buf)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			b.Fatalf("read the upper layer: %v", err)
		}
		content, _ := io.ReadAll(r)
		name := "/" + strings.Trim(strings.TrimPrefix(h.Name, "."), "/")
		switch h.Typeflag {
		case tar.TypeChar:
			got[name] = "deleted"
		case tar.TypeDir:
			got[name] = "folder"
		default:
			got[name] = string(content)
		}
	}
}

func changesStay(b *bench) {
	kept, gone := b.file("kept", "before"), b.file("gone", "before")
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	b.sh(sb, "echo -n after > kept; rm gone; mkdir d; echo -n new > d/f")
	b.want(sb, "cat kept; ls", "afterd\nkept")
	b.hostHas(kept, "before")
	b.hostHas(gone, "before")
	if _, err := os.Lstat(filepath.Join(b.work, "d")); err == nil {
		b.Error("the host has a folder that a command made")
	}
	got := b.upper(sb)
	for path, want := range map[string]string{"kept": "after", "gone": "deleted", "d": "folder", "d/f": "new"} {
		if path = filepath.Join(b.work, path); got[path] != want {
			b.Errorf("the upper layer's %s = %q, want %q", path, got[path], want)
		}
	}
}

func hidden(b *bench) {
	file, dir := b.file("secret", "key"), filepath.Dir(b.file("keys/one", "key"))
	link := filepath.Join(b.work, "link")
	if err := os.Symlink("target", link); err != nil {
		b.Fatal(err)
	}
	target := b.file("target", "key")
	sb := b.start(sandbox.Spec{Hide: []string{file, dir, link, filepath.Join(b.work, "nothing")}})
	defer b.close(sb)
	b.want(sb, "ls -A", "")
	for _, p := range []string{file, dir, dir + "/one", link, target} {
		b.fails(sb, "cat "+p)
		b.fails(sb, "ls -d "+p)
	}
	// What is made in their place is new, and shows nothing of what is hidden.
	b.want(sb, "mkdir keys && ls -A keys; echo mine > secret; cat secret", "mine")
	b.want(sb, "rm -r keys secret; ls -A", "")
	b.want(sb, "mv ../"+filepath.Base(b.work)+" ../moved && ls -A ../moved", "")
	b.hostHas(file, "key")
	if _, err := os.Lstat(filepath.Join(b.work, "nothing")); err == nil {
		b.Error("hiding a path that does not exist made it on the host")
	}
}

func readOnly(b *bench) {
	dir := filepath.Dir(b.file("ro/f", "before"))
	sb := b.start(sandbox.Spec{ReadOnly: []string{dir}})
	defer b.close(sb)
	b.want(sb, "cat ro/f", "before")
	for _, line := range []string{"echo x > ro/f", "touch ro/new", "rm ro/f", "chmod 777 ro/f", "mv ro other"} {
		b.fails(sb, line)
	}
	b.want(sb, "echo fine > rw; cat rw", "fine")
	b.hostHas(filepath.Join(dir, "f"), "before")
}

func busyUpper(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	b.sh(sb, "echo first > f; (while :; do echo x >> busy; done) >/dev/null 2>&1 &")
	got := b.upper(sb)
	if got[filepath.Join(b.work, "f")] != "first\n" {
		b.Errorf("the upper layer's f = %q", got[filepath.Join(b.work, "f")])
	}
}

func two(b *bench) {
	first, second := b.start(sandbox.Spec{}), b.start(sandbox.Spec{})
	defer b.close(first)
	defer b.close(second)
	if first.ID() == second.ID() {
		b.Error("two sandboxes have one ID")
	}
	b.sh(first, "echo x > only; sleep 300 >/dev/null 2>&1 &")
	b.want(second, "ls -A", "")
	b.want(second, "cat /proc/[0-9]*/comm | grep -c '^sleep$'", "0")
	b.close(first)
	b.want(second, "echo still here", "still here")
}

func refused(b *bench) {
	for _, tt := range []struct {
		name, want string
		spec       sandbox.Spec
	}{
		{"a working folder that is not absolute", "not absolute", sandbox.Spec{WorkDir: "here"}},
		{"an ID of another form", "not a sandbox's ID", sandbox.Spec{ID: "../x", WorkDir: "/"}},
		{"hiding the root folder", "root folder", sandbox.Spec{WorkDir: "/", Hide: []string{"/"}}},
		{"a read-only path that does not exist", "no such file", sandbox.Spec{WorkDir: "/", ReadOnly: []string{"/does/not/exist"}}},
	} {
		sb, err := b.driver.Start(b.Context(), &tt.spec)
		if err == nil {
			sb.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			b.Errorf("%s: err = %v, want one with %q", tt.name, err, tt.want)
		}
	}
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	res, err := b.try(sb, agent.ExecParams{Argv: []string{"/does/not/exist"}})
	if err != nil || res.NotStarted != "not_found" {
		b.Errorf("a command that does not exist: %+v, %v", res, err)
	}
}
