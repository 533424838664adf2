package builtin_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"airlock/internal/tool"
)

// wantFile fails the test unless a file has this content and mode, and no temporary file
// lies beside it.
func wantFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != content {
		t.Errorf("%s: %q, %v; want %q", name, got, err, content)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s: %v, %v; want mode %v", name, info.Mode(), err, mode)
	}
	wantNoTemp(t, filepath.Dir(name))
}

func wantNoTemp(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, ".airlock-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestWriteFile(t *testing.T) {
	for _, where := range []tool.Where{tool.OnHost, tool.InSandbox} {
		t.Run(where.String(), func(t *testing.T) { testWriteFile(t, where) })
	}
}

func testWriteFile(t *testing.T, where tool.Where) {
	w := newWorld(t)
	w.m.Where = where
	type args = map[string]any
	at := func(name string) string { return filepath.Join(w.dir, name) }
	t.Run("a new file", func(t *testing.T) {
		res := w.call("fs.write_file", args{"path": "new", "content": "héllo\n", "backup": true})
		if !res.OK || res.Stdout != "" || res.Stderr != "" || res.Meta["bytes_written"] != 7 || res.Meta["backup_path"] != nil {
			t.Errorf("%+v", res)
		}
		wantFile(t, at("new"), "héllo\n", 0o644)
	})
	t.Run("a new file that only its owner reads", func(t *testing.T) {
		w.call("fs.write_file", args{"path": "secret", "content": "x", "mode": "600"})
		wantFile(t, at("secret"), "x", 0o600)
	})
	t.Run("a file keeps its mode", func(t *testing.T) {
		w.call("fs.write_file", args{"path": "secret", "content": "y"})
		wantFile(t, at("secret"), "y", 0o600)
	})
	t.Run("unless another is asked for", func(t *testing.T) {
		w.call("fs.write_file", args{"path": "secret", "content": "z", "mode": "0755"})
		wantFile(t, at("secret"), "z", 0o755)
	})
	t.Run("nothing at all", func(t *testing.T) {
		w.call("fs.write_file", args{"path": "new", "content": ""})
		wantFile(t, at("new"), "", 0o644)
	})
	t.Run("any bytes", func(t *testing.T) {
		w.call("fs.write_file", args{"path": "new", "content": base64.StdEncoding.EncodeToString([]byte("\x00\xff")), "encoding": "base64"})
		wantFile(t, at("new"), "\x00\xff", 0o644)
	})
	t.Run("names nobody expects", func(t *testing.T) {
		for _, name := range []string{"-rf", "new\nline", "\x1b[2J", " ", "a'b\"c$(id)`id`", strings.Repeat("n", 255)} {
			if res := w.call("fs.write_file", args{"path": name, "content": name}); !res.OK {
				t.Errorf("%q: %+v", name, res)
			}
			wantFile(t, at(name), name, 0o644)
		}
	})
	t.Run("folders on the way", func(t *testing.T) {
		w := *w
		w.t = t
		w.wantCode(w.call("fs.write_file", args{"path": "a/b/c", "content": "x"}), tool.NotFound, `"create_dirs": true`)
		if res := w.call("fs.write_file", args{"path": "a/b/c", "content": "x", "create_dirs": true}); !res.OK {
			t.Errorf("%+v", res)
		}
		wantFile(t, at("a/b/c"), "x", 0o644)
	})
	t.Run("a link is followed and stays", func(t *testing.T) {
		write(t, at("real"), "old")
		chmod(t, at("real"), 0o640)
		link(t, "real", at("l1"))
		link(t, w.dir+"/l1", at("a/l2"))
		if res := w.call("fs.write_file", args{"path": "a/l2", "content": "through"}); !res.OK {
			t.Errorf("%+v", res)
		}
		wantFile(t, at("real"), "through", 0o640)
		for _, name := range []string{"l1", "a/l2"} {
			if info, err := os.Lstat(at(name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s is no link any more: %v", name, err)
			}
		}
	})
	t.Run("a link to what is not there yet", func(t *testing.T) {
		link(t, "a/fresh", at("dangling"))
		w.call("fs.write_file", args{"path": "dangling", "content": "made"})
		wantFile(t, at("a/fresh"), "made", 0o644)
	})
}

func TestWriteFileRefuses(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.dir, "file"), "old")
	link(t, "loop", filepath.Join(w.dir, "loop"))
	link(t, "dir", filepath.Join(w.dir, "dirlink"))
	if err := syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, mode, encoding, content string
		code                          tool.ErrorCode
		want                          string
	}{
		"a folder":                {"dir", "", "", "x", tool.InvalidArgs, "is a folder"},
		"a link to a folder":      {"dirlink", "", "", "x", tool.InvalidArgs, "is a folder"},
		"the name of a folder":    {"new/", "", "", "x", tool.InvalidArgs, "name of a folder"},
		"the folder itself":       {"dir/..", "", "", "x", tool.InvalidArgs, "name of a folder"},
		"a pipe":                  {"pipe", "", "", "x", tool.InvalidArgs, "no regular file"},
		"a device":                {"/dev/null", "", "", "x", tool.InvalidArgs, "no regular file"},
		"a link to itself":        {"loop", "", "", "x", tool.InvalidArgs, "too many levels"},
		"below a file":            {"file/x", "", "", "x", tool.NotFound, "not a directory"},
		"a mode with set-id bits": {"file", "4755", "", "x", tool.InvalidArgs, "args.mode"},
		"a mode in other digits":  {"file", "0899", "", "x", tool.InvalidArgs, "octal"},
		"a mode in letters":       {"file", "u+x", "", "x", tool.InvalidArgs, "octal"},
		"base64 that is none":     {"file", "", "base64", "x", tool.InvalidArgs, "not base64"},
		"a name that is too long": {strings.Repeat("x", 256), "", "", "x", tool.InvalidArgs, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			args := map[string]any{"path": c.path, "content": c.content, "backup": true}
			if c.mode != "" {
				args["mode"] = c.mode
			}
			if c.encoding != "" {
				args["encoding"] = c.encoding
			}
			w := *w
			w.t = t
			w.wantCode(w.call("fs.write_file", args), c.code, c.want)
			wantFile(t, filepath.Join(w.dir, "file"), "old", 0o644)
			if left, _ := filepath.Glob(filepath.Join(w.dir, "*.bak")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

var backupName = regexp.MustCompile(`\.aishell-\d{14}(-\d+)?\.bak$`)

func TestWriteFileKeepsBackups(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "conf")
	write(t, file, "0")
	chmod(t, file, 0o640)
	kept := map[string]string{}
	for i := range 5 {
		res := w.call("fs.write_file", map[string]any{"path": file, "content": fmt.Sprint(i + 1), "backup": true})
		backup, _ := res.Meta["backup_path"].(string)
		if !res.OK || !strings.HasPrefix(backup, file+".aishell-") || !backupName.MatchString(backup) {
			t.Fatalf("%+v", res)
		}
		if before, twice := kept[backup]; twice {
			t.Fatalf("the backup of %s was overwritten", before)
		}
		kept[backup] = fmt.Sprint(i)
	}
	for backup, content := range kept {
		wantFile(t, backup, content, 0o640)
	}
	wantFile(t, file, "5", 0o640)
}

func TestWriteFileKeepsABackupWithoutHardLinks(t *testing.T) {
	w := newWorld(t)
	w.m.User = "no-such-user" // so that no program can be run
	file := filepath.Join(w.dir, "conf")
	content := strings.Repeat("0123456789", 500_000)
	write(t, file, content)
	chmod(t, file, 0o444)
	if os.Getuid() != 0 {
		chmod(t, file, 0o600)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		res := w.call("fs.write_file", map[string]any{"path": file, "content": "new", "backup": true})
		backup, _ := res.Meta["backup_path"].(string)
		if !res.OK {
			t.Fatalf("%+v", res)
		}
		wantFile(t, backup, content, info.Mode().Perm())
		wantFile(t, file, "new", info.Mode().Perm())
		content = "new"
	}
	if names, _ := filepath.Glob(file + ".aishell-*.bak"); len(names) != 3 {
		t.Errorf("backups: %q", names)
	}
}

func TestWriteFileKeepsTheOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	w := newWorld(t)
	file := filepath.Join(w.dir, "theirs")
	write(t, file, "old")
	if err := os.Chown(file, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	res := w.call("fs.write_file", map[string]any{"path": file, "content": "new", "backup": true})
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); !res.OK || st.Uid != 12345 || st.Gid != 54321 || res.Meta["owner_kept"] != nil {
		t.Errorf("%+v: owner %d:%d", res, st.Uid, st.Gid)
	}
	w.m.User = "no-such-user"
	if res := w.call("fs.write_file", map[string]any{"path": file, "content": "newer"}); !res.OK || res.Meta["owner_kept"] != false {
		t.Errorf("%+v", res)
	}
}

func TestWriteFileOfManyAtOnceLeavesOneWhole(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "shared")
	write(t, file, strings.Repeat("0", 50_000))
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			res := w.call("fs.write_file", map[string]any{"path": file, "content": strings.Repeat(fmt.Sprint(i+1), 50_000), "backup": true})
			if !res.OK {
				t.Errorf("%+v", res)
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			wantWhole(t, file)
		}
	})
	writers.Wait()
	close(stop)
	reader.Wait()
	wantNoTemp(t, w.dir)
	names, _ := filepath.Glob(file + ".aishell-*.bak")
	if len(names) != 8 {
		t.Errorf("%d backups of 8 writes: %q", len(names), names)
	}
	for _, name := range names {
		wantWhole(t, name)
	}
}

