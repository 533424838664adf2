//go:build linux

package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/rpc"
)

func TestListDir(t *testing.T) {
	dir := t.TempDir()
	w := connect(t, nil)
	for _, name := range []string{"b", "a", "Z", "\xff\xfe", "é", "new\nline"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dir", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := w.call(agent.MethodListDir, object{"path": dir})
	want := `{"entries":[{"name":"Z","is_dir":false,"size":1},{"name":"a","is_dir":false,"size":1},{"name":"b","is_dir":false,"size":1},` +
		`{"name":"dir","is_dir":true,"size":0},{"name":"link","is_dir":false,"size":3},{"name":"new\nline","is_dir":false,"size":8},` +
		`{"name":"é","is_dir":false,"size":2},{"name":"` + "\uFFFD\uFFFD" + `","is_dir":false,"size":2}]}`
	if string(r.Result) != want {
		t.Errorf("list_dir = %s, want %s; err = %v", r.Result, want, r.Error)
	}
	if r := w.call(agent.MethodListDir, object{"path": filepath.Join(dir, "dir")}); string(r.Result) != `{"entries":[]}` {
		t.Errorf("an empty folder: %s, err = %v", r.Result, r.Error)
	}
	for path, want := range map[string]string{
		"/no/such": "list /no/such: no such file", filepath.Join(dir, "a"): "not a directory",
		"/dev/zero": "not a directory",
	} {
		if r := w.call(agent.MethodListDir, object{"path": path}); r.Error == nil || r.Error.Code != rpc.CodeInternal || !strings.Contains(r.Error.Message, want) {
			t.Errorf("list_dir %s: err = %v, want %q", path, r.Error, want)
		}
	}
}

func TestListDirOfAHundredThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 100,000 files")
	}
	dir, err := os.MkdirTemp("/dev/shm", "airlock-test-") //nolint:usetesting // in memory: a disk takes ten seconds
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i := range 100_000 {
		fd, err := syscall.Open(fmt.Sprintf("%s/file-%06d", dir, i), syscall.O_CREAT|syscall.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
	}
	var res agent.ListDirResult
	connect(t, nil).must(agent.MethodListDir, object{"path": dir}, &res)
	if len(res.Entries) != 100_000 || res.Entries[99_999].Name != "file-099999" {
		t.Errorf("%d entries", len(res.Entries))
	}
	small := connect(t, &options{MaxFrame: 1 << 20})
	if r := small.call(agent.MethodListDir, object{"path": dir}); r.Error == nil || !strings.Contains(r.Error.Message, "do not fit into one answer") {
		t.Errorf("more than a frame: err = %v", r.Error)
	}
}

