package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A decision is what is to become of a change set.
type decision int

// The zero decision lets nothing out.
const (
	discard decision = iota
	keep
	commit
)

// decisionFlags are --commit, --keep and --discard.
type decisionFlags struct{ commit, keep, discard bool }

// decide gives the decision the flags make, and whether they make one.
func (f decisionFlags) decide() (decision, bool, error) {
	n := 0
	for _, set := range []bool{f.commit, f.keep, f.discard} {
		if set {
			n++
		}
	}
	switch {
	case n > 1:
		return discard, false, usage("--commit, --keep and --discard exclude one another")
	case f.commit:
		return commit, true, nil
	case f.keep:
		return keep, true, nil
	case f.discard:
		return discard, true, nil
	}
	return discard, false, nil
}

var errInterrupted = errors.New("interrupted")

// ask asks a person on the terminal until there is an answer. diff shows the changes. An
// end of the input keeps the set: nothing is let out, and nothing is lost.
func ask(ctx context.Context, in io.Reader, out io.Writer, diff func() error) (decision, error) {
	lines := bufio.NewReader(in)
	for {
		fmt.Fprint(out, "[c]ommit  [d]iff  [k]eep  [x] discard ? ")
		line, err := readLine(ctx, lines)
		if err != nil {
			fmt.Fprintln(out)
			if errors.Is(err, io.EOF) || errors.Is(err, errInterrupted) {
				return keep, nil
			}
			return keep, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "c", "commit", "y", "yes":
			return commit, nil
		case "k", "keep":
			return keep, nil
		case "x", "discard", "n", "no":
			return discard, nil
		case "d", "diff":
			if err := diff(); err != nil {
				fmt.Fprintln(out, "airlock:", err)
			}
		case "":
		default:
			fmt.Fprintln(out, "c lets the changes out, d shows them, k keeps them for later, x throws them away.")
		}
	}
}

// readLine reads a line, or gives up when ctx ends. The reading goroutine then stays
// until the terminal's next line, or the program's end.
func readLine(ctx context.Context, r *bufio.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := r.ReadString('\n')
		got <- result{line, err}
	}()
	select {
	case res := <-got:
		if res.err != nil && res.line == "" {
			return "", res.err
		}
		return res.line, nil
	case <-ctx.Done():
		return "", errInterrupted
	}
}

// isTerminal reports whether v is a terminal.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && terminal(f)
}
