package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/term"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

// A Terminal asks the person at the terminal that the program runs in: the gate's
// questions and the tools'. It is safe for concurrent use.
type Terminal struct {
	in    io.Reader
	out   io.Writer
	turn  chan struct{} // of one: a terminal shows one question at a time
	taken atomic.Bool   // what is typed is for somebody else

	beside atomic.Pointer[bridgeWatch] // writes to the same screen; nil: nobody does
}

// NewTerminal asks on a terminal: it reads answers from in and shows questions on out. Where
// one of them is no terminal, or another program has it, there is nobody to ask.
func NewTerminal(in io.Reader, out io.Writer) *Terminal {
	return &Terminal{in: in, out: out, turn: make(chan struct{}, 1)}
}

// take keeps what is typed for who calls it: nobody is asked from then on.
func (a *Terminal) take() { a.taken.Store(true) }

// share keeps what somebody else writes to the screen from it while a question stands there:
// it could pass for another question, to which the answer would seem to be.
func (a *Terminal) share(w *bridgeWatch) { a.beside.Store(w) }

// begin waits for the terminal's turn. in is where the answer comes from until done; width
// is the terminal's. ok is false where there is nobody to ask.
func (a *Terminal) begin(ctx context.Context) (asking context.Context, in io.Reader, width int, done func(), ok bool) {
	f, file := a.in.(*os.File)
	if !file || a.taken.Load() || !isTerminal(a.in) || !isTerminal(a.out) || !ours(f) {
		return ctx, nil, 0, func() {}, false
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx, strings.NewReader(""), 0, func() {}, true // an end of the input is no answer
	}
	w := a.beside.Load()
	if w != nil {
		w.hold()
	}
	asking, stop := interruptible(ctx)
	in, detach := answers(asking, a.in)
	width = 80
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
		width = w
	}
	return asking, in, width, func() {
		detach()
		stop()
		if w != nil {
			w.release()
		}
		<-a.turn
	}, true
}

// Approve asks; anything but a clear yes is a no.
func (a *Terminal) Approve(ctx context.Context, r *gate.Request) (gate.Answer, error) {
	asking, in, width, done, ok := a.begin(ctx)
	defer done()
	switch {
	case !ok:
		return gate.Answer{}, gate.ErrNobody
	case ctx.Err() != nil:
		return gate.Answer{}, ctx.Err()
	}
	answer := askApproval(in, a.out, r, width)
	switch {
	case ctx.Err() != nil:
		return gate.Answer{}, ctx.Err()
	case asking.Err() != nil:
		return r.No("terminal", "interrupted"), nil
	}
	return answer, nil
}

// askings is how often a question is put.
const askings = 5

// askApproval asks until there is an answer. There is no default but no: an end of the
// input is no, and so is whatever is not understood too often.
func askApproval(in io.Reader, out io.Writer, r *gate.Request, width int) gate.Answer {
	showRequest(out, r, width)
	lines := bufio.NewReader(in)
	prompt := "Let it run? y lets it, n does not, ? explains [n] "
	if r.Severe() {
		prompt = "Let it run? Type yes in full to let it, n does not, ? explains [n] "
	}
	for range askings {
		fmt.Fprint(out, prompt)
		line, err := lines.ReadString('\n')
		if err != nil { // what was typed without Enter is not an answer
			fmt.Fprintln(out)
			return r.No("terminal", "there was no answer")
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "yes":
			return r.Yes("terminal")
		case "y":
			if !r.Severe() {
				return r.Yes("terminal")
			}
			fmt.Fprintf(out, "This is %s: the whole word yes is wanted, or n.\n", r.Risk)
		case "", "n", "no":
			return r.No("terminal", "")
		case "?":
			explainRequest(out, r)
		default:
			fmt.Fprintln(out, "y or n is wanted; nothing runs meanwhile.")
		}
	}
	return r.No("terminal", "there was no clear answer")
}

// showRequest shows what is asked for, whole. Each of its lines is marked and broken at
// the terminal's edge, so that it cannot pass for one of Airlock's own.
func showRequest(out io.Writer, r *gate.Request, width int) {
	where := "on this machine, not in a sandbox"
	if r.Where == tool.InSandbox {
		where = "in a sandbox"
	}
	what := "this command"
	switch {
	case r.Action == "run": // an agent's, which has no other
		what = r.Tool
	case r.Tool != "cmd.run":
		what = r.Tool + " " + r.Action
	}
	fmt.Fprintf(out, "\nairlock: may %s run %s?\n\n", what, where)
	showMarked(out, r.Text, width)
	fmt.Fprintln(out)
	if r.Escaped {
		fmt.Fprintln(out, `  It holds characters that cannot be seen; they are shown as \x…, \u… or \r.`)
	}
	user := r.User
	if user == "" {
		user = "the user that runs airlock"
	}
	for _, row := range [][2]string{
		{"in", r.WorkDir},
		{"as", user},
		{"risk", string(r.Risk)},
		{"rule", r.Rule},
		{"why", r.Why},
		{"until", r.Expires.Local().Format("15:04:05")},
	} {
		fmt.Fprintf(out, "  %-6s %s\n", row[0], row[1])
	}
	fmt.Fprintln(out)
}

// showMarked shows printable text of somebody else's, each line with a mark.
func showMarked(out io.Writer, text string, width int) {
	for line := range strings.SplitSeq(text, "\n") {
		for i, piece := range pieces(line, width-5) {
			mark := "  | "
			if i > 0 {
				mark = "  > "
			}
			fmt.Fprintln(out, mark+piece)
		}
	}
}

// pieces breaks a line at a width. What may be wide counts as two columns.
func pieces(line string, width int) []string {
	var out []string
	start, used := 0, 0
	for i, c := range line {
		w := 1
		if c >= utf8.RuneSelf {
			w = 2
		}
		if used+w > width && i > start {
			out = append(out, line[start:i])
			start, used = i, 0
		}
		used += w
	}
	return append(out, line[start:])
}

// explainRequest says what each part of a line is taken for.
func explainRequest(out io.Writer, r *gate.Request) {
	for _, part := range r.Parts {
		fmt.Fprintf(out, "  %-5s %s\n        %s, by %s: %s\n", part.Verdict, part.Text, part.Risk, part.Rule, part.Why)
	}
	if len(r.Touches) > 0 {
		fmt.Fprintf(out, "  touches %s\n", strings.Join(r.Touches, ", "))
	}
	fmt.Fprintf(out, "  An answer is for this alone (%s).\n", r.Digest)
}
