package acp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/proc"
)

const (
	maxTerminals = 32      // that are there at once
	maxOutput    = 1 << 20 // bytes of a terminal's output that are kept
	overtime     = 10 * time.Second
)

// terminals are the commands that the agent has started.
type terminals struct {
	mu   sync.Mutex
	last int
	byID map[string]*terminal // nil: one that is being started
}

// A terminal is one command in the sandbox.
type terminal struct {
	proc *agent.Process
	out  screen
	kill func()        // ends it; may be called again
	done chan struct{} // closed when what follows is set
	res  agent.ExecResult
	err  error
}

// createTerminal is terminal/create. What runs is a line of a shell's, as cmd.run runs it: the
// one that the gate was shown. Words beside the command are quoted.
func (c *client) createTerminal(ctx context.Context, p *sdk.CreateTerminalRequest) (sdk.CreateTerminalResponse, error) {
	var none sdk.CreateTerminalResponse
	if err := c.known(p.SessionId); err != nil {
		return none, err
	}
	line, err := lineOf(p)
	if err != nil {
		return none, err
	}
	dir := c.s.Workspace
	if p.Cwd != nil && *p.Cwd != "" {
		if dir = *p.Cwd; checkPath(dir) != nil {
			return none, checkPath(dir)
		}
	}
	limit := maxOutput
	if p.OutputByteLimit != nil {
		if limit = min(*p.OutputByteLimit, maxOutput); limit < 0 {
			return none, badParams("outputByteLimit is negative")
		}
	}
	id, err := c.terms.reserve()
	if err != nil {
		return none, err
	}
	done, err := c.admit(ctx, tool.InSandbox, newCall("cmd.run", "execute", map[string]any{"command": line, "working_directory": dir}))
	if err != nil {
		c.terms.free(id)
		return none, err
	}
	t, err := c.start(ctx, line, dir, limit, done)
	if err != nil {
		c.terms.free(id)
		done(came(err))
		return none, err
	}
	c.terms.put(id, t)
	return sdk.CreateTerminalResponse{TerminalId: id}, nil
}

// lineOf is the shell line of a terminal, with its variables in it: whoever judges it is
// to see them.
func lineOf(p *sdk.CreateTerminalRequest) (string, error) {
	var b strings.Builder
	for _, v := range p.Env {
		if !isVariable(v.Name) {
			return "", badParams("%s is no name of a variable", shown(v.Name))
		}
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, quote(v.Value))
	}
	b.WriteString(p.Command)
	for _, word := range p.Args {
		b.WriteString(" " + quote(word))
	}
	if strings.TrimSpace(p.Command) == "" || strings.ContainsRune(b.String(), 0) {
		return "", badParams("there is no command in it")
	}
	return b.String(), nil
}

// isVariable reports whether a shell takes name for a variable's.
func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9' || i == 0) {
			return false
		}
	}
	return name != ""
}

// start runs a line in the sandbox. The result is told to done when it has ended.
func (c *client) start(ctx context.Context, line, dir string, limit int, done func(tool.Result)) (*terminal, error) {
	m, err := c.sandbox(ctx)
	if err != nil {
		return nil, err
	}
	known, err := m.Client.Hello(ctx)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive", "PAGER": "cat", "GIT_PAGER": "cat"} // there is nobody at a terminal
	maps.Copy(env, m.Env)
	maps.DeleteFunc(env, func(name, _ string) bool { // they would make the line another one
		return slices.Contains([]string{"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"}, name) || strings.HasPrefix(name, "BASH_FUNC_")
	})
	params := agent.ExecParams{Argv: shell(line), ExecOptions: agent.ExecOptions{
		Cwd: dir, Env: env, ClearEnv: true, User: m.User, TimeoutMS: m.MaxTime.Milliseconds(),
		MaxProcs: m.MaxProcs, EndRest: known.Has(agent.CapRest),
	}}
	// It is ended by being told so, not by ctx, but for as long as it is not started.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	started := proc.Starting(ctx, end)
	t := &terminal{out: screen{most: limit}, done: make(chan struct{})}
	t.proc, err = m.Client.Start(life, params, &agent.Streams{Stdout: &t.out, Stderr: &t.out})
	started()
	if err != nil {
		end()
		return nil, err
	}
	var once sync.Once
	late := make(chan struct{})
	t.kill = func() { once.Do(func() { t.proc.Cancel(); close(late) }) }
	go func() {
		defer close(t.done)
		defer end()
		select {
		case <-t.proc.Done():
		case <-late:
			timer := time.NewTimer(overtime)
			defer timer.Stop()
			select {
			case <-t.proc.Done():
			case <-timer.C:
				end() // the guest does not answer
			}
		}
		t.res, t.err = t.proc.Wait()
		t.out.finish()
		done(t.result())
	}()
	return t, nil
}

