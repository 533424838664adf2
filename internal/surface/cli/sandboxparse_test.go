package cli_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"airlock/internal/surface/cli"
)

func TestOperandsOfACopy(t *testing.T) {
	for _, tt := range []struct {
		name, word, id, path string
		tar, wantErr         bool
	}{
		{"a path", "a/b", "", "a/b", false, false},
		{"a path in a sandbox", "abc2:/etc", "abc2", "/etc", false, false},
		{"a relative path in a sandbox", "a:src", "a", "src", false, false},
		{"a dash is a tar", "-", "", "", true, false},
		{"a slash before the colon makes it a path", "./abc:d", "", "./abc:d", false, false},
		{"an absolute path may hold a colon", "/a:b", "", "/a:b", false, false},
		{"a name with a dot is a path", "notes.txt:1", "", "notes.txt:1", false, false},
		{"a colon in the sandbox's path", "abc:/a:b", "abc", "/a:b", false, false},
		{"a colon in front makes it a path", ":a", "", ":a", false, false},
		{"what is no ID is refused, not guessed", "ABC:/etc", "", "", false, true},
		{"no path in the sandbox", "abc:", "", "", false, true},
		{"nothing", "", "", "", false, true},
		{"more than an ID", "aaaaaaaaaaaaaaaaa:/x", "", "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, path, tar, err := cli.ParseOperand(tt.word)
			if id != tt.id || path != tt.path || tar != tt.tar || (err != nil) != tt.wantErr {
				t.Errorf("ParseOperand(%q) = %q, %q, %t, %v", tt.word, id, path, tar, err)
			}
		})
	}
}

func TestSizesAsText(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "-", 0: "0", 1023: "1023", 1024: "1K", 1536: "1.5K", 512 << 20: "512M", 3 << 29: "1.5G", 1 << 40: "1T", 1<<20 - 1: "1M",
	} {
		got := cli.BytesText(n)
		if got != want {
			t.Errorf("BytesText(%d) = %q, want %q", n, got, want)
		}
		if n < 1<<20-1 {
			continue
		}
		if back, err := cli.ParseBytes(got); err != nil || back < n {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", got, back, err, n)
		}
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 90 * time.Minute: "1h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := cli.Span(d); got != want {
			t.Errorf("Span(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	titles := []string{"ID", " SIZE", "COMMAND"}
	rows := [][]string{{"a", "5M", "sleep 1000"}, {"bcd", "1.5G", strings.Repeat("字", 50)}, {"e", "", ""}}
	for _, tt := range []struct {
		name  string
		width int
	}{{"no terminal: whatever it takes", 0}, {"a wide terminal", 200}, {"a narrow one", 40}} {
		t.Run(tt.name, func(t *testing.T) {
			lines := cli.TableLines(titles, rows, tt.width)
			if len(lines) != 4 || !strings.HasPrefix(lines[1], "a      5M  sleep 1000") || lines[3] != "e" {
				t.Errorf("the lines are %q", lines)
			}
			for _, l := range lines {
				if w := uniseg.StringWidth(l); tt.width > 0 && w > tt.width {
					t.Errorf("%q is %d columns wide, want %d", l, w, tt.width)
				}
			}
			if cut := strings.HasSuffix(lines[2], "…"); cut != (tt.width == 40) {
				t.Errorf("cut: %t; %q", cut, lines[2])
			}
		})
	}
}

func TestARelayLosesNothingBetweenReaders(t *testing.T) {
	in, typed := io.Pipe()
	next, _ := cli.Relay(in, false)
	first, stop := next()
	go func() {
		_, _ = typed.Write([]byte("hello"))
		typed.Close()
	}()
	buf := make([]byte, 2)
	if n, err := io.ReadFull(first, buf); n != 2 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	stop()
	second, _ := next()
	rest, err := io.ReadAll(second)
	if string(buf)+string(rest) != "hello" || err != nil {
		t.Errorf("read %q and %q, %v, want hello", buf, rest, err)
	}
}

func TestAReaderThatWaitsTakesNothing(t *testing.T) {
	in, typed := io.Pipe()
	next, _ := cli.Relay(in, false)
	first, stop := next()
	ended := make(chan error)
	go func() {
		_, err := first.Read(make([]byte, 10))
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("Read: err = %v, want EOF", err)
	}
	second, _ := next()
	go func() {
		_, _ = typed.Write([]byte("x"))
		typed.Close()
	}()
	if all, _ := io.ReadAll(second); string(all) != "x" {
		t.Errorf("the next one read %q, want x", all)
	}
}

func TestKeysThatLetGo(t *testing.T) {
	for _, tt := range []struct {
		name, typed, want string
		letGo             bool
	}{
		{"Ctrl-P Ctrl-Q, and what comes before it", "ab\x10\x11cd", "ab", true},
		{"Ctrl-P alone is handed on with what follows", "\x10a", "\x10a", false},
		{"twice, then Ctrl-Q", "\x10\x10\x11", "\x10", true},
		{"Ctrl-Q alone is a key", "\x11a", "\x11a", false},
		{"Ctrl-P at the end is handed on", "a\x10", "a\x10", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(tt.typed), iotest{strings.NewReader(tt.typed)}} {
				next, letGo := cli.Relay(in, true)
				r, stop := next()
				var got []byte
				var err error
				if tt.letGo { // then the input has no end, and whoever reads is stopped
					got = make([]byte, len(tt.want))
					_, err = io.ReadFull(r, got)
					<-letGo
					stop()
				} else {
					got, err = io.ReadAll(r)
				}
				if string(got) != tt.want || err != nil {
					t.Errorf("read %q, %v, want %q", got, err, tt.want)
				}
				over := false
				select {
				case <-letGo:
					over = true
				default:
				}
				if over != tt.letGo {
					t.Errorf("let go: %t, want %t", over, tt.letGo)
				}
			}
		})
	}
	if !slices.Equal(cli.TableLines([]string{"A"}, nil, 0), []string{"A"}) {
		t.Error("a table without rows is its titles")
	}
}

// iotest gives one byte at a time, as a keyboard does.
type iotest struct{ r io.Reader }

func (i iotest) Read(p []byte) (int, error) { return i.r.Read(p[:min(len(p), 1)]) }
