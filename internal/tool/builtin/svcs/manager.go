package svcs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/lazyregexp"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

// A manager is all that is known of one service manager.
type manager struct {
	name     string
	programs []string // all of them must be there
	sign     string   // a path that is there while it runs; "": its programs are enough

	// check makes a service's name the manager's own, or says why it is none.
	check func(service string) (unit string, err error)

	// actions are the arguments for each action of svc.manage but status. %u is the unit.
	actions map[string][]string

	// status writes for a person what the service does; statusCodes are the exit codes
	// with which it has done so.
	status      []string
	statusCodes []int

	// look asks what a unit does. A unit that there is not is errNoUnit.
	look func(ctx context.Context, l *local, unit string) (Service, error)
	list func(ctx context.Context, l *local) ([]Service, error)

	// log writes the last lines of a unit's log; nil: there is no program for that.
	log []string

	failures []failure

	// byState says that disable has done its work where the service is not enabled
	// afterwards, whatever the exit code is.
	byState bool
}

// A Service is what is known of one.
type Service struct {
	Name        string // the manager's
	State       string // one of the State… constants
	Enabled     string // the manager's word; "" where it does not say
	Description string

	masked bool // made impossible to start
}

// A failure says what a manager's words mean. Of several the first that fits counts.
type failure struct {
	text *lazyregexp.Regexp
	code tool.ErrorCode
	mend string
}

const asRoot = "this needs root: run airlock as root"

var (
	errNone   = errors.New("there is no service manager here that airlock knows (it knows systemd, OpenRC and launchd, on a machine that runs them)")
	errNoUnit = errors.New("there is no such service")

	errNotService = errors.New("no service that this tool manages")
)

// managers are looked for in this order. systemd's and OpenRC's programs may be installed
// where they do not run, so a path says which one does.
var managers = []*manager{&systemd, &openrc, &launchd}

// A local manager is one on a machine.
type local struct {
	*manager
	machine *tool.Machine
	paths   map[string]string // of its programs
}

// detect finds the service manager that runs.
func detect(ctx context.Context, m *tool.Machine) (*local, error) {
	if m == nil || m.Client == nil {
		return nil, errors.New("there is no machine to look at")
	}
	for _, candidate := range managers {
		if candidate.sign != "" {
			is, err := program.Exists(ctx, m, candidate.sign)
			if err != nil {
				return nil, fmt.Errorf("look for %s: %w", candidate.name, err)
			}
			if !is {
				continue
			}
		}
		l := &local{manager: candidate, machine: m, paths: map[string]string{}}
		for _, name := range candidate.programs {
			path, err := program.Find(ctx, m, name)
			if err != nil {
				return nil, fmt.Errorf("look for %s: %w", name, err)
			}
			if path == "" {
				break
			}
			l.paths[name] = path
		}
		if len(l.paths) == len(candidate.programs) {
			return l, nil
		}
	}
	return nil, errNone
}

// locate is detect with its errors made results.
func locate(ctx context.Context, m *tool.Machine, doing string) (*local, *tool.Result) {
	l, err := detect(ctx, m)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, errNone) {
		return nil, new(tool.Fail(tool.NotFound, doing+": "+err.Error()))
	}
	return nil, new(program.Failure(err, doing, ""))
}

// run runs one of the manager's programs. %u in its arguments is the unit.
func (l *local) run(ctx context.Context, live bool, argv []string, unit string) (program.Result, error) {
	full := make([]string, len(argv))
	full[0] = l.paths[argv[0]]
	for i, arg := range argv[1:] {
		full[i+1] = strings.Replace(arg, "%u", unit, 1)
	}
	return program.Run(ctx, l.machine, program.Command{Argv: full, Live: live, Env: map[string]string{
		"NO_COLOR": "1", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat", "SYSTEMD_URLIFY": "0",
	}})
}

// ask runs a program that must succeed, and returns what it wrote.
func (l *local) ask(ctx context.Context, argv []string, unit string) (string, error) {
	res, err := l.run(ctx, false, argv, unit)
	switch {
	case err != nil:
		return "", err
	case res.ExitCode != 0:
		return "", &saidError{program: argv[0], result: res}
	case res.Cut:
		return "", fmt.Errorf("%s writes more than can be read", argv[0])
	}
	return res.Stdout, nil
}

// A saidError is a manager's program that failed with words.
type saidError struct {
	program string
	result  program.Result
}

// Error says how it ended and what it wrote.
func (e *saidError) Error() string {
	return fmt.Sprintf("%s ended with %d: %s", e.program, e.result.ExitCode, strings.TrimSpace(e.result.Stderr))
}

// failed is the Result of a call that an error ended.
func (l *local) failed(err error, doing string) tool.Result {
	if said, ok := errors.AsType[*saidError](err); ok {
		return l.refused(said.result, said.program, doing)
	}
	if errors.Is(err, errNotService) {
		return tool.Fail(tool.InvalidArgs, doing+": "+err.Error())
	}
	if errors.Is(err, errNoUnit) {
		return tool.Fail(tool.NotFound, doing+": "+err.Error()+": the tool services lists those that there are")
	}
	return program.Failure(err, doing, "; "+l.name+" itself goes on with what it was asked for")
}

const judgedBytes = 64 << 10 // of the end of each stream

// refused is the Result of a manager's program that failed.
func (l *local) refused(res program.Result, name, doing string) tool.Result {
	code, text := tool.IOError, fmt.Sprintf("%s: %s ended with %d", doing, name, res.ExitCode)
	if res.Signal != "" {
		text = doing + ": " + name + " was ended by " + res.Signal
	}
	said := tail(res.Stderr) + "\n" + tail(res.Stdout)
	for _, f := range l.failures {
		if f.text.MatchString(said) {
			code, text = f.code, text+": "+f.mend
			break
		}
	}
	return tool.Result{
		Stdout: res.Stdout, Stderr: joined(res.Stderr, text),
		Meta: tool.Meta{MetaManager: l.name, tool.MetaErrorCode: code, tool.MetaExitCode: res.ExitCode},
	}
}

func tail(s string) string { return s[max(0, len(s)-judgedBytes):] }

// joined adds a sentence as a line of its own.
func joined(text, sentence string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + sentence + "\n"
}

// shown is outside text in a sentence.
func shown(s string) string { return `"` + changes.Printable(s) + `"` }

// lines are the lines of a program's output, without their ends, the empty ones left out.
func lines(output string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(output, "\n") {
			if line = strings.TrimRight(line, "\r "); line != "" && !yield(line) {
				return
			}
		}
	}
}
