// Package program runs the system's own programs on a tool's Machine: found in the
// system's folders alone, given arguments and never a shell line, with bounded output and
// a graceful end. It knows neither packages nor services.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
)

// Path is where the system's programs are looked for, and the PATH they run with. The
// caller's own PATH is not asked: a project may have put folders of its own into it, and
// an ordinary user's lacks the folders that installation scripts need.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin:/home/linuxbrew/.linuxbrew/bin"

const (
	grace      = 3 * time.Second // between SIGTERM and SIGKILL when a call is canceled
	killed     = time.Second     // after SIGKILL
	signalTime = time.Second     // for the guest to pass a signal on
)

// Find returns the absolute path of a program, "" where there is none. The error says
// that the Machine could not be asked.
func Find(ctx context.Context, m *tool.Machine, name string) (string, error) {
	for dir := range strings.SplitSeq(Path, ":") {
		path := dir + "/" + name
		is, err := executable(ctx, m, path)
		if err != nil {
			return "", err
		}
		if is {
			return path, nil
		}
	}
	return "", nil
}

func executable(ctx context.Context, m *tool.Machine, path string) (bool, error) {
	info, err := m.Client.Stat(ctx, path, true)
	if gone, err := absent(err); gone || err != nil {
		return false, err
	}
	return info.Type == "file" && info.Mode&0o111 != 0, nil
}

// Exists reports whether something is at a path. The error says that the Machine could
// not be asked.
func Exists(ctx context.Context, m *tool.Machine, path string) (bool, error) {
	_, err := m.Client.Stat(ctx, path, true)
	gone, err := absent(err)
	return !gone && err == nil, err
}

// absent tells the guest's "there is no such file" from a guest that does not answer.
func absent(err error) (bool, error) {
	var answer *agent.RPCError
	if errors.As(err, &answer) && answer.Code != agent.CodeLocal {
		return true, nil
	}
	return false, err
}

// A Command is a program to run.
type Command struct {
	Argv []string          // the program's absolute path first
	Env  map[string]string // added to the Machine's, or replacing what it has
	End  string            // the signal that asks it to end; "": SIGTERM
	Live bool              // its output also goes to the Machine's Stdout and Stderr, as it comes
}

// A Result is how a Command ended.
type Result struct {
	agent.ExecResult
	Cut bool // some of the output is not there: it was more than agent.MaxOutput
}

// Run runs a command in the root folder, where no name of a package or service is a
// file's. Each stream of its output is kept up to agent.MaxOutput bytes.
//
// When ctx ends, the command and all of its process group get the signal End, and SIGKILL three
// seconds later: package managers take their locks away in between. The error is then
// ctx's.
func Run(ctx context.Context, m *tool.Machine, c Command) (Result, error) {
	env := maps.Clone(m.Env)
	if env == nil {
		env = map[string]string{}
	}
	env["PATH"], env["LC_ALL"], env["LANGUAGE"] = Path, "C", ""
	env["PAGER"] = "cat"
	maps.Copy(env, c.Env)

	var outw, errw io.Writer
	if c.Live {
		outw, errw = m.Stdout, m.Stderr
	}
	stdout, stderr := &buffer{next: outw}, &buffer{next: errw}

	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	p, err := m.Client.Start(life, agent.ExecParams{Argv: c.Argv, ExecOptions: agent.ExecOptions{
		Cwd: "/", Env: env, ClearEnv: true, User: m.User, MaxProcs: m.MaxProcs,
	}}, &agent.Streams{Stdout: stdout, Stderr: stderr})
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		finish(life, p, cmp.Or(c.End, "SIGTERM"))
		end()
	}
	res, err := p.Wait()
	if life.Err() != nil {
		err = ctx.Err()
	}
	result := Result{ExecResult: res, Cut: stdout.cut || stderr.cut}
	// A program that never started says why in the answer itself, not on a stream.
	result.Stdout, result.Stderr = stdout.text(), stderr.text()+res.Stderr
	if err != nil {
		return result, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return result, nil
}

// finish ends a process and waits until it has: it is asked to end, and killed if it has
// not done so in time. The end of its context alone would not be waited for.
func finish(ctx context.Context, p *agent.Process, first string) {
	for _, step := range []struct {
		signal string
		wait   time.Duration
	}{{first, grace}, {"SIGKILL", killed}} {
		asking, done := context.WithTimeout(ctx, signalTime)
		err := p.Signal(asking, step.signal)
		done()
		if err != nil {
			return // it is gone, or only the end of its context reaches it
		}
		timer := time.NewTimer(step.wait)
		select {
		case <-p.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// A buffer keeps the beginning of what is written to it, and hands all of it on for as
// long as somebody takes it: a front end that went away is no reason to stop half way
// through an installation.
type buffer struct {
	kept strings.Builder
	cut  bool
	next io.Writer
}

func (b *buffer) Write(p []byte) (int, error) {
	keep := p
	if room := agent.MaxOutput - b.kept.Len(); len(keep) > room {
		keep, b.cut = keep[:room], true
	}
	b.kept.Write(keep)
	if b.next != nil {
		if _, err := b.next.Write(p); err != nil {
			b.next = nil
		}
	}
	return len(p), nil
}

func (b *buffer) text() string {
	s := strings.ToValidUTF8(b.kept.String(), "\uFFFD")
	if b.cut {
		s += agent.TruncatedMarker
	}
	return s
}

// Failure is the Result of a call whose program could not be run to its end: TIMEOUT where
// the time was over, else IO_ERROR. doing is what was tried, as in "install nginx"; mend is
// added where the program was cut short.
func Failure(err error, doing, mend string) tool.Result {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return tool.Fail(tool.Timeout, doing+": the time was over before it was done, and it was ended"+mend)
	case errors.Is(err, context.Canceled):
		return tool.Fail(tool.IOError, doing+": canceled, and ended in the middle"+mend)
	}
	return tool.Fail(tool.IOError, doing+": "+err.Error())
}