func TestStat(t *testing.T) {
	dir := t.TempDir()
	w := connect(t, nil)
	odd(t, dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	if err := os.Chtimes(file, when, when); err != nil {
		t.Fatal(err)
	}
	var got agent.FileInfo
	w.must(agent.MethodStat, object{"path": file}, &got)
	if want := (agent.FileInfo{Name: "file", Type: "file", Size: 5, Mode: 0o640, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), MTime: when}); got != want {
		t.Errorf("stat = %+v, want %+v", got, want)
	}
	for name, want := range map[string]string{"fifo": "fifo", "socket": "socket", "link": "symlink", ".": "dir", "/dev/null": "device"} {
		path := filepath.Join(dir, name)
		if filepath.IsAbs(name) {
			path = name
		}
		var got agent.FileInfo
		if w.must(agent.MethodStat, object{"path": path}, &got); got.Type != want {
			t.Errorf("stat %s: type %q, want %q", name, got.Type, want)
		}
		if want == "symlink" && got.Target != "fifo" {
			t.Errorf("stat %s: target %q", name, got.Target)
		}
	}
	if w.must(agent.MethodStat, object{"path": filepath.Join(dir, "link"), "follow": true}, &got); got.Type != "fifo" {
		t.Errorf("stat with follow: type %q", got.Type)
	}
	if r := w.call(agent.MethodStat, object{"path": "/no/such"}); r.Error == nil || r.Error.Message != "stat /no/such: no such file or directory" {
		t.Errorf("stat: err = %v", r.Error)
	}
	t.Run("a time that JSON cannot say", func(t *testing.T) {
		far := time.Unix(1<<40, 0)
		if err := os.Chtimes(file, far, far); err != nil {
			t.Skipf("the file system does not take it: %v", err)
		}
		w.must(agent.MethodStat, object{"path": file}, &got)
	})
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	w := connect(t, nil)
	path := func(name string) string { return filepath.Join(dir, name) }
	ok := func(method string, params object) {
		t.Helper()
		if r := w.call(method, params); string(r.Result) != `{"success":true}` {
			t.Errorf("%s %v: %s, err = %v", method, params, r.Result, r.Error)
		}
	}
	fails := func(method string, params object, want string) {
		t.Helper()
		if r := w.call(method, params); r.Error == nil || r.Error.Code != rpc.CodeInternal || !strings.Contains(r.Error.Message, want) {
			t.Errorf("%s %v: err = %v, want %q", method, params, r.Error, want)
		}
	}
	ok(agent.MethodMkdir, object{"path": path("a")})
	fails(agent.MethodMkdir, object{"path": path("a")}, "mkdir "+path("a")+": file exists")
	ok(agent.MethodMkdir, object{"path": path("a"), "parents": true})
	fails(agent.MethodMkdir, object{"path": path("b/c")}, "no such file")
	ok(agent.MethodMkdir, object{"path": path("b/c/d/"), "parents": true, "mode": 0o1777})
	if st, err := os.Stat(path("b/c/d")); err != nil || st.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("mode = %v, err = %v", st.Mode(), err)
	}
	ok(agent.MethodWriteFile, object{"path": path("b/file"), "content": "x"})
	fails(agent.MethodMkdir, object{"path": path("b/file"), "parents": true}, "file exists")
	fails(agent.MethodMkdir, object{"path": path("b/file/x"), "parents": true}, "not a directory")

	ok(agent.MethodRename, object{"from": path("b/file"), "to": path("a/moved")})
	fails(agent.MethodRename, object{"from": path("b/file"), "to": path("a/x")}, "rename "+path("b/file")+" to "+path("a/x")+": no such file")
	fails(agent.MethodRename, object{"from": path("a/moved"), "to": path("b")}, "directory")

	keep := path("keep")
	ok(agent.MethodMkdir, object{"path": keep})
	ok(agent.MethodWriteFile, object{"path": keep + "/precious", "content": "x"})
	for _, link := range []string{path("a/link"), path("link")} {
		if err := os.Symlink(keep, link); err != nil {
			t.Fatal(err)
		}
	}
	fails(agent.MethodRemove, object{"path": path("a")}, "not empty")
	ok(agent.MethodRemove, object{"path": path("a"), "recursive": true})
	ok(agent.MethodRemove, object{"path": path("link") + "/", "recursive": true})
	ok(agent.MethodRemove, object{"path": path("b/c/d")})
	fails(agent.MethodRemove, object{"path": path("a"), "recursive": true}, "remove "+path("a")+": no such file")
	for _, path := range []string{"/", "//", ".", "..", dir + "/..", dir + "/."} {
		fails(agent.MethodRemove, object{"path": path, "recursive": true}, "is not removed")
	}
	if _, err := os.Stat(keep + "/precious"); err != nil {
		t.Errorf("what a link pointed to was removed: %v", err)
	}
}

