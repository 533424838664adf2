package prompt_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"airlock/internal/surface/cli/prompt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/signal.loop")) }

// patience is how long anything may take on a machine that is busy with other things.
const patience = time.Minute

// A desk is a terminal with a person at it.
type desk struct {
	t         *testing.T
	keys, tty *os.File
	read      chan struct{} // closed when the screen can be read no more

	mu     sync.Mutex
	screen strings.Builder
	wrote  chan struct{}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	// What is closed must end its reader: it is read as Go's own poller does.
	fd, err := unix.FcntlInt(keys.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys.Close()
	keys = os.NewFile(uintptr(fd), "keys")
	d := &desk{t: t, keys: keys, tty: tty, read: make(chan struct{}), wrote: make(chan struct{}, 1)}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	go d.watch()
	t.Cleanup(func() {
		tty.Close()
		<-d.read
		keys.Close()
	})
	return d
}

func (d *desk) watch() {
	defer close(d.read)
	buf := make([]byte, 4096)
	for {
		n, err := d.keys.Read(buf)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.screen.Write(buf[:n])
		d.mu.Unlock()
		select {
		case d.wrote <- struct{}{}:
		default:
		}
	}
}

func (d *desk) seen() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.screen.String()
}

// see waits until something was shown since a place on the screen.
func (d *desk) see(from int, what string) {
	d.t.Helper()
	timeout := time.After(patience)
	for !strings.Contains(d.seen()[from:], what) {
		select {
		case <-d.wrote:
		case <-timeout:
			d.t.Fatalf("the screen never showed %q:\n%q", what, d.seen()[from:])
		}
	}
}

func (d *desk) press(keys string) {
	d.t.Helper()
	if _, err := io.WriteString(d.keys, keys); err != nil {
		d.t.Fatal(err)
	}
}

type answer struct {
	text string
	err  error
}

// ask begins a Read and waits for its prompt.
func (d *desk) ask(ctx context.Context, p *prompt.Prompt) chan answer {
	d.t.Helper()
	from := len(d.seen())
	out := make(chan answer, 1)
	go func() {
		text, err := p.Read(ctx)
		out <- answer{text, err}
	}()
	d.see(from, "> ")
	return out
}

func (d *desk) open(opts prompt.Options) *prompt.Prompt {
	d.t.Helper()
	opts.In, opts.Out, opts.Prompt, opts.More = d.tty, d.tty, "> ", ". "
	p, err := prompt.Open(&opts)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func wait(t *testing.T, out chan answer) answer {
	t.Helper()
	select {
	case a := <-out:
		return a
	case <-time.After(patience):
		t.Fatal("Read did not return")
		return answer{}
	}
}

// strike presses keys one burst after the other, as a person does: each is read before the
// next comes.
func (d *desk) strike(bursts ...string) {
	d.t.Helper()
	for _, keys := range bursts {
		d.drained()
		d.press(keys)
	}
}

// drained waits until all that was pressed was read.
func (d *desk) drained() {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		n, err := unix.IoctlGetInt(int(d.tty.Fd()), unix.TIOCINQ)
		if err != nil {
			d.t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%d bytes were never read", n)
		}
		time.Sleep(time.Millisecond) // the terminal tells nobody when it was read
	}
}

const enter = "\r"

