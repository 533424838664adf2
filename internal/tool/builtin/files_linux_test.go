package builtin_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
)

func TestReadFile(t *testing.T) {
	w := newWorld(t)
	write(t, filepath.Join(w.dir, "text"), "worker_processes auto;\n")
	write(t, filepath.Join(w.dir, "accents"), "aéz")
	write(t, filepath.Join(w.dir, "binary"), "a\xffb\x00")
	write(t, filepath.Join(w.dir, "cut"), "a\xc3")
	write(t, filepath.Join(w.dir, "empty"), "")
	write(t, filepath.Join(w.dir, "-n"), "dash")
	write(t, filepath.Join(w.dir, "new\nline\x1b[2J"), "odd")
	link(t, "text", filepath.Join(w.dir, "link"))
	link(t, "loop", filepath.Join(w.dir, "loop"))
	link(t, "nowhere", filepath.Join(w.dir, "dangling"))
	if err := syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(w.dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	type args = map[string]any
	for name, c := range map[string]struct {
		args      args
		stdout    string
		read      int
		truncated bool
		code      tool.ErrorCode
		stderr    string
	}{
		"a whole file":                      {args{"path": "text", "max_bytes": 10240}, "worker_processes auto;\n", 23, false, "", ""},
		"an absolute path":                  {args{"path": w.dir + "/text"}, "worker_processes auto;\n", 23, false, "", ""},
		"a part":                            {args{"path": "text", "max_bytes": 6}, "worker", 6, true, "", ""},
		"exactly all":                       {args{"path": "text", "max_bytes": 23}, "worker_processes auto;\n", 23, false, "", ""},
		"from an offset":                    {args{"path": "text", "offset": 7, "max_bytes": 9}, "processes", 9, true, "", ""},
		"from behind the end":               {args{"path": "text", "offset": 1 << 50}, "", 0, false, "", ""},
		"nothing":                           {args{"path": "empty"}, "", 0, false, "", ""},
		"a character is not cut":            {args{"path": "accents", "max_bytes": 2}, "a", 1, true, "", ""},
		"a character that fits":             {args{"path": "accents", "max_bytes": 3}, "aé", 3, true, "", ""},
		"less than a character":             {args{"path": "accents", "offset": 1, "max_bytes": 1}, "", 0, false, tool.InvalidArgs, "less than the next character"},
		"from within a character":           {args{"path": "accents", "offset": 2}, "", 0, false, tool.IOError, "not UTF-8 at byte 2"},
		"binary":                            {args{"path": "binary"}, "", 0, false, tool.IOError, `not UTF-8 at byte 1: ask for it with "encoding": "base64"`},
		"half a character at the end":       {args{"path": "cut"}, "", 0, false, tool.IOError, "not UTF-8 at byte 1"},
		"binary as base64":                  {args{"path": "binary", "encoding": "base64"}, base64.StdEncoding.EncodeToString([]byte("a\xffb\x00")), 4, false, "", ""},
		"a part as base64":                  {args{"path": "binary", "encoding": "base64", "max_bytes": 1}, "YQ==", 1, true, "", ""},
		"a name like an option":             {args{"path": "-n"}, "dash", 4, false, "", ""},
		"a name with lines":                 {args{"path": "new\nline\x1b[2J"}, "odd", 3, false, "", ""},
		"a link":                            {args{"path": "link"}, "worker_processes auto;\n", 23, false, "", ""},
		"a link that leads nowhere":         {args{"path": "dangling"}, "", 0, false, tool.NotFound, "fs.read_file: dangling: no such file or directory"},
		"a link to itself":                  {args{"path": "loop"}, "", 0, false, tool.InvalidArgs, "too many levels"},
		"what is not there":                 {args{"path": "none\x1b[2J"}, "", 0, false, tool.NotFound, `fs.read_file: none\x1b[2J: no such file`},
		"below a file":                      {args{"path": "text/x"}, "", 0, false, tool.NotFound, "not a directory"},
		"a folder":                          {args{"path": "."}, "", 0, false, tool.InvalidArgs, "use fs.list_dir"},
		"a named pipe that nobody writes":   {args{"path": "pipe"}, "", 0, false, tool.InvalidArgs, "a named pipe"},
		"a socket":                          {args{"path": "socket"}, "", 0, false, tool.InvalidArgs, "a socket"},
		"a device without end":              {args{"path": "/dev/zero"}, "", 0, false, tool.InvalidArgs, "a device"},
		"a terminal":                        {args{"path": "/dev/tty"}, "", 0, false, tool.InvalidArgs, "a device"},
		"a home that no shell resolves":     {args{"path": "~/x"}, "", 0, false, tool.NotFound, "~/x"},
		"a path with a NUL":                 {args{"path": "a\x00b"}, "", 0, false, tool.InvalidArgs, "NUL"},
		"no path":                           {args{}, "", 0, false, tool.InvalidArgs, "args.path: is missing"},
		"a path longer than there are":      {args{"path": strings.Repeat("x", 4097)}, "", 0, false, tool.InvalidArgs, "at most 4096"},
		"a name longer than there are":      {args{"path": strings.Repeat("x", 300)}, "", 0, false, tool.InvalidArgs, "too long"},
		"more than an answer holds":         {args{"path": "text", "max_bytes": 1<<20 + 1}, "", 0, false, tool.InvalidArgs, "at most 1048576"},
		"a negative offset":                 {args{"path": "text", "offset": -1}, "", 0, false, tool.InvalidArgs, "at least 0"},
		"an encoding that there is not":     {args{"path": "text", "encoding": "raw"}, "", 0, false, tool.InvalidArgs, `"utf8", "base64"`},
		"an argument in capitals":           {args{"path": "text", "Path": "/etc/passwd"}, "", 0, false, tool.InvalidArgs, "args.Path"},
		"a number where a path should be":   {args{"path": 7}, "", 0, false, tool.InvalidArgs, "want a text"},
		"the agent's memory":                {args{"path": "/proc/self/mem"}, "", 0, false, tool.NotFound, "no such file"},
		"the agent's environment":           {args{"path": "/proc/thread-self/../../environ"}, "", 0, false, tool.NotFound, "no such file"},
		"the environment of who started it": {args{"path": fmt.Sprintf("/proc/%d/environ", os.Getppid())}, "", 0, false, tool.NotFound, "no such file"},
		"the kernel's memory":               {args{"path": "/proc/self/root/proc/kcore", "max_bytes": 16}, "", 0, false, tool.NotFound, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			res := w.call("fs.read_file", c.args)
			w.wantCode(res, c.code, c.stderr)
			if c.code == "" && (res.Stdout != c.stdout || res.Meta["bytes_read"] != c.read || res.Meta["truncated"] != c.truncated) {
				t.Errorf("%+v, want %q, %d, %v", res, c.stdout, c.read, c.truncated)
			}
		})
	}
}

