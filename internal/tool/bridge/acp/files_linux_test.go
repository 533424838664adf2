package acp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/tool"
)

// request is a line of a prompt.
func request(t testing.TB, method string, params map[string]any) string {
	t.Helper()
	if _, given := params["sessionId"]; !given {
		params["sessionId"] = "s1"
	}
	data, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	return "call " + method + " " + string(data)
}

func TestFilesAreReadInTheSandbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "one\ntwo\nthree")
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "binary"), "a\xff")
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", 10<<20+1))
	write(t, filepath.Join(dir, "long"), strings.Repeat("0123456789abcde\n", 1<<20))
	huge, err := os.Create(filepath.Join(dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	if err := huge.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	huge.Close()
	for name, test := range map[string]struct {
		file        string
		line, limit any
		text, err   string
	}{
		"all of it":                    {file: "f", text: "one\ntwo\nthree"},
		"an empty one":                 {file: "empty"},
		"from a line":                  {file: "f", line: 2, text: "two\nthree"},
		"a line":                       {file: "f", line: 2, limit: 1, text: "two\n"},
		"the last line":                {file: "f", line: 3, limit: 9, text: "three"},
		"beyond the end":               {file: "f", line: 9},
		"line 0 is the first":          {file: "f", line: 0, limit: 1, text: "one\n"},
		"no lines":                     {file: "f", limit: 0},
		"a line of a long file":        {file: "long", line: 1<<20 - 1, limit: 1, text: "0123456789abcde\n"},
		"the beginning of a long file": {file: "long", limit: 1, text: "0123456789abcde\n"},
		"a line below 0":               {file: "f", line: -1, err: "line is negative"},
		"a limit below 0":              {file: "f", limit: -1, err: "limit is negative"},
		"more than is handed over":     {file: "large", err: "more than 10485760 bytes: ask for fewer lines"},
		"a line without end":           {file: "huge", line: 2, err: "more than is read to find lines"},
		"no text":                      {file: "binary", err: "is no text"},
		"a file that is not there":     {file: "nowhere", err: `"code":-32002,"message":"Resource not found: `},
		"a folder":                     {file: ".", err: "leads upwards or is a folder"},
		"a path that leads up":         {file: "../x", err: "leads upwards"},
		"a device":                     {file: "/dev/zero", err: "device"},
		"a relative path":              {file: "relative:f", err: "is not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			params := map[string]any{"path": dir + "/" + test.file}
			if rest, ok := strings.CutPrefix(test.file, "relative:"); ok {
				params["path"] = rest
			} else if filepath.IsAbs(test.file) {
				params["path"] = test.file
			}
			if test.line != nil {
				params["line"] = test.line
			}
			if test.limit != nil {
				params["limit"] = test.limit
			}
			got := newWorld(t).text(request(t, "fs/read_text_file", params))
			if test.err != "" {
				if test.file == "." {
					test.err = "folder"
				}
				wantIn(t, "the answer", got, test.err)
				return
			}
			data, err := json.Marshal(map[string]string{"content": test.text})
			if err != nil {
				t.Fatal(err)
			}
			if want := "{" + string(data) + "}"; got != want {
				t.Errorf("the answer is %.200q, want %q", got, want)
			}
		})
	}
}

func TestAFileThatIsNotThereIsEmptyForAnAgentThatTakesNoErrorForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run.Params.Env["TESTAGENT_NAME"] = "gemini-cli"
	if text := w.text(request(t, "fs/read_text_file", map[string]any{"path": "/no/such/file"})); text != `{{"content":""}}` {
		t.Errorf("the answer is %q, want an empty file", text)
	}
	wantIn(t, "the answer for a folder", w.text(request(t, "fs/read_text_file", map[string]any{"path": "/tmp"})), "folder")
}

func TestFilesAreWrittenInTheSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "new/folder/f")
	if text := w.text(request(t, "fs/write_text_file", map[string]any{"path": file, "content": "a\nß"}), request(t, "fs/write_text_file", map[string]any{"path": file, "content": "b"})); text != "{{}}{{}}" {
		t.Fatalf("the answer is %q", text)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "b" {
		t.Errorf("the file is %q, %v", data, err)
	}
	asked, done := w.back.what()
	if want := fmt.Sprintf(`sandbox fs.write_file {"content":"a\nß","create_dirs":true,"path":%q}`, file); len(asked) != 2 || asked[0] != want || done != 2 {
		t.Errorf("the gate was asked %q with %d results, want %q first and 2", asked, done, want)
	}
}

func TestWhatIsNotThereIsRecordedAsThat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.text(`call fs/read_text_file {"sessionId":"s1","path":"/no/such/file"}`, `call fs/read_text_file {"sessionId":"s1","path":"/"}`)
	if got := w.back.done; len(got) != 2 || got[0].Code() != tool.NotFound || got[1].Code() != tool.IOError {
		t.Errorf("the results are %+v, want NOT_FOUND and IO_ERROR", got)
	}
}

func TestWhatIsRefusedIsNotWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "f")
	w.back.refuse[file] = true
	text := w.text(request(t, "fs/write_text_file", map[string]any{"path": file, "content": ""}), request(t, "fs/read_text_file", map[string]any{"path": file}))
	if strings.Count(text, "refused by test") != 2 {
		t.Errorf("the text is %q, want two refusals", text)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("the file was written")
	}
}

func TestOnlyFilesAreWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]string{
		"/dev/null": "is no file", t.TempDir(): "is no file", "x": "is not absolute", t.TempDir() + "/../x": "leads upwards",
		"/" + strings.Repeat("x/", 3000): "is no path", "/a\x00": "is no path", "/proc/version/x": "file exists",
	} {
		wantIn(t, "the answer", w.text(request(t, "fs/write_text_file", map[string]any{"path": path, "content": "x"})), want)
	}
}

func TestAnotherSessionsRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for method, params := range map[string]map[string]any{
		"fs/read_text_file":      {"path": "/etc/passwd"},
		"fs/write_text_file":     {"path": "/tmp/x", "content": ""},
		"terminal/create":        {"command": "true"},
		"terminal/output":        {"terminalId": "term-1"},
		"terminal/wait_for_exit": {"terminalId": "term-1"},
		"terminal/kill":          {"terminalId": "term-1"},
		"terminal/release":       {"terminalId": "term-1"},
	} {
		for _, id := range []string{"other", ""} {
			params["sessionId"] = id
			wantIn(t, method, w.text(request(t, method, params)), "there is no session "+id)
		}
	}
	if asked, _ := w.back.what(); len(asked) != 0 {
		t.Errorf("the gate was asked %q", asked)
	}
}
