package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"airlock/internal/audit"
	"airlock/internal/surface/cli"
)

func TestParseWhen(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, zone)
	for _, tt := range []struct{ name, in, want string }{
		{"nothing is no bound", "", "0001-01-01T00:00:00Z"},
		{"hours ago", "2h", "2026-11-20T10:00:00+02:00"},
		{"days ago", "1.5d", "2026-11-19T00:00:00+02:00"},
		{"a day begins here", "2026-11-19", "2026-11-19T00:00:00+02:00"},
		{"a minute", "2026-11-19 08:30", "2026-11-19T08:30:00+02:00"},
		{"a second", "2026-11-19T08:30:01", "2026-11-19T08:30:01+02:00"},
		{"RFC 3339", "2026-11-19T08:30:01Z", "2026-11-19T08:30:01Z"},
		{"a word", "yesterday", ""},
		{"the future", "-2h", ""},
		{"a day that there is not", "2026-02-30", ""},
		{"too many days", "1e300d", ""},
		{"no number of days", "NaNd", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cli.ParseWhen(tt.in, now)
			switch {
			case tt.want == "" && err == nil:
				t.Errorf("ParseWhen(%q) = %v, want an error", tt.in, got)
			case tt.want != "" && (err != nil || got.Format(time.RFC3339) != tt.want):
				t.Errorf("ParseWhen(%q) = %v, %v, want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"a command is a line", `{"argv":["sh","-c","it's $x",""]}`, `sh -c 'it'\''s $x' ''`},
		{
			"a verdict in an object", `{"call":{"tool":"cmd.run","action":"execute"},"judgement":{"verdict":"deny","risk":"destructive","rule":"r1","why":"it is"}}`,
			"deny cmd.run execute (destructive) by rule r1 – it is",
		},
		{"an answer", `{"approved":false,"by":"terminal","reason":"no"}`, "refused by terminal – no"},
		{"a question", `{"call":"c","step":"s1","id":"x","asked":"2026-11-20T16:00:00Z","expires":"2026-11-20T16:05:00Z"}`, "step s1: asked"},
		{"its answer", `{"call":"c","step":"s1","id":"x","approved":true,"by":"terminal","asked":"2026-11-20T16:00:00Z"}`, "step s1: asked approved by terminal"},
		{"a call", `{"call":"c","where":"host","working_directory":"/w","tool":"cmd.run","action":"execute","args":{"command":"ls -l"}}`, "cmd.run execute ls -l in /w on the host"},
		{"its result", `{"call":"c","ok":false,"error_code":"TIMEOUT","duration_ms":2000,"stdout":"x"}`, "failed TIMEOUT in 2s"},
		{"a plan", `{"plan":{"kind":"command_sequence","summary":"Tidy up","steps":[{},{}]},"where":"sandbox","working_directory":"/w"}`, "Tidy up 2 steps in /w"},
		{"its end", `{"success":true,"steps_executed":2,"duration_ms":10}`, "2 steps success in 10ms"},
		{"a result", `{"of":"run","exit_code":3,"duration_ms":1500,"timed_out":true,"changes":1,"state":"kept"}`, "of run: exit code 3 timed out in 1.5s with 1 change [kept]"},
		{"an unknown object as it is", `{"x":[1,2]}`, `{"x":[1,2]}`},
		{"an empty one is nothing", `{}`, ""},
		{"nor is nothing", `null`, ""},
		{"a text", `"abc"`, `"abc"`},
		{"what controls a terminal is shown", `{"why":"a\u001b[2J\nb\u202ec"}`, `– a\x1b[2J\nb\u202ec`},
		{"members of the wrong kind", `{"of":{"a":1},"argv":7,"duration_ms":"x","changes":{},"approved":"yes","exit_code":[1]}`, `of {"a":1}: refused 7 exit code [1] in x with {} changes`},
		{"a long one is cut", `{"command":"` + strings.Repeat("x", 500) + `"}`, strings.Repeat("x", 159) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.Sentence(&audit.Row{Data: json.RawMessage(tt.data)}); got != tt.want {
				t.Errorf("Sentence(%s)\n  = %q,\nwant %q", tt.data, got, tt.want)
			}
		})
	}
}

func FuzzSentence(f *testing.F) {
	for _, data := range []string{`{"argv":["a"],"why":"\u001b"}`, `[1]`, `{"a":{"argv":[{}]},"duration_ms":1e99}`, `"x"`, ``, `{`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, text := range append(cli.Members(data), cli.Sentence(&audit.Row{Data: data})) {
			if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q holds what does not print", text)
			}
		}
	})
}

// lines is an output that tells of each line.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
	got chan string
	err error
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	l.buf.Write(p)
	for {
		line, err := l.buf.ReadString('\n')
		if err != nil {
			l.buf.WriteString(line)
			return len(p), nil
		}
		l.got <- line
	}
}

// TestLogFollows: airlock log -f shows rows as they come, and ends with its context, and
// with its reader, as with a success.
func TestLogFollows(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(cancel func(), out *lines, log *audit.Log) error
	}{
		{"an interrupt ends it", func(cancel func(), _ *lines, _ *audit.Log) error { cancel(); return nil }},
		{"a reader that goes away ends it", func(_ func(), out *lines, log *audit.Log) error {
			out.mu.Lock()
			out.err = syscall.EPIPE
			out.mu.Unlock()
			return log.Record(context.Background(), "call", "one more", nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, err := audit.Open(filepath.Join(t.TempDir(), "record.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			out := &lines{got: make(chan string, 10)}
			p := &cli.Program{Stdout: out, Stderr: io.Discard, Record: func() (*audit.Log, error) { return log, nil }}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan int, 1)
			go func() { ended <- cli.Run(ctx, p, []string{"log", "-f"}) }()
			for _, id := range []string{"first", "second"} {
				if err := log.Record(t.Context(), "call", id, nil); err != nil {
					t.Fatal(err)
				}
				if line := <-out.got; !strings.Contains(line, id) {
					t.Errorf("a line is %q, want %s in it", line, id)
				}
			}
			if err := tt.end(cancel, out, log); err != nil {
				t.Fatal(err)
			}
			if code := <-ended; code != 0 {
				t.Errorf("exit code = %d, want 0", code)
			}
		})
	}
}
