package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// A decision is what is to become of a change set.
type decision int

// The zero decision lets nothing out.
const (
	undecided decision = iota
	discard
	keep
	commit
)

// decisionFlags are --commit, --keep and --discard.
type decisionFlags struct{ commit, keep, discard bool }

// wish is the decision that the flags make.
func (f decisionFlags) wish() (decision, error) {
	wish, n := undecided, 0
	for _, flag := range []struct {
		set  bool
		wish decision
	}{{f.commit, commit}, {f.keep, keep}, {f.discard, discard}} {
		if flag.set {
			wish = flag.wish
			n++
		}
	}
	if n > 1 {
		return undecided, usage("--commit, --keep and --discard exclude one another")
	}
	return wish, nil
}

// circumstances are what a decision depends on.
type circumstances struct {
	wish    decision // what the flags say
	code    int      // the run's exit code
	asking  bool     // there is somebody to ask
	work    int      // changes in the working folder
	outside int      // and elsewhere, without noise
}

// decide says what is to become of a run's changes; undecided means: ask. Nobody is asked
// where there is nothing that a commit would let out, and what nobody was asked about
// is kept, unless it is noise alone.
func (c circumstances) decide() decision {
	switch c.wish {
	case keep, discard:
		return c.wish
	case commit:
		switch {
		case c.work == 0 && c.outside == 0:
			return discard
		case c.work == 0 || c.code != 0:
			return keep // a command that failed lets nothing out by itself
		}
		return commit
	}
	switch {
	case c.asking && c.work > 0:
		return undecided
	case c.asking && c.outside > 0:
		return keep
	}
	return discard
}

// ask asks a person until there is an answer, which must be unmistakable: there is no
// default, and "yes" is none. show shows the changes. An end of the input keeps them:
// nothing is let out, and nothing is lost.
func ask(in io.Reader, out io.Writer, show func() error) decision {
	lines := bufio.NewReader(in)
	for {
		fmt.Fprint(out, "[c]ommit  [d]iff  [k]eep  [x] discard ? ")
		line, err := lines.ReadString('\n')
		if err != nil { // what was typed without Enter is not an answer
			fmt.Fprintln(out)
			return keep
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "c", "commit":
			return commit
		case "k", "keep":
			return keep
		case "x", "discard":
			return discard
		case "d", "diff":
			if err := show(); err != nil {
				fmt.Fprintln(out, "airlock:", err)
			}
		case "":
		default:
			fmt.Fprintln(out, "c lets the changes out, d shows them, k keeps them for later, x throws them away.")
		}
	}
}
