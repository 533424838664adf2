package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/agent"
)

func (p *Program) sandboxKillCmd() *cobra.Command {
	var grace time.Duration
	var signal string
	cmd := &cobra.Command{
		Use:   "kill ID PROCESS",
		Short: "End a command in a sandbox, or signal it",
		Long: `End a command in a sandbox: with SIGTERM, and after --grace with SIGKILL. --signal sends
just that signal and waits for nothing. PROCESS is a name that airlock sandbox ps shows.
One that has ended already is no error; how it ended is said. Only a signal needs one that
runs.`,
		Example:           "  airlock sandbox kill ID p3\n  airlock sandbox kill ID p3 --signal HUP",
		Args:              takes(2, 2, "say which command in which sandbox: airlock sandbox kill ID PROCESS; airlock sandbox ps ID lists them"),
		ValidArgsFunction: p.completeProcesses(true),
	}
	cmd.Flags().DurationVar(&grace, "grace", 2*time.Second, "how long it may take to end itself")
	cmd.Flags().StringVarP(&signal, "signal", "s", "", "send just this one, as in HUP or SIGUSR1")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if grace < 0 {
			return p.ends(ctx, *asJSON, usage("--grace %s: it is negative", grace))
		}
		if signal != "" && cmd.Flags().Changed("grace") {
			return p.ends(ctx, *asJSON, usage("--grace and --signal exclude one another: just a signal is not waited for"))
		}
		before, err := p.kill(ctx, args[0], args[1], signalWord(signal), grace)
		switch {
		case err != nil:
			return p.ends(ctx, *asJSON, err)
		case *asJSON:
			o := &killObject{Process: args[1], Signal: signalWord(signal), Ended: signal == ""}
			if before != nil {
				o.Already, o.Result = true, before.Result
			}
			return p.printJSON(o)
		case before != nil:
			p.say("%s has ended already: %s", printable(before.Process), processState(before))
		}
		return nil
	}
	return cmd
}

type killObject struct {
	Process string            `json:"process"`
	Signal  string            `json:"signal,omitempty"`  // that was sent
	Ended   bool              `json:"ended"`             // it is known to have
	Already bool              `json:"already,omitempty"` // before anything was done
	Result  *agent.ExecResult `json:"result,omitempty"`  // of one that had ended already
}

// signalWord is a signal as the protocol names it.
func signalWord(word string) string {
	word = strings.ToUpper(word)
	if word != "" && !strings.HasPrefix(word, "SIG") {
		word = "SIG" + word
	}
	return word
}

// kill ends or signals a command. before is one that had ended already; nil where it ran.
func (p *Program) kill(ctx context.Context, id, process, signal string, grace time.Duration) (before *agent.ProcessInfo, err error) {
	box, err := p.openBox(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Release() }() // it goes on whatever that says
	client, err := p.guestOf(ctx, box)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	info, err := findProcess(ctx, client, process)
	switch {
	case err != nil:
		return nil, err
	case !info.Running && signal != "":
		return nil, fmt.Errorf("%s has ended already (%s): nothing is there to take %s", printable(process), processState(info), printable(signal))
	case !info.Running:
		return info, nil
	case signal == "":
		ms := grace.Milliseconds()
		if ms == 0 {
			ms = -1 // at once
		}
		return nil, endCommand(ctx, client, agent.EndParams{Process: process, GraceMS: ms}, grace+endGuard, id)
	}
	proc, err := client.Attach(ctx, agent.AttachParams{Process: process, From: -1}, &agent.Streams{})
	if err != nil {
		return nil, err
	}
	defer proc.Cancel()
	return nil, proc.Signal(ctx, signal)
}

// endGuard is how much longer than its grace a command may take to be ended: in a sandbox that a fork bomb keeps busy, its
// agent has its turn as seldom as each of the bomb's processes.
const endGuard = time.Minute

func endCommand(ctx context.Context, client *agent.Client, params agent.EndParams, limit time.Duration, id string) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := client.EndProcess(limited, params)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%s is being ended, but has not in %s: what runs there keeps the sandbox busy; look again with airlock sandbox ps %s, or end all of it with airlock sandbox rm %[3]s",
		printable(params.Process), limit.Round(time.Second), printable(id))
}

// findProcess finds a command by its name; the error lists those that run.
func findProcess(ctx context.Context, client *agent.Client, process string) (*agent.ProcessInfo, error) {
	list, err := client.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if list[i].Process == process {
			return &list[i], nil
		}
		if list[i].Running {
			names = append(names, printable(list[i].Process))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no command %s in the sandbox, and none runs", printable(process))
	}
	return nil, fmt.Errorf("there is no command %s in the sandbox; those that run are %s", printable(process), strings.Join(names, ", "))
}
