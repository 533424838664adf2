package cli_test

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"airlock/agent"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
	"airlock/internal/surface/cli"
)

func TestExitOf(t *testing.T) {
	res := func(r agent.ExecResult) executor.Outcome { return executor.Outcome{Result: r} }
	for _, tt := range []struct {
		name string
		out  executor.Outcome
		want int
	}{
		{"success", res(agent.ExecResult{}), 0},
		{"the command's own code", res(agent.ExecResult{ExitCode: 42}), 42},
		{"a signal", res(agent.ExecResult{ExitCode: -1, Signal: "SIGSEGV"}), 139},
		{"a time limit, whatever the signal", res(agent.ExecResult{ExitCode: -1, Signal: "SIGKILL", TimedOut: true}), 124},
		{"not found", res(agent.ExecResult{ExitCode: -1, NotStarted: "not_found"}), 127},
		{"not executable", res(agent.ExecResult{ExitCode: -1, NotStarted: "not_executable"}), 126},
		{"not started for another reason", res(agent.ExecResult{ExitCode: -1, NotStarted: "failed"}), 125},
		{"out of memory", executor.Outcome{Ended: fmt.Errorf("x: %w", sandbox.ErrOutOfMemory)}, 137},
		{"a sandbox that ended by itself is no success", executor.Outcome{Ended: sandbox.ErrEnded}, 125},
		{"a reader that went away", executor.Outcome{Output: &os.PathError{Op: "write", Err: syscall.EPIPE}}, 141},
		{"output that cannot be written", executor.Outcome{Output: io.ErrShortWrite}, 125},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.ExitOf(&tt.out); got != tt.want {
				t.Errorf("exitOf = %d, want %d", got, tt.want)
			}
		})
	}
}
