package svcs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"airlock/internal/lazyregexp"
	"airlock/internal/tool"
)

// launchd is asked through launchctl(1), about the system's own services. It keeps those
// that are to be kept alive running: such a one starts again after a stop.
var launchd = manager{
	name:     "launchd",
	programs: []string{"launchctl"},
	check:    launchdName,
	actions: map[string][]string{
		"start":   {"launchctl", "kickstart", "system/%u"},
		"stop":    {"launchctl", "kill", "SIGTERM", "system/%u"},
		"restart": {"launchctl", "kickstart", "-k", "system/%u"},
		"reload":  {"launchctl", "kill", "SIGHUP", "system/%u"},
		"enable":  {"launchctl", "enable", "system/%u"},
		"disable": {"launchctl", "disable", "system/%u"},
	},
	status:      []string{"launchctl", "print", "system/%u"},
	statusCodes: []int{0},
	look:        lookLaunchd,
	list:        listLaunchd,
	failures: []failure{
		{lazyregexp.New(`Operation not permitted|Permission denied|not privileged|must be root`), tool.PermissionDenied, asRoot},
		{lazyregexp.New(`Could not find (specified )?service|No such process`), tool.NotFound, "the tool services lists those that there are"},
	},
}

var launchdWord = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func launchdName(service string) (string, error) {
	if len(service) > maxUnit || !launchdWord.MatchString(service) {
		return "", fmt.Errorf("%s is no label of a service: want one such as com.openssh.sshd", shown(service))
	}
	return service, nil
}

func lookLaunchd(ctx context.Context, l *local, unit string) (Service, error) {
	out, err := l.ask(ctx, l.status, unit)
	if err != nil {
		var said *saidError
		if errors.As(err, &said) && strings.Contains(said.result.Stderr, "Could not find service") {
			err = fmt.Errorf("%w as %s", errNoUnit, unit)
		}
		return Service{}, err
	}
	s := Service{Name: unit, State: readPrint(out), Enabled: "enabled"}
	disabled, err := l.ask(ctx, []string{"launchctl", "print-disabled", "system"}, "")
	if err != nil {
		return Service{}, err
	}
	if readDisabled(disabled)[unit] {
		s.Enabled = "disabled"
	}
	return s, nil
}

var printState = lazyregexp.New(`(?m)^\s*state = (.+)$`)

// readPrint reads the state in what launchctl print writes.
func readPrint(output string) string {
	m := printState.FindStringSubmatch(output)
	if m == nil {
		return StateUnknown
	}
	switch strings.TrimSpace(m[1]) {
	case "running":
		return StateRunning
	case "not running", "waiting", "exited":
		return StateStopped
	case "spawn scheduled", "spawning":
		return StateStarting
	}
	return StateUnknown
}

var disabledLine = lazyregexp.New(`^\s*"([^"]+)" => (true|disabled)$`)

// readDisabled reads the labels that launchctl print-disabled calls disabled.
func readDisabled(output string) map[string]bool {
	list := map[string]bool{}
	for line := range lines(output) {
		if m := disabledLine.FindStringSubmatch(line); m != nil {
			list[m[1]] = true
		}
	}
	return list
}

func listLaunchd(ctx context.Context, l *local) ([]Service, error) {
	out, err := l.ask(ctx, []string{"launchctl", "list"}, "")
	if err != nil {
		return nil, err
	}
	return readLaunchctl(out), nil
}

// readLaunchctl reads PID, STATUS and LABEL with tabs between: a PID is one that runs, a
// status other than 0 how the last one ended.
func readLaunchctl(output string) []Service {
	var list []Service
	for line := range lines(output) {
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[0] == "PID" || f[2] == "" {
			continue
		}
		state := StateStopped
		switch {
		case f[0] != "-":
			state = StateRunning
		case f[1] != "0":
			state = StateFailed
		}
		list = append(list, Service{Name: f[2], State: state})
	}
	return list
}
