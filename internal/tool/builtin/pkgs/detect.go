package pkgs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

// errNone is a machine without a package manager that is known.
var errNone = errors.New("there is no package manager here that airlock knows")

// A found manager on a machine.
type local struct {
	*manager
	machine *tool.Machine
	paths   map[string]string // of its programs
}

// detect finds the machine's package manager: the one that is its system's own, as
// /etc/os-release says, else the first whose programs are there.
func detect(ctx context.Context, m *tool.Machine) (*local, error) {
	if m == nil || m.Client == nil {
		return nil, errors.New("there is no machine to look at")
	}
	ids, err := system(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, candidate := range preferred(ids) {
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
	names := make([]string, len(managers))
	for i, m := range managers {
		names[i] = m.name
	}
	return nil, fmt.Errorf("%w: it knows %s", errNone, strings.Join(names, ", "))
}

// system asks which system this is; nil where it does not say.
func system(ctx context.Context, m *tool.Machine) ([]string, error) {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		text, err := m.Client.ReadFile(ctx, path)
		if err == nil {
			return systemIDs(text), nil
		}
		var answer *agent.RPCError
		if !errors.As(err, &answer) || answer.Code == agent.CodeLocal {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return nil, nil
}

// preferred are the managers in the order in which they are looked for.
func preferred(ids []string) []*manager {
	var list []*manager
	for _, id := range ids {
		for _, m := range managers {
			if slices.Contains(m.systems, id) && !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
	}
	for _, m := range managers {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// run runs one of the manager's programs, with names or words behind its arguments.
func (l *local) run(ctx context.Context, live bool, argv []string, names ...string) (program.Result, error) {
	full := append([]string{l.paths[argv[0]]}, argv[1:]...)
	return program.Run(ctx, l.machine, program.Command{
		Argv: append(full, names...),
		Env:  l.environment(),
		Live: live,
		End:  l.end,
	})
}
