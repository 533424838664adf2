package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"airlock/agent"
	"airlock/internal/hostview"
	"airlock/internal/sandbox/manager"
)

// execFlags are how a command is run in a sandbox.
type execFlags struct {
	json, input, tty, detach bool
	dir, user, label         string
	env                      []string
	timeout                  time.Duration
}

func (f *execFlags) add(fl *pflag.FlagSet) {
	fl.BoolVarP(&f.input, "stdin", "i", false, "feed the command's input (the default on a terminal)")
	fl.BoolVarP(&f.tty, "tty", "t", false, "give it a terminal (the default where stdin and stdout are one)")
	fl.StringVarP(&f.dir, "workdir", "w", "", "run it in this folder of the sandbox")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "set a variable: NAME=VALUE, or NAME for its value here")
	fl.StringVarP(&f.user, "user", "u", "", "run it as this user: NAME, UID or UID:GID")
	fl.DurationVar(&f.timeout, "timeout", 0, "end it after this long, as in 90s; 0: no limit")
	fl.BoolVarP(&f.detach, "detach", "d", false, "start it in the background, and print its name; with --stdin its input stays open for attach")
	fl.StringVar(&f.label, "label", "", "a word for airlock sandbox ps, of one in the background")
	fl.BoolVar(&f.json, "json", false, "print one JSON object at the end instead of its output")
}

