// Package host starts a guest agent on the machine itself, without any sandbox around it:
// what is to be done on the host is so done by the same code, with the same bounds, as in
// a sandbox, and ends with the process that asked for it. Whoever uses it has asked the
// gate before.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"airlock/agent"
)

// Options adjust Start. Nil means the zero value.
type Options struct {
	Agent  string       // the agent's program; "": this program, under the agent's name
	Stderr io.Writer    // takes the agent's log; nil discards
	Logger *slog.Logger // nil discards
}

// An Agent is a guest agent on the host. It is safe for concurrent use.
type Agent struct {
	client *agent.Client
	cmd    *exec.Cmd
	once   sync.Once
	ended  chan struct{} // closed when it has, and err is set
	err    error
}

// agentName is what an agent is called, whatever its program is.
const agentName = "airlock-agent"

// endTime is how long the agent may take to end what it runs.
const endTime = 10 * time.Second

// Start starts an agent as the user that this process is. It ends with Close, or with this
// process, however that ends: the agent sees the end of its connection, ends its
// commands and goes. Where somebody kills the agent, this process ends its commands.
func Start(ctx context.Context, opts *Options) (*Agent, error) {
	if opts == nil {
		opts = &Options{}
	}
	program := opts.Agent
	if program == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		program = exe
	}
	near, far, err := pair()
	if err != nil {
		return nil, fmt.Errorf("connect to an agent on the host: %w", err)
	}
	//nolint:noctx // The agent outlives ctx; Close ends it.
	cmd := exec.Command(program, "--listen", "stdio", "--log-level", "warn")
	cmd.Args[0] = agentName
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, opts.Stderr
	cmd.SysProcAttr = apart()
	cmd.WaitDelay = endTime
	err = cmd.Start()
	far.Close() // it is the child's: while it is open here, the child's end cannot be seen
	if err != nil {
		near.Close()
		return nil, fmt.Errorf("start an agent on the host: %w", err)
	}
	a := &Agent{client: agent.NewClient(near, &agent.Options{Logger: opts.Logger}), cmd: cmd, ended: make(chan struct{})}
	go a.attend(startOf(cmd.Process.Pid))
	if _, err := a.client.Hello(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the agent on the host: %w", err), a.Close())
	}
	return a, nil
}

// Client speaks to the agent.
func (a *Agent) Client() *agent.Client { return a.client }

// Close ends the agent and what it still runs, and waits for that. It may be called twice.
func (a *Agent) Close() error {
	a.once.Do(func() {
		a.client.Close()
		kill := time.AfterFunc(endTime, func() { _ = a.cmd.Process.Kill() })
		defer kill.Stop()
		<-a.ended
	})
	return a.err
}

// attend waits for the agent's end. One that was killed, or has failed inside, has ended nothing.
func (a *Agent) attend(since uint64) {
	defer close(a.ended)
	err := a.cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if failed && (exit.ExitCode() < 0 || exit.ExitCode() == exitPanic) {
		endLeft(a.cmd.Process.Pid, since)
	}
	if failed && exit.ExitCode() > 0 {
		err = nil // its connection ended, which is what it was told
	}
	a.err = err
}

// exitPanic is the exit code of a Go program that has failed inside.
const exitPanic = 2

// pair is a connection: the near end for a client, the far one for a child.
func pair() (net.Conn, *os.File, error) {
	nearFile, farFile, err := sockets()
	if err != nil {
		return nil, nil, err
	}
	defer nearFile.Close()
	conn, err := net.FileConn(nearFile)
	if err != nil {
		farFile.Close()
		return nil, nil, err
	}
	return conn, farFile, nil
}