// shell runs a line in bash, or in sh where there is no bash, as cmd.run does. All that it
// prints goes one way, so that it stays in order.
func shell(line string) []string {
	return []string{"/bin/sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash -c -- "$1" 2>&1; else exec sh -c -- "$1" 2>&1; fi`, "sh", line}
}

// result is what became of the command, for the record.
func (t *terminal) result() tool.Result {
	switch {
	case t.err != nil:
		return tool.Fail(tool.IOError, t.err.Error())
	case t.res.NotStarted != "":
		return tool.Fail(tool.NotFound, t.res.Stderr)
	}
	text, _ := t.out.text()
	return tool.Result{OK: true, Stdout: text, Meta: tool.Meta{tool.MetaExitCode: t.res.ExitCode}}
}

// status is how it ended; nil while it runs.
func (t *terminal) status() *sdk.TerminalExitStatus {
	select {
	case <-t.done:
	default:
		return nil
	}
	code := t.res.ExitCode
	switch {
	case t.err != nil || t.res.NotStarted != "":
		code = 127
	case t.res.Signal != "" || t.res.Canceled || t.res.TimedOut:
		signal := t.res.Signal
		if signal == "" {
			signal = "SIGKILL"
		}
		return &sdk.TerminalExitStatus{Signal: &signal}
	}
	return &sdk.TerminalExitStatus{ExitCode: &code}
}

// terminalOutput is terminal/output.
func (c *client) terminalOutput(ctx context.Context, p *sdk.TerminalOutputRequest) (sdk.TerminalOutputResponse, error) {
	t, err := c.terminal(p.SessionId, p.TerminalId)
	if err != nil {
		return sdk.TerminalOutputResponse{}, err
	}
	if err := c.out.reserve(ctx, maxOutput); err != nil {
		return sdk.TerminalOutputResponse{}, err
	}
	status := t.status() // before the output, which is whole where there is one
	text, cut := t.out.text()
	c.out.release(maxOutput - len(text))
	return sdk.TerminalOutputResponse{Output: text, Truncated: cut, ExitStatus: status}, nil
}

// waitTerminal is terminal/wait_for_exit.
func (c *client) waitTerminal(ctx context.Context, p *sdk.WaitForTerminalExitRequest) (sdk.WaitForTerminalExitResponse, error) {
	var none sdk.WaitForTerminalExitResponse
	t, err := c.terminal(p.SessionId, p.TerminalId)
	if err != nil {
		return none, err
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return none, errOver()
	}
	status := t.status()
	return sdk.WaitForTerminalExitResponse{ExitCode: status.ExitCode, Signal: status.Signal}, nil
}

// killTerminal is terminal/kill: the terminal stays, for its output.
func (c *client) killTerminal(_ context.Context, p *sdk.KillTerminalRequest) (sdk.KillTerminalResponse, error) {
	t, err := c.terminal(p.SessionId, p.TerminalId)
	if err == nil {
		t.kill()
	}
	return sdk.KillTerminalResponse{}, err
}

// releaseTerminal is terminal/release: the command ends, and its name is gone.
func (c *client) releaseTerminal(ctx context.Context, p *sdk.ReleaseTerminalRequest) (sdk.ReleaseTerminalResponse, error) {
	t, err := c.terminal(p.SessionId, p.TerminalId)
	if err != nil {
		return sdk.ReleaseTerminalResponse{}, err
	}
	t.kill()
	select {
	case <-t.done:
		c.terms.free(p.TerminalId)
	case <-ctx.Done(): // end waits for it
	}
	return sdk.ReleaseTerminalResponse{}, nil
}

// terminal is one by its name.
func (c *client) terminal(session sdk.SessionId, id string) (*terminal, error) {
	if err := c.known(session); err != nil {
		return nil, err
	}
	c.terms.mu.Lock()
	defer c.terms.mu.Unlock()
	if t := c.terms.byID[id]; t != nil {
		return t, nil
	}
	return nil, badParams("there is no terminal %s", shown(id))
}

// reserve makes a name for a terminal that is to be started.
func (t *terminals) reserve() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= maxTerminals {
		return "", &sdk.RequestError{Code: -32603, Message: fmt.Sprintf("there are %d terminals already: release one", maxTerminals)}
	}
	if t.byID == nil {
		t.byID = map[string]*terminal{}
	}
	t.last++
	id := fmt.Sprintf("term-%d", t.last)
	t.byID[id] = nil
	return id, nil
}

func (t *terminals) free(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// put gives a terminal its name.
func (t *terminals) put(id string, one *terminal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[id] = one
}

// end ends all of them, and waits for that. None is being started.
func (t *terminals) end() {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, one := range all {
		if one != nil {
			one.kill()
		}
	}
	for _, one := range all {
		if one != nil {
			<-one.done
		}
	}
}