func (p *Program) sandboxExecCmd() *cobra.Command {
	f := &execFlags{}
	cmd := &cobra.Command{
		Use:   "exec [flags] ID -- CMD [ARG…]",
		Short: "Run a command in a sandbox",
		Long: `Run a command in a sandbox, which goes on afterwards. On a terminal the command gets
one, with its keys and its size; otherwise --stdin feeds its input.

Ctrl-C interrupts the command, twice ends it. It ends with airlock, unless --detach starts
it in the background.

The exit code is the command's; 128 and a signal's number where one ended it; 124 it timed
out, 137 the sandbox passed its memory limit and has ended, 126 it cannot be executed, 127
there is no such command, 125 the sandbox ended or airlock failed.`,
		Example: `  airlock sandbox exec ID -- make test
  airlock sandbox exec -it ID -- python3
  tar c . | airlock sandbox exec -i ID -- tar x -C /tmp
  airlock sandbox exec -d ID -- python3 -m http.server 8080`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		ValidArgsFunction:     p.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, argv, err := execArgs(cmd, args)
			if help, _ := cmd.Flags().GetBool("help"); help {
				return cmd.Help()
			}
			if err != nil {
				return p.ends(cmd.Context(), f.json, err)
			}
			return p.execIn(cmd, f, id, &insideWork{argv: argv})
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the ID is the command's
	f.add(cmd.Flags())
	return cmd
}

// execArgs are an ID and a command. The dashes between them may be left out.
func execArgs(cmd *cobra.Command, args []string) (id string, argv []string, err error) {
	if cmd.ArgsLenAtDash() == 0 {
		return "", nil, usage("say in which sandbox: %s ID -- CMD [ARG…]", cmd.CommandPath())
	}
	if len(args) == 0 {
		return "", nil, usage("say in which sandbox, and what: %s ID -- CMD [ARG…]; airlock sandbox list shows those there are", cmd.CommandPath())
	}
	id, argv = args[0], args[1:]
	if len(argv) > 0 && strings.HasPrefix(argv[0], "-") { // flags may stand behind the ID as well
		if err := cmd.Flags().Parse(argv); err != nil {
			return "", nil, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
		}
		argv = cmd.Flags().Args()
	}
	switch {
	case len(argv) == 0:
		return "", nil, usage("there is no command to run; write %s %s -- CMD [ARG…]", cmd.CommandPath(), printable(id))
	case argv[0] == "":
		return "", nil, usage("the command is empty")
	}
	return id, argv, nil
}

// insideWork is what is run: a program or code.
type insideWork struct {
	argv       []string
	lang, code string
}

func (w *insideWork) name() string {
	if len(w.argv) > 0 {
		return w.argv[0]
	}
	return w.lang
}

// execIn runs a command in the sandbox that was named.
func (p *Program) execIn(cmd *cobra.Command, f *execFlags, id string, work *insideWork) error {
	ctx, fl := cmd.Context(), cmd.Flags()
	box, err := p.openBox(ctx, id)
	if err != nil {
		return p.execEnds(ctx, f.json, id, err)
	}
	defer func() { _ = box.Release() }() // it goes on whatever that says
	options, err := p.execOptions(f, fl, &box.Info)
	if err != nil {
		return p.execEnds(ctx, f.json, box.Info.ID, err)
	}
	options.User = firstOf(f.user, box.User())
	if err := p.admitInside(ctx, &box.Info, options, work); err != nil {
		return p.execEnds(ctx, f.json, box.Info.ID, err)
	}
	log, err := p.recordInside(ctx, &box.Info, options, work, f.detach)
	if err != nil {
		return p.execEnds(ctx, f.json, box.Info.ID, err)
	}
	if f.detach {
		return p.detachIn(ctx, box, f, options, work)
	}
	call := &insideCall{
		id: box.Info.ID, name: work.name(), json: f.json, most: box.Info.Limits.Output,
		timeout: time.Duration(options.TimeoutMS) * time.Millisecond,
		start: func(ctx context.Context, c *agent.Client, s *insideStreams) (*agent.Process, error) {
			o := *options
			o.TTY = s.TTY
			maps.Copy(o.Env, s.Env)
			if work.lang != "" {
				return c.StartCode(ctx, agent.ExecCodeParams{Lang: work.lang, Code: work.code, ExecOptions: o}, &s.Streams)
			}
			return c.Start(ctx, agent.ExecParams{Argv: work.argv, ExecOptions: o}, &s.Streams)
		},
	}
	if fl.Changed("stdin") {
		call.input = &f.input
	}
	if fl.Changed("tty") {
		call.tty = &f.tty
	}
	defer ignoreBrokenPipes()() // a reader of our output that goes away ends the command, and not us
	rep := p.runInside(ctx, box, call)
	p.recordEnd(ctx, log, rep)
	return p.tellInside(rep, call)
}

// execOptions are how a command is run, without streams.
func (p *Program) execOptions(f *execFlags, fl *pflag.FlagSet, info *manager.Info) (*agent.ExecOptions, error) {
	switch {
	case f.timeout < 0:
		return nil, usage("--timeout %s: it is negative", f.timeout)
	case f.json && f.tty:
		return nil, usage("--json and --tty exclude one another: what stands on a terminal is no object")
	case f.label != "" && !f.detach:
		return nil, usage("--label is for a command in the background; write --detach, too")
	case len(f.label) > maxProcessLabel:
		return nil, usage("--label: it has more than %d bytes", maxProcessLabel)
	}
	timeout := info.Limits.Timeout
	if fl.Changed("timeout") {
		timeout = f.timeout
	}
	env, err := p.insideEnv(info, f.env)
	if err != nil {
		return nil, err
	}
	dir := firstOf(f.dir, info.WorkDir)
	if !strings.HasPrefix(dir, "/") {
		dir = strings.TrimSuffix(info.WorkDir, "/") + "/" + dir
	}
	env["PWD"] = dir
	return &agent.ExecOptions{
		// In an image whose home it is depends on who the command is, which the guest knows.
		Cwd: dir, Env: env, ClearEnv: info.OverHost(), TimeoutMS: timeout.Milliseconds(), MaxProcs: info.Limits.Procs,
	}, nil
}

const maxProcessLabel = 64 // bytes; the protocol's

// insideEnv is the environment of a command: over the host what airlock run gives it, then
// the sandbox's own, then what was named.
func (p *Program) insideEnv(info *manager.Info, named []string) (map[string]string, error) {
	env := map[string]string{"PATH": imagePath}
	if !info.OverHost() {
		if term := os.Getenv("TERM"); term != "" && isTerminal(p.Stdin) {
			env["TERM"] = term
		}
	} else {
		all, err := hostview.Environ(p.Environ, nil)
		if err != nil {
			return nil, fail(exitFailed, err)
		}
		env = all
	}
	maps.Copy(env, info.Env)
	own, err := namedEnv(p.Environ, named)
	if err != nil {
		return nil, err
	}
	maps.Copy(env, own)
	return env, nil
}

// imagePath is where programs are, for an image that does not say it.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func (p *Program) sandboxCodeCmd() *cobra.Command {
	f := &execFlags{}
	var lang string
	cmd := &cobra.Command{
		Use:   "code [flags] ID --lang LANG [FILE|-]",
		Short: "Run code in a sandbox",
		Long: `Run the code in FILE, or on standard input, with the interpreter of its language in the
sandbox: python, node, bash, sh, rust. Streams, exit codes and the other flags are those of
airlock sandbox exec. --stdin feeds the code's own input, where the code is a file.`,
		Example: `  airlock sandbox code ID --lang python analyse.py
  echo 'print(6 * 7)' | airlock sandbox code ID --lang python -`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		ValidArgsFunction:     p.completeSandboxThenFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, code, err := p.codeArgs(f, lang, args)
			if err != nil {
				return p.ends(cmd.Context(), f.json, err)
			}
			return p.execIn(cmd, f, id, &insideWork{lang: lang, code: code})
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "the code's language (required)")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions([]string{"python", "node", "bash", "sh", "rust"}, cobra.ShellCompDirectiveNoFileComp))
	f.add(cmd.Flags())
	return cmd
}