func TestReadFileOfSystemFilesWithoutASize(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"/proc/self/status", "/proc/cpuinfo", "/proc/mounts"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		res := w.call("fs.read_file", map[string]any{"path": name})
		if !res.OK || !strings.HasPrefix(res.Stdout, string(want[:20])) {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestReadFileOfAHugeFile(t *testing.T) {
	w := newWorld(t)
	huge := filepath.Join(w.dir, "huge")
	write(t, huge, "begin")
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Skipf("this file system has no sparse files: %v", err)
	}
	res := w.call("fs.read_file", map[string]any{"path": "huge"})
	if !res.OK || len(res.Stdout) != agent.MaxOutput || res.Meta["truncated"] != true || res.Meta["size"] != int64(1<<40) {
		t.Errorf("ok %v, %d bytes, meta %v", res.OK, len(res.Stdout), res.Meta)
	}
	res = w.call("fs.read_file", map[string]any{"path": "huge", "encoding": "base64"})
	if data, err := base64.StdEncoding.DecodeString(res.Stdout); err != nil || len(data) != 786432 {
		t.Errorf("base64 of %d bytes: %v", len(data), err)
	}
}

func TestPermissionDenied(t *testing.T) {
	w := newWorld(t)
	if os.Getuid() == 0 {
		// Even root cannot write below /proc/sys/kernel/random.
		w.wantCode(w.call("fs.write_file", map[string]any{"path": "/proc/sys/kernel/random/boot_id", "content": "x"}), tool.PermissionDenied)
		t.Skip("root may read everything: the rest needs an ordinary user")
	}
	locked := filepath.Join(w.dir, "locked")
	write(t, locked, "old")
	chmod(t, locked, 0)
	w.wantCode(w.call("fs.read_file", map[string]any{"path": "locked"}), tool.PermissionDenied, "locked: permission denied")
	w.wantCode(w.call("fs.write_file", map[string]any{"path": "locked", "content": "x"}), tool.PermissionDenied)
	dir := filepath.Join(w.dir, "dir")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	w.wantCode(w.call("fs.write_file", map[string]any{"path": "dir/new", "content": "x"}), tool.PermissionDenied, "its folder takes no new file")
	w.wantCode(w.call("fs.write_file", map[string]any{"path": "dir/new/deep", "content": "x", "create_dirs": true}), tool.PermissionDenied)
	chmod(t, dir, 0)
	w.wantCode(w.call("fs.list_dir", map[string]any{"path": "dir"}), tool.PermissionDenied)
	chmod(t, dir, 0o700)
}

func TestListDir(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.dir, "-rf"), "12345")
	write(t, filepath.Join(w.dir, "new\nline\x1b[2J"), "")
	write(t, filepath.Join(w.dir, "bad\xff"), "1")
	link(t, "dir", filepath.Join(w.dir, "link"))
	res := w.call("fs.list_dir", map[string]any{})
	want := "           5  -rf\n           1  bad�\n           -  dir/\n           3  link\n           0  new\\nline\\x1b[2J\n"
	if !res.OK || res.Stdout != want || res.Meta["truncated"] != false {
		t.Errorf("%q, want %q; %+v", res.Stdout, want, res)
	}
	entries := res.Meta["entries"].([]agent.FileEntry)
	if len(entries) != 5 || entries[4].Name != "new\nline\x1b[2J" || !entries[2].IsDir || entries[0].Size != 5 {
		t.Errorf("entries: %+v", entries)
	}
	res = w.call("fs.list_dir", map[string]any{"path": ".", "max_entries": 2})
	if entries := res.Meta["entries"].([]agent.FileEntry); len(entries) != 2 || res.Meta["truncated"] != true {
		t.Errorf("%+v", res)
	}
	if res := w.call("fs.list_dir", map[string]any{"max_entries": 5}); res.Meta["truncated"] != false {
		t.Errorf("%+v", res)
	}
	w.wantCode(w.call("fs.list_dir", map[string]any{"path": "-rf"}), tool.InvalidArgs, "is no folder: use fs.read_file")
	w.wantCode(w.call("fs.list_dir", map[string]any{"path": "none"}), tool.NotFound, "fs.list_dir: none: no such file")
	w.wantCode(w.call("fs.list_dir", map[string]any{"path": "-rf/x"}), tool.NotFound)
}

func TestListDirIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 1100 {
		write(t, filepath.Join(w.dir, fmt.Sprintf("%04d%s", i, strings.Repeat("é", 120))), "")
	}
	res := w.call("fs.list_dir", map[string]any{"max_entries": 10000})
	entries := res.Meta["entries"].([]agent.FileEntry)
	if len(entries) < 1000 || len(entries) == 1100 || res.Meta["truncated"] != true || strings.HasSuffix(res.Stdout, agent.TruncatedMarker) {
		t.Errorf("%d entries, truncated %v", len(entries), res.Meta["truncated"])
	}
}

func TestHiddenPathsAreAbsent(t *testing.T) {
	w := newWorld(t)
	secrets := filepath.Join(w.dir, "secrets")
	if err := os.MkdirAll(filepath.Join(secrets, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(secrets, "key"), "secret")
	write(t, filepath.Join(w.dir, "open"), "open")
	link(t, "secrets", filepath.Join(w.dir, "dirlink"))
	link(t, "dirlink/key", filepath.Join(w.dir, "filelink"))
	link(t, secrets+"/new", filepath.Join(w.dir, "newlink"))
	link(t, "loop", filepath.Join(w.dir, "loop"))
	real, err := filepath.EvalSymlinks(secrets)
	if err != nil {
		t.Fatal(err)
	}
	w.m.Hidden = func(name string) bool { return name == real || strings.HasPrefix(name, real+"/") }
	for _, name := range []string{
		"secrets/key", "./secrets//key", "open/../secrets/key", "secrets/deep/../key", secrets + "/key", "dirlink/key", "filelink",
		"secrets/deep/../../secrets/key", "/proc/self/root" + secrets + "/key", "/proc/self/cwd/../../../../../../.." + secrets + "/key", "newlink",
		"secrets", "dirlink", "secrets/none/x",
	} {
		for _, call := range []string{"fs.read_file", "fs.list_dir"} {
			res := w.call(call, map[string]any{"path": name})
			if res.Code() != tool.NotFound || strings.Contains(res.Stdout+res.Stderr, "secret\n") {
				t.Errorf("%s %s: %+v", call, name, res)
			}
		}
		// What is hidden and what is not there are told in the same words.
		if name == "secrets/key" {
			hidden := w.call("fs.read_file", map[string]any{"path": "secrets/key"}).Stderr
			absent := w.call("fs.read_file", map[string]any{"path": "nothing/key"}).Stderr
			if strings.Replace(hidden, "secrets", "nothing", 1) != absent {
				t.Errorf("%q is told from %q", hidden, absent)
			}
		}
		res := w.call("fs.write_file", map[string]any{"path": name, "content": "x", "create_dirs": true})
		if res.OK {
			t.Errorf("fs.write_file %s: %+v", name, res)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(secrets, "key")); string(got) != "secret" {
		t.Errorf("the secret is now %q", got)
	}
	if got, _ := os.ReadDir(secrets); len(got) != 2 {
		t.Errorf("in the hidden folder are %v", got)
	}
	if res := w.call("fs.read_file", map[string]any{"path": "open"}); res.Stdout != "open" {
		t.Errorf("%+v", res)
	}
	if res := w.call("fs.list_dir", map[string]any{}); strings.Contains(res.Stdout, "secrets/") || len(res.Meta["entries"].([]agent.FileEntry)) != 5 {
		t.Errorf("%+v", res)
	}
	w.wantCode(w.call("fs.read_file", map[string]any{"path": "loop"}), tool.InvalidArgs, "too many levels")
}

func TestReadFileReturnsSoonAfterItsContext(t *testing.T) {
	w := newWorld(t)
	w.m.MaxTime = time.Nanosecond
	w.wantCode(w.call("fs.read_file", map[string]any{"path": "/etc/passwd"}), tool.Timeout)
}

func link(t testing.TB, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func chmod(t testing.TB, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}