func TestKeysDoWhatTheyAreKnownFor(t *testing.T) {
	entries := []string{"first request", "second\nof two lines", "third request"}
	tests := []struct {
		name string
		keys []string
		want string
	}{
		{"letters make the text", []string{"list files", enter}, "list files"},
		{"letters of any script are taken as they are", []string{"größe 漢字 👍 e\u0301", enter}, "größe 漢字 👍 e\u0301"},
		{"backspace takes a wide character whole", []string{"a漢\x7fb", enter}, "ab"},
		{"backspace takes what combines with its letter", []string{"ae\u0301\x7fb", enter}, "ab"},
		{"arrows go left and right", []string{"ac\x1b[Db\x1b[Cd", enter}, "abcd"},
		{"Ctrl-A and Ctrl-E go to the ends", []string{"b\x01a\x05c", enter}, "abc"},
		{"Home and End go to the ends", []string{"b\x1b[Ha\x1b[Fc\x1b[1~x\x1b[4~y", enter}, "xabcy"},
		{"Ctrl with an arrow goes a word", []string{"one two\x1b[1;5Dx\x1b[1;5Dy", enter}, "one yxtwo"},
		{"Alt-B and Alt-F go a word", []string{"one two\x1bb\x1bb\x1bf!", enter}, "one! two"},
		{"Ctrl-W cuts a word and Ctrl-Y puts it back", []string{"one two\x17x\x19", enter}, "one xtwo"},
		{"Ctrl-U cuts to the start of the line", []string{"one two\x15three", enter}, "three"},
		{"Ctrl-K cuts to the end of the line", []string{"one two\x1bb\x0bx", enter}, "one x"},
		{"Delete and Ctrl-D take the next character", []string{"abcd\x01\x1b[3~\x04", enter}, "cd"},
		{"Ctrl-_ takes back", []string{"one two\x17\x1f", enter}, "one two"},
		{"the arrow up shows the last request", []string{"\x1b[A", enter}, "third request"},
		{"an entry of several lines comes back whole", []string{"\x1b[A\x1b[A", enter}, "second\nof two lines"},
		{"the arrow up goes a line up before it goes back", []string{"\x1b[A\x1b[A\x1b[A!", enter}, "second!\nof two lines"},
		{"the arrow down comes back to what was typed", []string{"draft\x1b[A\x1b[B!", enter}, "draft!"},
		{"Ctrl-P and Ctrl-N go through the history", []string{"\x10\x10\x10\x0e\x0e", enter}, "third request"},
		{"Ctrl-R finds a request", []string{"\x12", "fir", enter}, "first request"},
		{"Ctrl-R again finds an older one", []string{"\x12", "request", "\x12", enter}, "first request"},
		{"an arrow takes what was found to edit it", []string{"\x12", "third", "\x1b[F!", enter}, "third request!"},
		{"Ctrl-G gives the search up", []string{"mine\x12fir\x07", enter}, "mine"},
		{"a search for nothing there keeps the text", []string{"mine\x12zzz\x07", enter}, "mine"},
		{"Ctrl-J puts a line in", []string{"one\ntwo", enter}, "one\ntwo"},
		{"Alt-Enter puts a line in", []string{"one\x1b\rtwo", enter}, "one\ntwo"},
		{"Shift-Enter puts a line in where the terminal tells", []string{"one\x1b[13;2utwo", enter}, "one\ntwo"},
		{"a backslash at the end goes on", []string{"one\\", enter, "two", enter}, "one\ntwo"},
		{"two backslashes are one that ends", []string{"one\\\\", enter}, `one\\`},
		{"an open quote goes on", []string{"!echo 'one", enter, "two'", enter}, "!echo 'one\ntwo'"},
		{"a paste of lines does not run", []string{"\x1b[200~one\r\ntwo\rthree\n\x1b[201~", "four", enter}, "one\ntwo\nthree\nfour"},
		{"a paste without marks does not run", []string{"one\rtwo\rthree", enter}, "one\ntwo\nthree"},
		{"a paste cannot end itself and run", []string{"\x1b[200~one\x1b[201~\rtwo\x1b[201~", enter}, "one\ntwo"},
		{"Tab completes what is certain", []string{"/he\t", enter}, "/help"},
		{"Tab completes as far as all agree", []string{"/in\tx", enter}, "/inclx"},
		{"Tab completes in the middle", []string{"/he now\x01\x1b[C\x1b[C\x1b[C\t!", enter}, "/help ! now"},
		{"Ctrl-L shows the text anew", []string{"one\x0ctwo", enter}, "onetwo"},
		{"unknown sequences do nothing", []string{"a\x1b[99;99z\x1b[?1;2c\x1bOPb\x1b[I\x1b[O", enter}, "ab"},
		{"bytes that are no text are replaced", []string{"a\xff\xfeb", enter}, "a\ufffd\ufffdb"},
		{"Ctrl-X Ctrl-E edits elsewhere", []string{"one", "\x18\x05", enter}, "one, edited"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			p := d.open(prompt.Options{
				Complete:   complete,
				Incomplete: func(s string) bool { return strings.HasPrefix(s, "!") && strings.Count(s, "'")%2 == 1 },
				Edit: func(_ context.Context, text string) (string, error) {
					if state, err := term.GetState(int(d.tty.Fd())); err != nil || *state != *cooked(t) {
						t.Error("the editor got a terminal that is not as it was")
					}
					return text + ", edited\n", nil
				},
			})
			for _, entry := range entries {
				if err := p.Add(t.Context(), entry); err != nil {
					t.Fatal(err)
				}
			}
			before := attributes(t, d.tty)
			out := d.ask(t.Context(), p)
			last := len(tt.keys) - 1
			for i, keys := range tt.keys {
				from := len(d.seen())
				if d.strike(keys); i < last {
					d.drained()
					drawn := "\x1b[J"
					if keys == "\x18\x05" {
						drawn += "> one, edited" // it is taken away before
					}
					d.see(from, drawn)
				}
			}
			if a := wait(t, out); a.text != tt.want || a.err != nil {
				t.Errorf("Read = %q, %v, want %q", a.text, a.err, tt.want)
			}
			if after := attributes(t, d.tty); after != before {
				t.Errorf("the terminal was left as %+v, was %+v", after, before)
			}
			d.see(0, "\x1b[?2004l")
		})
	}
}