// maxCode is how much code is read: it travels in one message.
const maxCode = 16 << 20

// codeArgs are an ID and the code.
func (p *Program) codeArgs(f *execFlags, lang string, args []string) (id, code string, err error) {
	if len(args) == 0 || len(args) > 2 {
		return "", "", usage("say in which sandbox, and what: airlock sandbox code ID --lang python [FILE|-]")
	}
	if lang == "" {
		return "", "", usage("say in which language the code is: --lang python")
	}
	in := p.Stdin
	if len(args) == 2 && args[1] != "-" {
		file, err := os.Open(args[1])
		if err != nil {
			return "", "", usage("%w", err)
		}
		defer file.Close()
		in = file
	} else if f.input {
		return "", "", usage("--stdin feeds the code's input, but the code itself comes from there; name its FILE")
	}
	if in == nil {
		return "", "", usage("there is no standard input to read the code from; name its FILE")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxCode+1))
	switch {
	case err != nil:
		return "", "", fail(exitFailed, fmt.Errorf("read the code: %w", err))
	case len(text) > maxCode:
		return "", "", usage("the code has more than %s; copy it in with airlock sandbox cp, and run that", bytesText(maxCode))
	}
	return args[0], string(text), nil
}

func (p *Program) sandboxShellCmd() *cobra.Command {
	f := &execFlags{}
	cmd := &cobra.Command{
		Use:               "shell [flags] ID",
		Short:             "A shell in a sandbox, on this terminal",
		Long:              "Start your shell, where the sandbox has it, else bash or sh, on this terminal. Without a terminal it reads its commands from standard input.",
		Example:           "  airlock sandbox shell ID",
		Args:              takes(1, 1, "say in which sandbox: airlock sandbox shell ID"),
		ValidArgsFunction: p.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.shellIn(cmd, f, args[0])
		},
	}
	f.add(cmd.Flags())
	for _, name := range []string{"detach", "label"} {
		_ = cmd.Flags().MarkHidden(name)
	}
	return cmd
}

// shellIn runs the first shell that there is. A shell is given its input whatever that is.
func (p *Program) shellIn(cmd *cobra.Command, f *execFlags, id string) error {
	if f.detach {
		return p.ends(cmd.Context(), f.json, usage("a shell in the background has nobody to talk to"))
	}
	if !cmd.Flags().Changed("stdin") {
		if err := cmd.Flags().Set("stdin", "true"); err != nil {
			return fail(exitFailed, err)
		}
	}
	own := ""
	for _, kv := range p.Environ {
		if v, ok := strings.CutPrefix(kv, "SHELL="); ok {
			own = v
		}
	}
	return p.execIn(cmd, f, id, &insideWork{argv: []string{"sh", "-c", findShell, "shell", own}})
}

// findShell becomes the first of the shells that there is.
const findShell = `for s in "$1" bash sh; do
	SHELL=$(command -v "$s" 2>/dev/null) && [ -x "$SHELL" ] && export SHELL && exec "$SHELL"
done
echo "there is no shell" >&2
exit 127`