func TestParams(t *testing.T) {
	w := connect(t, nil)
	methods := []string{
		agent.MethodPing, agent.MethodExec, agent.MethodExecCode, agent.MethodReadFile, agent.MethodWriteFile, agent.MethodListDir, agent.MethodHello,
		agent.MethodCancel, agent.MethodInput, agent.MethodResize, agent.MethodSignal, agent.MethodStat, agent.MethodMkdir, agent.MethodRename, agent.MethodRemove,
	}
	refused := func(method, params, want string) {
		t.Helper()
		r := w.call(method, params)
		if r.Error == nil || r.Error.Code != rpc.CodeInvalidParams || !strings.Contains(r.Error.Message, want) {
			t.Errorf("%s %s: err = %v, want code %d and %q", method, params, r.Error, rpc.CodeInvalidParams, want)
		}
	}
	for _, method := range methods {
		refused(method, `["by", "position"]`, "must be an object")
	}
	for _, tt := range []struct{ method, params, want string }{
		{"exec", `{}`, "cmd is missing"},
		{"exec", `{"cmd":null}`, "cmd is missing"},
		{"exec", `{"cmd":1}`, "cmd: want a string, got number"},
		{"exec", `{"cmd":"x","argv":["y"]}`, "exclude each other"},
		{"exec", `{"argv":[]}`, "names no program"},
		{"exec", `{"argv":[""]}`, "names no program"},
		{"exec", `{"argv":["x",1]}`, "argv: want a string, got number"},
		{"exec", `{"argv":"x"}`, "argv: want an array, got string"},
		{"exec", `{"argv":["x","a\u0000b"]}`, "argv[1] has a NUL byte"},
		{"exec", `{"cmd":"a\u0000b"}`, "cmd has a NUL byte"},
		{"exec", `{"cmd":"x","cwd":"relative"}`, "not absolute"},
		{"exec", `{"cmd":"x","cwd":"/a\u0000"}`, "cwd has a NUL byte"},
		{"exec", `{"cmd":"x","user":"a\u0000"}`, "user has a NUL byte"},
		{"exec", `{"cmd":"x","timeout_ms":-1}`, "timeout_ms is negative"},
		{"exec", `{"cmd":"x","timeout_ms":"1"}`, "timeout_ms: want a whole number in range, got string"},
		{"exec", `{"cmd":"x","timeout_ms":1e30}`, "timeout_ms: want a whole number"},
		{"exec", `{"cmd":"x","max_procs":-1}`, "max_procs is negative"},
		{"exec", `{"cmd":"x","env":{"":"v"}}`, "env"},
		{"exec", `{"cmd":"x","env":{"a=b":"v"}}`, `"a=b"`},
		{"exec", `{"cmd":"x","env":{"A":"v\u0000"}}`, "NUL"},
		{"exec", `{"cmd":"x","env":{"A":1}}`, "env"},
		{"exec", `{"cmd":"x","env":[]}`, "env: want an object, got array"},
		{"exec", `{"cmd":"x","groups":[-1]}`, "groups"},
		{"exec", `{"cmd":"x","groups":[4294967295]}`, "is no group"},
		{"exec", `{"cmd":"x","tty":{"rows":-1}}`, "tty.rows"},
		{"exec", `{"cmd":"x","tty":true}`, "tty: want an object, got bool"},
		{"exec", `{"cmd":"x","stream":"yes"}`, "stream: want true or false"},
		{"cancel", `{}`, "id is missing"},
		{"cancel", `{"id":-1}`, "id: want a whole number"},
		{"resize", `{"id":1}`, "rows is missing"},
		{"resize", `{"id":1,"rows":1}`, "cols is missing"},
		{"resize", `{"id":1,"rows":70000,"cols":1}`, "rows"},
		{"rename", `{"from":"a"}`, "to is missing"},
		{"rename", `{"to":"a"}`, "from is missing"},
		{"mkdir", `{"path":"/x","mode":4096}`, "mode"},
		{"stat", `{"path":7}`, "path: want a string"},
		{"remove", `{"path":""}`, "path is empty"},
		{"list_dir", `{}`, "path is missing"},
	} {
		refused(tt.method, tt.params, tt.want)
	}
	t.Run("a relative path is relative to the agent's folder", func(t *testing.T) {
		t.Chdir(t.TempDir())
		w.must(agent.MethodWriteFile, object{"path": "here", "content": "x"}, &agent.Success{})
		if _, err := os.Stat("here"); err != nil {
			t.Error(err)
		}
	})
	t.Run("no params are empty params", func(t *testing.T) {
		if r := w.call(agent.MethodPing, json.RawMessage("null")); string(r.Result) != `{"pong":true}` {
			t.Errorf("ping: %s, err = %v", r.Result, r.Error)
		}
	})
}