func complete(text string, pos int) []prompt.Candidate {
	var out []prompt.Candidate
	for _, c := range []string{"/help ", "/include ", "/inclined "} {
		if strings.HasPrefix(c, text[:pos]) {
			out = append(out, prompt.Candidate{Text: c})
		}
	}
	return out
}

func attributes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	a, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *a
}

// cooked is the state of a terminal nobody has changed.
func cooked(t *testing.T) *term.State {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer tty.Close()
	state, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestWhatEndsReading(t *testing.T) {
	tests := []struct {
		name, keys, text string
		err              error
	}{
		{"Ctrl-C gives the text up", "half a requ\x03", "half a requ", prompt.ErrInterrupted},
		{"Ctrl-C on an empty line", "\x03", "", prompt.ErrInterrupted},
		{"Ctrl-D on an empty line ends", "\x04", "", io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			before := attributes(t, d.tty)
			out := d.ask(t.Context(), d.open(prompt.Options{}))
			d.press(tt.keys)
			if a := wait(t, out); a.text != tt.text || !errors.Is(a.err, tt.err) {
				t.Errorf("Read = %q, %v, want %q, %v", a.text, a.err, tt.text, tt.err)
			}
			if after := attributes(t, d.tty); after != before {
				t.Errorf("the terminal was left as %+v, was %+v", after, before)
			}
		})
	}
}

func TestTheEndOfTheContextEndsReading(t *testing.T) {
	for _, plain := range []bool{false, true} {
		d := newDesk(t)
		before := attributes(t, d.tty)
		ctx, cancel := context.WithCancel(t.Context())
		out := d.ask(ctx, d.open(prompt.Options{Plain: plain}))
		cancel()
		if a := wait(t, out); !errors.Is(a.err, context.Canceled) {
			t.Errorf("Read = %v, want %v", a.err, context.Canceled)
		}
		if after := attributes(t, d.tty); after != before {
			t.Errorf("the terminal was left as %+v, was %+v", after, before)
		}
	}
}

func TestATerminalThatIsGoneEndsReading(t *testing.T) {
	d := newDesk(t)
	out := d.ask(t.Context(), d.open(prompt.Options{}))
	d.press("half")
	d.drained()
	d.keys.Close()
	if a := wait(t, out); !errors.Is(a.err, io.EOF) {
		t.Errorf("Read = %q, %v, want %v", a.text, a.err, io.EOF)
	}
}

func TestWhatIsTypedAfterwardsIsTheNextReaders(t *testing.T) {
	d := newDesk(t)
	out := d.ask(t.Context(), d.open(prompt.Options{}))
	d.press("one" + enter)
	if a := wait(t, out); a.text != "one" || a.err != nil {
		t.Fatalf("Read = %q, %v", a.text, a.err)
	}
	d.press("commit\n")
	buf := make([]byte, 64)
	n, err := d.tty.Read(buf)
	if got := string(buf[:n]); got != "commit\n" || err != nil {
		t.Errorf("the next reader got %q, %v, want all that was typed", got, err)
	}
}

func TestWhatWasTypedBeforeTheQuestionIsForgotten(t *testing.T) {
	d := newDesk(t)
	d.press("rm -rf /\n")
	d.see(0, "rm -rf /") // its echo: it is in the terminal now
	from := len(d.seen())
	out := d.ask(t.Context(), d.open(prompt.Options{}))
	d.see(from, "\x1b[?2004h")
	d.press("two" + enter)
	if a := wait(t, out); a.text != "two" || a.err != nil {
		t.Errorf("Read = %q, %v, want what was typed at the prompt", a.text, a.err)
	}
}

func TestNothingThatIsTypedControlsTheTerminal(t *testing.T) {
	d := newDesk(t)
	p := d.open(prompt.Options{Complete: func(string, int) []prompt.Candidate {
		return []prompt.Candidate{{Text: "x\x1b]0;evil\ay"}, {Text: "z\u202egnp"}}
	}})
	out := d.ask(t.Context(), p)
	d.strike("\x1b[200~a\x1b]0;evil\ab\u202e\u0085c\x1b[201~", "\t", "\t")
	d.see(0, "z\\u202egnp")
	d.strike(enter)
	if a := wait(t, out); a.text != "a\x1b]0;evil\ab\u202e\u0085c" {
		t.Errorf("Read = %q", a.text)
	}
	if s := d.seen(); strings.Contains(s, "\x1b]") || strings.Contains(s, "\u202e") || strings.Contains(s, "\u0085") || !strings.Contains(s, "^[]0;evil^Gb\\u202e\\u0085c") {
		t.Errorf("the screen got %q", s)
	}
}

