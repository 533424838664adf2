package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/sandbox/manager"
	"airlock/internal/surface/cli/live"
)

// cpFlags are those of airlock sandbox cp.
type cpFlags struct{ json, follow, owner, quiet bool }

func (p *Program) sandboxCpCmd() *cobra.Command {
	f := &cpFlags{}
	cmd := &cobra.Command{
		Use:   "cp [flags] SRC DST",
		Short: "Copy files and folders into a sandbox, or out of it",
		Long: `Copy files and folders into a sandbox, or out of it. One of SRC and DST is ID:PATH; where
PATH is relative it is below the sandbox's working folder. - is a tar on standard input or
output.

A folder DST takes SRC under its own name, or with SRC/. what is in it; a DST that is not
there becomes a copy of SRC. Modes, times and links are kept. Nothing is written outside of
what DST names.`,
		Example: `  airlock sandbox cp data.csv ID:/tmp
  airlock sandbox cp ID:/work/report ./report
  tar c src | airlock sandbox cp - ID:/work`,
		Args:              takes(2, 2, "say what to copy, and where: airlock sandbox cp SRC DST, one of them ID:PATH"),
		ValidArgsFunction: p.completeOperands,
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow-link", "L", false, "copy what a link leads to that SRC is")
	fl.BoolVarP(&f.owner, "archive", "a", false, "keep numeric owners where that is possible")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	fl.BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		defer ignoreBrokenPipes()()
		if err := p.cp(ctx, f, args[0], args[1]); err != nil {
			return p.interrupted(ctx, signals, f.json, err)
		}
		return nil
	}
	return cmd
}

// cpObject is what --json prints.
type cpObject struct {
	ID      string   `json:"id"`
	Entries int64    `json:"entries"` // files, folders and what else has a name
	Bytes   int64    `json:"bytes"`   // of files' content
	Skipped []string `json:"skipped,omitempty"`
}

func (p *Program) cp(ctx context.Context, f *cpFlags, from, to string) error {
	src, err := parseOperand(from)
	if err != nil {
		return err
	}
	dst, err := parseOperand(to)
	if err != nil {
		return err
	}
	switch {
	case (src.id == "") == (dst.id == ""):
		return usage("one of %s and %s is ID:PATH, and the other one is here", printable(from), printable(to))
	case dst.tar && f.json:
		return usage("--json and a tar on standard output exclude one another")
	case dst.tar && isTerminal(p.Stdout):
		return usage("a tar on the terminal is of no use; lead it into a file or another program")
	case src.tar && isTerminal(p.Stdin):
		return usage("the terminal is no tar; lead one to standard input")
	}
	box, err := p.openBox(ctx, firstOf(src.id, dst.id))
	if err != nil {
		return err
	}
	defer func() { _ = box.Release() }() // it goes on whatever that says
	shown := p.showCopy(f)
	done, err := p.copyWith(ctx, f, box, src, dst, shown.take)
	shown.end()
	if err != nil {
		return cpError(ctx, p, box, err)
	}
	return p.tellCopied(f, box.Info.ID, done)
}

// cpError says whether it was the sandbox's end that ended a copy.
func cpError(ctx context.Context, p *Program, box *manager.Box, err error) error {
	if ctx.Err() == nil && errors.Is(err, agent.ErrConnectionLost) && endedWithin(box, endLag) {
		return p.gone(ctx, box)
	}
	return err
}

// copyWith makes the copy.
func (p *Program) copyWith(ctx context.Context, f *cpFlags, box *manager.Box, src, dst operand, progress func(agent.CopyResult)) (agent.CopyResult, error) {
	connect := func(ctx context.Context) (net.Conn, error) { return awake(ctx, box, box.Connect) }
	opts := &agent.CopyOptions{Follow: f.follow, Owner: f.owner, Progress: progress}
	switch {
	case src.tar:
		return p.unpackIn(ctx, f, connect, insidePath(box, dst.path))
	case dst.tar:
		return p.packOut(ctx, f, connect, insidePath(box, src.path))
	case dst.id != "":
		return agent.CopyIn(ctx, connect, src.path, insidePath(box, dst.path), opts)
	}
	return agent.CopyOut(ctx, connect, insidePath(box, src.path), dst.path, opts)
}

// insidePath is a path in a sandbox, which is relative to where its commands start. What
// a slash or a dot at its end means stays.
func insidePath(box *manager.Box, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return firstOf(box.Info.WorkDir, "/") + "/" + name
}

// unpackIn takes a tar from standard input.
func (p *Program) unpackIn(ctx context.Context, f *cpFlags, connect agent.Connector, dir string) (agent.CopyResult, error) {
	conn, err := connect(ctx)
	if err != nil {
		return agent.CopyResult{}, err
	}
	res, err := agent.Unpack(ctx, conn, agent.UnpackParams{Path: dir, Owner: f.owner}, p.Stdin)
	if err == nil {
		_, err = io.Copy(io.Discard, p.Stdin) // whoever writes it is not cut off
	}
	return agent.CopyResult{Entries: res.Entries, Bytes: res.Bytes}, err
}

// packOut writes a tar to standard output.
func (p *Program) packOut(ctx context.Context, f *cpFlags, connect agent.Connector, name string) (agent.CopyResult, error) {
	conn, err := connect(ctx)
	if err != nil {
		return agent.CopyResult{}, err
	}
	tar, err := agent.Pack(ctx, conn, agent.PackParams{Path: name, Follow: f.follow})
	if err != nil {
		return agent.CopyResult{}, err
	}
	defer tar.Close()
	n, err := io.Copy(outletWriter{p.Stdout}, tar)
	if broken, ok := errors.AsType[*outletError](err); ok {
		return agent.CopyResult{}, unwritten(broken.err)
	}
	return agent.CopyResult{Bytes: n, Skipped: tar.Skipped()}, err
}

// tellCopied says what was copied, and what was not.
func (p *Program) tellCopied(f *cpFlags, id string, done agent.CopyResult) error {
	if f.json {
		return p.printJSON(&cpObject{id, done.Entries, done.Bytes, done.Skipped})
	}
	for _, s := range done.Skipped {
		p.say("left out: %s", printable(s))
	}
	return nil
}

// A copyShow is the line that tells how a copy goes, on a terminal.
type copyShow struct {
	region *live.Region
	begun  time.Time

	mu  sync.Mutex
	now agent.CopyResult
}

// copyPatience is how long a copy may take before it is told how it goes.
const copyPatience = 500 * time.Millisecond

func (p *Program) showCopy(f *cpFlags) *copyShow {
	s := &copyShow{begun: time.Now()}
	if f.quiet || !isTerminal(p.Stderr) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.region = live.Start(p.Stderr, columns(p.Stderr), rows(p.Stderr), s.lines)
	return s
}

func (s *copyShow) take(now agent.CopyResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *copyShow) lines(frame int) []string {
	took := time.Since(s.begun)
	if took < copyPatience {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rate := int64(float64(s.now.Bytes) / took.Seconds())
	return []string{fmt.Sprintf("%s %s, %s, %s/s", live.Spinner(frame), plural(int(s.now.Entries), "file"), bytesText(s.now.Bytes), bytesText(rate))}
}

func (s *copyShow) end() {
	if s.region != nil {
		s.region.End()
	}
}

// completeOperands completes IDs with a colon, beside files here.
func (p *Program) completeOperands(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if begun != "" && !looksLikeID(begun) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, w := range p.sandboxWords(cmd, nil) {
		id, about, _ := strings.Cut(w, "\t")
		out = append(out, id+":\t"+about)
	}
	return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}
