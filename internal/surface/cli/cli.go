// Package cli is Airlock on the command line: one file a subcommand. It parses, asks and
// shows; what is done is done by the packages below it. It knows no driver.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"airlock/internal/audit"
	"airlock/internal/changes"
	"airlock/internal/config"
	"airlock/internal/executor"
	"airlock/internal/gate"
	"airlock/internal/image"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/diagnose"
)

// Exit codes beside the command's own, as people know them from docker and timeout.
const (
	exitFailed     = 125 // airlock itself failed
	exitRefused    = 126 // refused, or the command cannot be executed
	exitNotFound   = 127 // there is no such command
	exitTimedOut   = 124
	exitUsage      = 2
	exitGeneral    = 1
	exitSignalBase = 128
)

// Program is what the subcommands work with.
type Program struct {
	Version string
	Driver  sandbox.Driver
	Runner  *executor.Runner
	Store   func() (*changes.Store, error) // opened by the commands that need it
	Record  func() (*audit.Log, error)     // the same; kept open until the program ends
	Gate    *gate.Gate
	Plans   func() (*executor.PlanRunner, error) // the same

	// Tools gives the registry with the plugins of these folders beside the usual ones, and
	// a sentence for each plugin that could not be loaded.
	Tools func(plugins []string) (*tool.Registry, []string, error)

	// Bridge reads a configuration of agents. Its error is of what the file says.
	Bridge func(config string) (*Bridge, error)

	// Diagnose looks at what the agents of a configuration need, and mends some of it.
	Diagnose func(ctx context.Context, config string, fix bool) []diagnose.Finding

	// Lines answers the calls on the lines of in, one after the other and a batch's several
	// at once, and reports whether an answer was an error's.
	Lines func(ctx context.Context, in io.Reader, out io.Writer, jobs int, call BridgeCall) (failed bool, err error)

	// Sandboxes keeps the sandboxes that last, and Images the images that some are laid over.
	// Both are opened by the commands that need them.
	Sandboxes func() (*manager.Manager, error)
	Images    func() (*image.Store, error)

	// EngineLog is what the engine wrote of a sandbox that lasts; nil: nobody keeps that.
	EngineLog func(ctx context.Context, id string) (string, error)

	// Terminal puts tools' questions.
	Terminal *Terminal

	// Settings are the person's, and Model the language model that they, the environment and
	// the options choose.
	Settings func() (*config.Config, error)
	Model    func(ctx context.Context, opts *ModelOptions) (*ChosenModel, error)

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
}

// codeError ends the program with a code, and says no more than its error, which may
// be nil.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// fail is an error of airlock itself with an exit code.
func fail(code int, err error) error { return &codeError{code, err} }

// usage is an error of what was typed.
func usage(format string, args ...any) error {
	return &codeError{exitUsage, fmt.Errorf(format, args...)}
}

// Run runs the command line and gives the program's exit code.
func Run(ctx context.Context, p *Program, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	return p.exitCode(root.ExecuteContext(ctx))
}

// exitCode says what went wrong, if anything, and gives the code for it.
func (p *Program) exitCode(err error) int {
	var code *codeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		if code.err != nil {
			p.complain(code.err)
		}
		return code.code
	default: // cobra's: an unknown command or flag
		p.complain(err)
		return exitUsage
	}
}

// say writes a sentence of Airlock's own.
func (p *Program) say(format string, args ...any) {
	// An error may repeat what somebody else said: a registry, a server, a guest.
	fmt.Fprintln(p.Stderr, "airlock: "+printableLines(fmt.Sprintf(format, args...)))
}

func (p *Program) complain(err error) { p.say("%v", err) }

func (p *Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "airlock",
		Short: "Run what an AI asks for in a sandbox over your files",
		Long: `Airlock runs a command in a sandbox laid over your real files, shows what it
changed, and lets out only the changes you commit.

  airlock run -- make test      run in a fresh sandbox, then decide
  airlock sandbox create        make one that stays, for many commands
  airlock ai run "WORDS…"       ask a model for the commands, and run those so
  airlock changes               what is kept, not yet decided
  airlock commit ID             let a change set out
  airlock undo                  take the last commit back`,
		Version:       p.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("airlock {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(p.runCmd(), p.sandboxCmd(), p.imageCmd(), p.templateCmd(), p.changesCmd(), p.commitCmd(), p.discardCmd(), p.undoCmd(), p.planCmd(), p.aiCmd(), p.toolCmd(), p.bridgeCmd(),
		p.policyCmd(), p.logCmd(), p.hookCmd(), p.doctorCmd())
	root.SetFlagErrorFunc(wrongFlag)
	return root
}

// noSuchCommand refuses what is no subcommand.
func noSuchCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := printable(args[0])
	return usage("%s is not one of airlock's commands, which airlock --help lists; to run it in a sandbox, write airlock run -- %s", name, name)
}

// wrongFlag is an error in a flag: airlock run, whose command may end with 2, has its own
// code for it.
func wrongFlag(cmd *cobra.Command, err error) error {
	err = fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	if cmd.Name() == "ai" || cmd.HasParent() && cmd.Parent().Name() == "ai" {
		err = fmt.Errorf("%w, or write -- before words that begin with a dash", err)
	}
	if cmd.Name() == "run" && cmd.Parent() == cmd.Root() || ofSandboxes(cmd) {
		return fail(exitFailed, err)
	}
	return fail(exitUsage, err)
}