func TestResizingBreaksTheLinesAnew(t *testing.T) {
	d := newDesk(t)
	out := d.ask(t.Context(), d.open(prompt.Options{}))
	d.strike(strings.Repeat("x", 70))
	d.see(0, strings.Repeat("x", 70))
	from := len(d.seen())
	if err := pty.Setsize(d.tty, &pty.Winsize{Rows: 10, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	// The terminal is not the test's own: its signal is sent by hand.
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	d.see(from, "\r\x1b[1A\x1b[J> "+strings.Repeat("x", 38)+"\r\n"+strings.Repeat("x", 32))
	d.strike(enter)
	if a := wait(t, out); a.text != strings.Repeat("x", 70) {
		t.Errorf("Read = %q", a.text)
	}
}

func TestAPlainTerminalReadsLines(t *testing.T) {
	d := newDesk(t)
	p := d.open(prompt.Options{Plain: true})
	out := d.ask(t.Context(), p)
	d.press("one\\\n")
	d.see(0, ". ")
	d.press("two\n")
	if a := wait(t, out); a.text != "one\ntwo" || a.err != nil {
		t.Errorf("Read = %q, %v", a.text, a.err)
	}
	if strings.Contains(d.seen(), "\x1b") {
		t.Errorf("a plain terminal got %q", d.seen())
	}
	out = d.ask(t.Context(), p)
	d.press("three\nfour\nfive\n") // a paste is one request
	if a := wait(t, out); a.text != "three\nfour\nfive" || a.err != nil {
		t.Errorf("Read = %q, %v", a.text, a.err)
	}
	out = d.ask(t.Context(), p)
	d.press("\x04")
	if a := wait(t, out); !errors.Is(a.err, io.EOF) {
		t.Errorf("Read = %q, %v, want %v", a.text, a.err, io.EOF)
	}
}

func TestTwoSessionsKeepEachOthersRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "ai_history")
	open := func() *prompt.Prompt {
		p, err := prompt.Open(&prompt.Options{History: file})
		if err != nil {
			t.Fatal(err)
		}
		prompt.Patient(p)
		return p
	}
	a, b := open(), open()
	var wg sync.WaitGroup
	for _, p := range []*prompt.Prompt{a, b} {
		wg.Go(func() {
			for i := range 700 {
				if err := p.Add(t.Context(), strings.Repeat("x", i%7)+"\nrequest "+string(rune('a'+i%26))+strings.Repeat("y", i/26)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := b.Add(t.Context(), "the last one,\nof two lines"); err != nil {
		t.Fatal(err)
	}
	entries := open().Entries()
	if n := len(entries); n != 1000 {
		t.Errorf("%d entries were kept, want 1000", n)
	}
	if got := entries[len(entries)-1]; got != "the last one,\nof two lines" {
		t.Errorf("the last entry is %q", got)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history's mode is %v, %v, want 0600", info.Mode(), err)
	}
}

func TestAHistoryOfLongRequestsIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ai_history")
	p, err := prompt.Open(&prompt.Options{History: file})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 160 { // each byte takes six in the file
		if err := p.Add(t.Context(), string(rune('a'+i%26))+strings.Repeat("\x01", 12<<10)+"x"); err != nil {
			t.Fatal(err)
		}
	}
	again, err := prompt.Open(&prompt.Options{History: file})
	if n := len(again.Entries()); err != nil || n < 80 || n > 130 {
		t.Errorf("%d entries were kept, %v", n, err)
	}
}

func TestABrokenHistoryIsReadAsFarAsItGoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ai_history")
	if err := os.WriteFile(file, []byte("\"one\"\nnot json\n{}\n\"\"\n\"two\"\n\"cut o"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := prompt.Open(&prompt.Options{History: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(t.Context(), "three"); err != nil {
		t.Fatal(err)
	}
	again, err := prompt.Open(&prompt.Options{History: file})
	if got := strings.Join(again.Entries(), " "); got != "one two three" || err != nil {
		t.Errorf("the history is %q, %v", got, err)
	}
}

func TestAHistoryThatIsNoFileIsAnErrorAndNoHindrance(t *testing.T) {
	dir := t.TempDir()
	p, err := prompt.Open(&prompt.Options{History: dir})
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open: err = %v, want one that names %s", err, dir)
	}
	if err := p.Add(t.Context(), "one"); err != nil || len(p.Entries()) != 1 {
		t.Errorf("Add = %v, %q", err, p.Entries())
	}
}
