package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
	"airlock/internal/executor"
	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxLogsCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID [PROCESS] [-f]",
		Short: "The output of a sandbox's commands in the background",
		Long: `Show what is kept of the output of a sandbox's commands in the background: of one, or of all
with their names before each line. Where there is none, it is what the engine said. -f goes
on with what comes, until the command has ended, or Ctrl-C.`,
		Args:              takes(1, 2, "say of which sandbox: airlock sandbox logs ID [PROCESS]"),
		ValidArgsFunction: p.completeProcesses(false),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if follow && *asJSON {
			return p.ends(cmd.Context(), true, usage("--follow and --json exclude one another: --json is one value"))
		}
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		defer ignoreBrokenPipes()()
		if err := p.logs(ctx, args, follow, *asJSON); err != nil {
			return p.interrupted(ctx, signals, *asJSON, err)
		}
		return nil
	}
	return cmd
}

func (p *Program) logs(ctx context.Context, args []string, follow, asJSON bool) error {
	box, err := p.openBox(ctx, args[0])
	if err != nil {
		return err
	}
	defer func() { _ = box.Release() }() // it goes on whatever that says
	var list []agent.ProcessInfo
	if len(args) == 2 {
		info, err := p.processOf(ctx, box, args[1])
		if err != nil {
			return err
		}
		list = append(list, *info)
	} else if list, err = p.background(ctx, box); err != nil {
		return err
	}
	switch {
	case asJSON:
		return p.logsJSON(ctx, box, list)
	case len(args) == 2:
		return p.logOne(ctx, box, &list[0], p.Stdout, p.Stderr, !follow)
	case follow:
		return p.followLogs(ctx, box)
	case len(list) == 0:
		return p.engineLog(ctx, box)
	}
	for i := range list {
		l := p.newLogLines(&list[i])
		err := p.logOne(ctx, box, &list[i], l.stream(p.Stdout), l.stream(p.Stderr), true)
		l.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// background are the commands of a sandbox whose output is kept.
func (p *Program) background(ctx context.Context, box *manager.Box) ([]agent.ProcessInfo, error) {
	all, err := p.processesOf(ctx, box)
	var list []agent.ProcessInfo
	for i := range all {
		if all[i].Detached {
			list = append(list, all[i])
		}
	}
	return list, err
}

// logOne writes what is kept of a command's output, and where once is false goes on until it ends.
func (p *Program) logOne(ctx context.Context, box *manager.Box, info *agent.ProcessInfo, stdout, stderr io.Writer, once bool) error {
	a := &attachment{p: p, box: box, info: info, req: &executor.Request{Stdout: stdout, Stderr: stderr}, at: info.First, noWait: once}
	_, err := a.follow(ctx)
	if broken, ok := errors.AsType[*outletError](err); ok {
		return unwritten(broken.err)
	}
	if a.lost > 0 {
		p.say("%s of the output of %s were kept no more", bytesText(a.lost), printable(info.Process))
	}
	if err != nil && ctx.Err() == nil && endedWithin(box, endLag) {
		return p.gone(ctx, box)
	}
	return err
}

// logObject is what --json prints of each command.
type logObject struct {
	Process   string `json:"process"`
	Label     string `json:"label,omitempty"`
	Running   bool   `json:"running"`
	ExitCode  *int   `json:"exit_code,omitempty"` // of one that has ended
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	First     int64  `json:"first,omitempty"` // so many bytes of its output are kept no more
	Truncated bool   `json:"truncated,omitempty"`
}

func (p *Program) logsJSON(ctx context.Context, box *manager.Box, list []agent.ProcessInfo) error {
	out := struct {
		ID        string      `json:"id"`
		Processes []logObject `json:"processes"`
		Engine    string      `json:"engine,omitempty"` // what it said
	}{ID: box.Info.ID, Processes: []logObject{}}
	for i := range list {
		info := &list[i]
		c := &captured{}
		c.stdout.most, c.stderr.most = agent.MaxKeepOutput, agent.MaxKeepOutput
		if err := p.logOne(ctx, box, info, &c.stdout, &c.stderr, true); err != nil {
			return err
		}
		o := logObject{
			Process: info.Process, Label: info.Label, Running: info.Running, Stdout: c.stdout.String(), Stderr: c.stderr.String(),
			First: info.First, Truncated: c.stdout.cut || c.stderr.cut,
		}
		if info.Result != nil {
			o.ExitCode = &info.Result.ExitCode
		}
		out.Processes = append(out.Processes, o)
	}
	if len(list) == 0 {
		out.Engine = p.engineSaid(ctx, box)
	}
	return p.printJSON(&out)
}

// engineSaid is what the engine wrote of a sandbox; "" where it has nothing to say.
func (p *Program) engineSaid(ctx context.Context, box *manager.Box) string {
	if p.EngineLog == nil {
		return ""
	}
	text, err := p.EngineLog(ctx, box.Info.ID)
	if err != nil {
		return ""
	}
	return text
}

func (p *Program) engineLog(ctx context.Context, box *manager.Box) error {
	text := p.engineSaid(ctx, box)
	if text == "" {
		p.say("no command runs in the background of %s, and the engine has said nothing", box.Info.ID)
		return nil
	}
	for line := range bytes.Lines([]byte(text)) {
		if err := p.writeLine(printable(string(bytes.TrimRight(line, "\r\n")))); err != nil {
			return err
		}
	}
	return nil
}

// logsEvery is how often it is looked whether there are new commands.
const logsEvery = time.Second

// maxFollowed is how many commands are followed at once: as many as an honest guest runs and remembers. Each
// has a connection of its own.
const maxFollowed = agent.MaxProcesses + agent.MaxEnded

// followLogs shows the output of all commands in the background, also of those that begin later.
func (p *Program) followLogs(ctx context.Context, box *manager.Box) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var shown sync.WaitGroup
	defer shown.Wait()
	defer cancel(nil)
	known := map[string]bool{}
	places := make(chan struct{}, maxFollowed)
	for {
		list, err := p.background(ctx, box)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && endedWithin(box, endLag):
			return p.gone(ctx, box)
		case err != nil:
			return err
		}
		for i := range list {
			if known[list[i].Process] {
				continue
			}
			select {
			case places <- struct{}{}:
			default:
				continue // it is seen when another one has ended
			}
			known[list[i].Process] = true
			shown.Go(func() {
				defer func() { <-places }()
				l := p.newLogLines(&list[i])
				err := p.logOne(ctx, box, &list[i], l.stream(p.Stdout), l.stream(p.Stderr), false)
				l.end()
				if err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}
		maps.DeleteFunc(known, func(name string, _ bool) bool { // what the guest has forgotten
			return !slices.ContainsFunc(list, func(i agent.ProcessInfo) bool { return i.Process == name })
		})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-box.Done():
			return p.gone(ctx, box)
		case <-time.After(logsEvery):
		}
	}
}

// logLines put a command's name before each line of its output.
type logLines struct {
	p       *Program
	before  string
	streams []*logStream
}

func (p *Program) newLogLines(info *agent.ProcessInfo) *logLines {
	return &logLines{p: p, before: strings.TrimSpace(printable(info.Process)+" "+printable(info.Label)) + " | "}
}

// stream is one of the command's, for one goroutine.
func (l *logLines) stream(to io.Writer) io.Writer {
	s := &logStream{l: l, to: to}
	l.streams = append(l.streams, s)
	return s
}

// end writes lines that have no end.
func (l *logLines) end() {
	for _, s := range l.streams {
		if len(s.begun) > 0 {
			_ = s.write(nil) // who could not be written to is known
		}
	}
}

type logStream struct {
	l     *logLines
	to    io.Writer
	begun []byte
}

// maxLogLine is how long a line may become before it is written without its end.
const maxLogLine = 64 << 10

func (s *logStream) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		whole := line[len(line)-1] == '\n'
		if !whole && len(s.begun)+len(line) < maxLogLine {
			s.begun = append(s.begun, line...)
			continue
		}
		if err := s.write(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// write writes a line at once, so that no other comes into it.
func (s *logStream) write(rest []byte) error {
	line := append(append([]byte(s.l.before), s.begun...), rest...)
	s.begun = s.begun[:0]
	_, err := s.to.Write(append(line, '\n'))
	return err
}