func wantWhole(t *testing.T, file string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || len(got) != 50_000 || strings.Trim(string(got), string(got[:1])) != "" {
		t.Errorf("%s: %d bytes, torn: %v", file, len(got), err)
	}
}

// Somebody swaps the file for links to a hidden one, all the time: whenever that happens
// between two looks, the hidden one keeps its content.
func TestWriteFileWhileLinksAreSwapped(t *testing.T) {
	w := newWorld(t)
	file, other := filepath.Join(w.dir, "file"), filepath.Join(w.dir, "other")
	write(t, other, "other")
	w.m.Hidden = func(name string) bool { return filepath.Base(name) == "other" }
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			temp := fmt.Sprintf("%s.%d", file, i%2)
			_ = os.Symlink("other", temp)
			_ = os.Rename(temp, file)
			_ = os.Remove(file)
			_ = os.WriteFile(file, []byte("mine"), 0o644)
		}
	})
	for range 200 {
		w.call("fs.write_file", map[string]any{"path": file, "content": "written"})
	}
	close(stop)
	swapper.Wait()
	wantFile(t, other, "other", 0o644)
}

func TestWriteFileToADiskThatIsFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	w := newWorld(t)
	if err := syscall.Mount("airlock-test", w.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(w.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(w.dir, "conf")
	write(t, file, "old")
	w.wantCode(w.call("fs.write_file", map[string]any{"path": file, "content": strings.Repeat("x", 200_000), "backup": true}), tool.IOError, "no space left")
	wantFile(t, file, "old", 0o644)
	names, _ := os.ReadDir(w.dir)
	if len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestWriteFileDoesNotReplaceWhatMayNotBeWritten(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everything")
	}
	w := newWorld(t)
	file := filepath.Join(w.dir, "readonly")
	write(t, file, "old")
	chmod(t, file, 0o444)
	w.wantCode(w.call("fs.write_file", map[string]any{"path": file, "content": "new"}), tool.PermissionDenied)
	wantFile(t, file, "old", 0o444)
}

func TestWriteFileThatIsCanceledLeavesTheOld(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "conf")
	write(t, file, "old")
	w.m.MaxTime = 1
	w.wantCode(w.call("fs.write_file", map[string]any{"path": file, "content": "new"}), tool.Timeout)
	wantFile(t, file, "old", 0o644)
}
