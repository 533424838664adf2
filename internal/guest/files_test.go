//go:build linux

package guest_test

import (
	"bytes"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/agent"
	"airlock/internal/rpc"
)

// odd makes one of each kind of file that is not regular, and returns their names.
func odd(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Symlink("fifo", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		dir: "is a folder", filepath.Join(dir, "fifo"): "is a named pipe", filepath.Join(dir, "link"): "is a named pipe",
		filepath.Join(dir, "socket"): "is a socket", "/dev/zero": "is a device", "/dev/tty": "is a device",
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	w := connect(t, &options{MaxFrame: 1 << 20})
	w.hello()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := file("text", []byte("héllo wörld\n"))
	binary := file("binary", []byte{0, 1, 0xFF})
	empty := file("empty", nil)
	big := file("big", bytes.Repeat([]byte("x"), 2<<20))
	escapes := file("escapes", bytes.Repeat([]byte{1}, 200_000))
	under := file("under", bytes.Repeat([]byte("y"), 1<<20-600))
	latin := file("latin", []byte("caf\xe9 and more"))

	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	comm := string(name)

	for _, tt := range []struct {
		name   string
		params object
		want   agent.ReadFileResult
		raw    string
	}{
		{"text as it is", object{"path": text}, agent.ReadFileResult{Content: "héllo wörld\n"}, ""},
		{"an empty file", object{"path": empty}, agent.ReadFileResult{}, ""},
		{"base64", object{"path": binary, "encoding": "base64"}, agent.ReadFileResult{Content: "AAH/"}, ""},
		{"raw", object{"path": binary, "encoding": "raw"}, agent.ReadFileResult{}, "\x00\x01\xff"},
		{"an empty file, raw", object{"path": empty, "encoding": "raw"}, agent.ReadFileResult{}, ""},
		{"almost a frame", object{"path": under}, agent.ReadFileResult{Content: strings.Repeat("y", 1<<20-600)}, ""},
		{"a range", object{"path": text, "offset": 3, "limit": 4}, agent.ReadFileResult{Content: "llo ", Size: 14}, ""},
		{"a range up to the end", object{"path": text, "offset": 10, "limit": 4}, agent.ReadFileResult{Content: "rld\n"[0:4], Size: 14, EOF: true}, ""},
		{"a range beyond the end", object{"path": text, "offset": 100, "limit": 4}, agent.ReadFileResult{Size: 14, EOF: true}, ""},
		{"a range from an offset to the end", object{"path": text, "offset": 10}, agent.ReadFileResult{Content: "rld\n", Size: 14, EOF: true}, ""},
		{"a range of text ends with a whole character", object{"path": text, "limit": 2}, agent.ReadFileResult{Content: "h", Size: 14}, ""},
		{"a range of bytes ends anywhere", object{"path": text, "limit": 2, "encoding": "raw"}, agent.ReadFileResult{Size: 14}, "h\xc3"},
		{"a range of a large file", object{"path": big, "offset": 2<<20 - 2, "limit": 2}, agent.ReadFileResult{Content: "xx", Size: 2 << 20, EOF: true}, ""},
		{"a file of /proc has no size and is whole", object{"path": "/proc/self/comm"}, agent.ReadFileResult{Content: comm}, ""},
		{"a range in a file of /proc", object{"path": "/proc/self/comm", "limit": 100}, agent.ReadFileResult{Content: comm, EOF: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.call(agent.MethodReadFile, tt.params)
			var got agent.ReadFileResult
			into(t, "read_file", r, &got)
			if got != tt.want || string(r.payload) != tt.raw {
				t.Errorf("read_file = %.200v and %q, want %.200v and %q", got, r.payload, tt.want, tt.raw)
			}
		})
	}
	refused := map[string]struct {
		params object
		code   int
		want   string
	}{
		"a file that is not there":      {object{"path": "/no/such"}, rpc.CodeInternal, "read /no/such: no such file or directory"},
		"bytes that are not text":       {object{"path": binary}, rpc.CodeInternal, "base64"},
		"a range that is not text":      {object{"path": latin, "limit": 8}, rpc.CodeInternal, "base64"},
		"less than a character":         {object{"path": text, "offset": 1, "limit": 1}, rpc.CodeInternal, "less than the next character"},
		"more than a frame":             {object{"path": big}, rpc.CodeInternal, "read ranges with offset and limit"},
		"more than a frame as base64":   {object{"path": under, "encoding": "base64"}, rpc.CodeInternal, "read ranges"},
		"more than a frame, raw":        {object{"path": big, "encoding": "raw"}, rpc.CodeInternal, "read ranges"},
		"more than a frame by escaping": {object{"path": escapes}, rpc.CodeInternal, "read ranges"},
		"no path":                       {object{}, rpc.CodeInvalidParams, "path is missing"},
		"an empty path":                 {object{"path": ""}, rpc.CodeInvalidParams, "path is empty"},
		"a NUL in the path":             {object{"path": "a\x00b"}, rpc.CodeInvalidParams, "path has a NUL byte"},
		"an encoding that is none":      {object{"path": text, "encoding": "utf-16"}, rpc.CodeInvalidParams, "encoding"},
		"an offset below 0":             {object{"path": text, "offset": -1}, rpc.CodeInvalidParams, "offset"},
		"a limit below 0":               {object{"path": text, "limit": -1}, rpc.CodeInvalidParams, "limit"},
		"a limit above a chunk":         {object{"path": text, "limit": agent.MaxChunk + 1}, rpc.CodeInvalidParams, "limit"},
	}
	for path, want := range odd(t, dir) {
		refused["a path that "+want+": "+filepath.Base(path)] = struct {
			params object
			code   int
			want   string
		}{object{"path": path}, rpc.CodeInternal, want}
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			r := w.call(agent.MethodReadFile, tt.params)
			if r.Error == nil || r.Error.Code != tt.code || !strings.Contains(r.Error.Message, tt.want) {
				t.Errorf("read_file: err = %v, want code %d and %q", r.Error, tt.code, tt.want)
			}
		})
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(old) })
	w := connect(t, nil)
	w.hello()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"old", "private", "target"} {
		if err := os.WriteFile(path(name), []byte("old content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("target", path("symlink")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path("old"), path("hardlink")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		params  object
		raw     []byte
		at      string
		content string
		mode    os.FileMode
	}{
		{"a new file has mode 0644", object{"path": path("new"), "content": "hi"}, nil, "new", "hi", 0o644},
		{"an old file is replaced in place and keeps its mode", object{"path": path("old"), "content": "new"}, nil, "hardlink", "new", 0o600},
		{"a link is followed", object{"path": path("symlink"), "content": "x"}, nil, "target", "x", 0o600},
		{"an empty content empties", object{"path": path("target"), "content": ""}, nil, "target", "", 0o600},
		{"base64", object{"path": path("bin"), "content": "AAH/", "encoding": "base64"}, nil, "bin", "\x00\x01\xff", 0o644},
		{"raw", object{"path": path("raw"), "content": "", "encoding": "raw"}, []byte{0, 255}, "raw", "\x00\xff", 0o644},
		{"raw and empty", object{"path": path("raw"), "encoding": "raw"}, []byte{}, "raw", "", 0o644},
		{"a mode for a new file", object{"path": path("secret"), "content": "s", "mode": 0o600}, nil, "secret", "s", 0o600},
		{"a mode for an old file", object{"path": path("private"), "content": "p", "mode": 0o755}, nil, "private", "p", 0o755},
		{"the umask does not take from a mode", object{"path": path("open"), "content": "p", "mode": 0o666}, nil, "open", "p", 0o666},
		{"a mode with set-id bits", object{"path": path("suid"), "content": "p", "mode": 0o4755}, nil, "suid", "p", os.ModeSetuid | 0o755},
		{"an offset keeps the rest", object{"path": path("new"), "content": "H", "offset": 0}, nil, "new", "Hi", 0o644},
		{"an offset appends", object{"path": path("new"), "content": "!", "offset": 2}, nil, "new", "Hi!", 0o644},
		{"an offset beyond the end leaves a hole", object{"path": path("hole"), "content": "x", "offset": 3}, nil, "hole", "\x00\x00\x00x", 0o644},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.wait(w.send(agent.MethodWriteFile, tt.params, tt.raw))
			if r.Error != nil || string(r.Result) != `{"success":true}` {
				t.Fatalf("write_file = %s, err = %v", r.Result, r.Error)
			}
			got, err := os.ReadFile(path(tt.at))
			if err != nil || string(got) != tt.content {
				t.Errorf("content = %q, want %q, err = %v", got, tt.content, err)
			}
			if st, err := os.Stat(path(tt.at)); err != nil || st.Mode() != tt.mode {
				t.Errorf("mode = %v, want %v, err = %v", st.Mode(), tt.mode, err)
			}
		})
	}
	type refusal struct {
		params object
		raw    []byte
		code   int
		want   string
	}
	refused := map[string]refusal{
		"a folder that is not there": {object{"path": "/no/such/file", "content": ""}, nil, rpc.CodeInternal, "write /no/such/file: no such file or directory"},
		"no content":                 {object{"path": path("x")}, nil, rpc.CodeInvalidParams, "content is missing"},
		"no path":                    {object{"content": ""}, nil, rpc.CodeInvalidParams, "path is missing"},
		"content of another type":    {object{"path": path("x"), "content": 1}, nil, rpc.CodeInvalidParams, "content: want a string, got number"},
		"content that is no base64":  {object{"path": path("x"), "content": "%", "encoding": "base64"}, nil, rpc.CodeInvalidParams, "content"},
		"raw without a payload":      {object{"path": path("x"), "encoding": "raw"}, nil, rpc.CodeInvalidParams, "payload"},
		"a payload that is not raw":  {object{"path": path("x"), "content": ""}, []byte("x"), rpc.CodeInvalidParams, "payload"},
		"content twice":              {object{"path": path("x"), "content": "y", "encoding": "raw"}, []byte("x"), rpc.CodeInvalidParams, "content"},
		"a mode that is none":        {object{"path": path("x"), "content": "", "mode": 0o10000}, nil, rpc.CodeInvalidParams, "mode"},
		"a mode below 0":             {object{"path": path("x"), "content": "", "mode": -1}, nil, rpc.CodeInvalidParams, "mode"},
		"an offset below 0":          {object{"path": path("x"), "content": "", "offset": -1}, nil, rpc.CodeInvalidParams, "offset"},
		"a full disk":                {object{"path": "/dev/full", "content": "x"}, nil, rpc.CodeInternal, "device"},
	}
	for path, want := range odd(t, dir) {
		refused["a path that "+want+": "+filepath.Base(path)] = refusal{object{"path": path, "content": ""}, nil, rpc.CodeInternal, want}
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			r := w.wait(w.send(agent.MethodWriteFile, tt.params, tt.raw))
			if r.Error == nil || r.Error.Code != tt.code || !strings.Contains(r.Error.Message, tt.want) {
				t.Errorf("write_file: err = %v, want code %d and %q", r.Error, tt.code, tt.want)
			}
		})
	}
	if _, err := os.Stat(path("x")); err == nil {
		t.Error("a refused write made its file")
	}
}

func TestLargeContentComesBack(t *testing.T) {
	w := connect(t, nil)
	path := filepath.Join(t.TempDir(), "large")
	data := bytes.Repeat([]byte{0, 1, 2, 0xFE}, 4<<20)
	w.must(agent.MethodWriteFile, object{"path": path, "content": base64.StdEncoding.EncodeToString(data), "encoding": "base64"}, &agent.Success{})
	w.hello()
	if r := w.call(agent.MethodReadFile, object{"path": path, "encoding": "raw"}); r.Error != nil || !bytes.Equal(r.payload, data) {
		t.Errorf("%d bytes came back, want %d; err = %v", len(r.payload), len(data), r.Error)
	}
}
