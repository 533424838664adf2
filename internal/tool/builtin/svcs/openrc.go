package svcs

import (
	"context"
	"fmt"
	"strings"

	"airlock/internal/lazyregexp"
	"airlock/internal/tool"
)

// openrc is asked through rc-service(8) and rc-update(8). A service is enabled in the
// runlevel default, and disabled in all of them.
var openrc = manager{
	name:     "openrc",
	programs: []string{"rc-service", "rc-update", "rc-status"},
	sign:     "/run/openrc/softlevel",
	check:    openrcName,
	actions: map[string][]string{
		"start":   {"rc-service", "--nocolor", "--", "%u", "start"},
		"stop":    {"rc-service", "--nocolor", "--", "%u", "stop"},
		"restart": {"rc-service", "--nocolor", "--", "%u", "restart"},
		"reload":  {"rc-service", "--nocolor", "--", "%u", "reload"},
		"enable":  {"rc-update", "--nocolor", "--", "add", "%u", "default"},
		"disable": {"rc-update", "--nocolor", "--all", "--", "delete", "%u"},
	},
	status:      []string{"rc-service", "--nocolor", "--", "%u", "status"},
	statusCodes: []int{0, 3, 4, 8, 16, 32},
	look:        lookOpenRC,
	list:        listOpenRC,
	byState:     true, // rc-update --all delete fails for each runlevel that the service is not in
	failures: []failure{
		{lazyregexp.New(`superuser access required|Permission denied|must be root|Operation not permitted`), tool.PermissionDenied, asRoot},
		{lazyregexp.New("unknown function `?reload"), tool.InvalidArgs, "it cannot reload its settings: restart it"},
		{lazyregexp.New(`does not exist`), tool.NotFound, "the tool services lists those that there are"},
	},
}

var openrcWord = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// openrcOff are scripts that turn the machine off.
var openrcOff = lazyregexp.New(`^(halt|reboot|poweroff|shutdown|single|killprocs|mount-ro|kexec)(\.sh)?$`)

func openrcName(service string) (string, error) {
	switch {
	case len(service) > maxUnit || !openrcWord.MatchString(service):
		return "", fmt.Errorf("%s is no name of a service: want one such as nginx", shown(service))
	case openrcOff.MatchString(service):
		return "", fmt.Errorf("%w: %s is part of turning the machine off", errNotService, service)
	}
	return service, nil
}

func lookOpenRC(ctx context.Context, l *local, unit string) (Service, error) {
	res, err := l.run(ctx, false, []string{"rc-service", "--exists", "%u"}, unit)
	if err != nil {
		return Service{}, err
	}
	if res.ExitCode != 0 {
		return Service{}, fmt.Errorf("%w as %s", errNoUnit, unit)
	}
	if res, err = l.run(ctx, false, l.status, unit); err != nil {
		return Service{}, err
	}
	levels, err := l.ask(ctx, []string{"rc-update", "--nocolor", "show"}, "")
	if err != nil {
		return Service{}, err
	}
	return Service{Name: unit, State: openrcState(res.ExitCode), Enabled: enabledWord(readRunlevels(levels)[unit])}, nil
}

// openrcState reads the exit code of a service's status, as openrc-run.sh gives it.
func openrcState(exit int) string {
	switch exit {
	case 0:
		return StateRunning
	case 3:
		return StateStopped
	case 4:
		return StateStopping
	case 8:
		return StateStarting
	case 16: // it waits for something outside
		return StateStarting
	case 32:
		return StateFailed
	}
	return StateUnknown
}

func enabledWord(runlevels string) string {
	if runlevels == "" {
		return "disabled"
	}
	return "enabled"
}

func listOpenRC(ctx context.Context, l *local) ([]Service, error) {
	states, err := l.ask(ctx, []string{"rc-status", "--nocolor", "--servicelist"}, "")
	if err != nil {
		return nil, err
	}
	levels, err := l.ask(ctx, []string{"rc-update", "--nocolor", "show"}, "")
	if err != nil {
		return nil, err
	}
	enabled := readRunlevels(levels)
	list := readRCStatus(states)
	for i := range list {
		list[i].Enabled = enabledWord(enabled[list[i].Name])
	}
	return list, nil
}

// readRunlevels reads "NAME | LEVEL …", the runlevels that a service is in.
func readRunlevels(output string) map[string]string {
	levels := map[string]string{}
	for line := range lines(output) {
		if name, in, ok := strings.Cut(line, "|"); ok {
			levels[strings.TrimSpace(name)] = strings.Join(strings.Fields(in), " ")
		}
	}
	return levels
}

var rcLine = lazyregexp.New(`^\s*(\S+)\s+\[\s*([a-z]+).*\]$`)

// readRCStatus reads "NAME [ STATE … ]".
func readRCStatus(output string) []Service {
	words := map[string]string{
		"started": StateRunning, "stopped": StateStopped, "starting": StateStarting, "stopping": StateStopping,
		"inactive": StateStarting, "crashed": StateFailed, "failed": StateFailed, "scheduled": StateStopped, "unsupervised": StateFailed,
	}
	var list []Service
	for line := range lines(output) {
		m := rcLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		state, known := words[m[2]]
		if !known {
			state = StateUnknown
		}
		list = append(list, Service{Name: m[1], State: state})
	}
	return list
}
