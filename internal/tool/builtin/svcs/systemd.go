package svcs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/internal/lazyregexp"
	"airlock/internal/tool"
)

func systemctl(verb ...string) []string {
	return append([]string{"systemctl", "--no-ask-password", "--no-pager", "--full"}, verb...)
}

// systemd is asked through systemctl, which works on every machine that runs it, whoever
// serves its bus; the words are those of versions 232 to 257.
var systemd = manager{
	name:     "systemd",
	programs: []string{"systemctl"},
	sign:     "/run/systemd/system", // sd_booted(3)
	check:    unitName,
	actions: map[string][]string{
		"start":   systemctl("start", "--", "%u"),
		"stop":    systemctl("stop", "--", "%u"),
		"restart": systemctl("restart", "--", "%u"),
		"reload":  systemctl("reload", "--", "%u"),
		"enable":  systemctl("enable", "--", "%u"),
		"disable": systemctl("disable", "--", "%u"),
	},
	status:      systemctl("--lines=10", "status", "--", "%u"),
	statusCodes: []int{0, 3},
	look:        lookSystemd,
	list:        listSystemd,
	log:         []string{"journalctl", "--no-pager", "--quiet", "--lines=10", "--unit=%u"},
	failures: []failure{
		{lazyregexp.New(`Access denied|Permission denied|[Aa]uthentication (is )?required|Operation not permitted`), tool.PermissionDenied, asRoot},
		{lazyregexp.New(`is masked`), tool.PermissionDenied, "somebody has masked it: systemctl unmask lets it start again"},
		{lazyregexp.New(`requested by dependency only|Operation refused`), tool.PermissionDenied, "systemd starts and stops it only along with others"},
		{lazyregexp.New(`Job type reload is not applicable`), tool.InvalidArgs, "it cannot reload its settings: restart it"},
		{lazyregexp.New(`Unit \S+ (not found|not loaded|could not be found)|does not exist`), tool.NotFound, "the tool services lists those that there are"},
		{lazyregexp.New(`Failed to connect to bus|not been booted with systemd`), tool.IOError, "systemd does not answer"},
		{lazyregexp.New(`Job for .* (failed|canceled)|Transaction .* is destructive`), tool.IOError, "its log says why"},
	},
}

const maxUnit = 255 // systemd's own limit, with the suffix

var (
	unitWord   = lazyregexp.New(`^[A-Za-z0-9_:\\][A-Za-z0-9_:.\\@-]*$`)
	unitSuffix = lazyregexp.New(`\.(service|socket|timer|path|target|mount|automount|swap|slice|scope|device|snapshot)$`)
)

// ours are the kinds of unit that this tool manages.
var ours = []string{"service", "socket", "timer", "path"}

// notServices turn the machine off, put it to sleep or take its users' sessions away,
// whatever their names say.
var notServices = []string{
	"systemd-poweroff", "systemd-reboot", "systemd-halt", "systemd-kexec", "systemd-soft-reboot", "systemd-exit",
	"systemd-suspend", "systemd-hibernate", "systemd-hybrid-sleep", "systemd-suspend-then-hibernate",
	"emergency", "rescue", "initrd-switch-root", "initrd-cleanup", "initrd-parse-etc",
}

// unitName is systemd.unit(5)'s grammar, without the units that begin with a dash.
func unitName(service string) (string, error) {
	const like = "want one such as nginx, ssh.socket or getty@tty1"
	if !unitWord.MatchString(service) || strings.Count(service, "@") > 1 {
		return "", fmt.Errorf("%s is no name of a service: %s", shown(service), like)
	}
	kind := strings.TrimPrefix(unitSuffix.FindString(service), ".")
	if kind == "" {
		kind = "service"
		service += ".service"
	}
	if len(service) > maxUnit {
		return "", fmt.Errorf("the name has %d bytes with its suffix, more than %d", len(service), maxUnit)
	}
	if !slices.Contains(ours, kind) {
		return "", fmt.Errorf("%s is a %s, and no service", shown(service), kind)
	}
	if err := permitted(service); err != nil {
		return "", err
	}
	return service, nil
}

func permitted(unit string) error {
	base := strings.TrimSuffix(unit, ".service")
	if slices.Contains(notServices, base) {
		return fmt.Errorf("%w: %s is part of turning the machine off or of another mode of it", errNotService, unit)
	}
	return nil
}

// isTemplate reports whether a unit is one that instances are made of.
func isTemplate(unit string) bool {
	return strings.Contains(unit, "@.")
}

func lookSystemd(ctx context.Context, l *local, unit string) (Service, error) {
	if isTemplate(unit) {
		return lookTemplate(ctx, l, unit)
	}
	out, err := l.ask(ctx, systemctl("show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Description", "--", "%u"), unit)
	if err != nil {
		return Service{}, err
	}
	return readShow(unit, out)
}

// readShow reads the properties of one unit, a line each.
func readShow(unit, output string) (Service, error) {
	p := map[string]string{}
	for line := range lines(output) {
		if key, value, ok := strings.Cut(line, "="); ok {
			p[key] = value
		}
	}
	s := Service{
		Name: p["Id"], State: unitState(p["ActiveState"], p["SubState"]), Enabled: p["UnitFileState"],
		Description: p["Description"], masked: p["LoadState"] == "masked",
	}
	switch {
	case p["LoadState"] == "" || s.Name == "":
		return Service{}, errors.New("systemctl show does not say what " + unit + " is")
	case p["LoadState"] == "not-found" && s.State == StateStopped:
		return Service{}, fmt.Errorf("%w as %s", errNoUnit, unit)
	}
	return s, permitted(s.Name) // its name may be another's alias
}

// lookTemplate looks for the file of a template, which has no state.
func lookTemplate(ctx context.Context, l *local, unit string) (Service, error) {
	files, err := l.ask(ctx, systemctl("--no-legend", "list-unit-files", "--", "%u"), unit)
	var said *saidError
	if err != nil && !errors.As(err, &said) {
		return Service{}, err
	}
	for _, s := range readUnitFiles(files) {
		if s.Name == unit {
			s.masked = strings.HasPrefix(s.Enabled, "masked")
			return s, nil
		}
	}
	return Service{}, fmt.Errorf("%w as %s", errNoUnit, unit)
}

// unitState makes one word of systemd's two.
func unitState(active, sub string) string {
	switch active {
	case "active":
		if sub == "exited" {
			return StateExited
		}
		return StateRunning
	case "inactive":
		return StateStopped
	case "failed":
		return StateFailed
	case "activating":
		return StateStarting
	case "deactivating":
		return StateStopping
	case "reloading", "refreshing":
		return StateReloading
	}
	return StateUnknown
}

func listSystemd(ctx context.Context, l *local) ([]Service, error) {
	units, err := l.ask(ctx, systemctl("--plain", "--no-legend", "--all", "--type=service", "list-units"), "")
	if err != nil {
		return nil, err
	}
	files, err := l.ask(ctx, systemctl("--no-legend", "--type=service", "list-unit-files"), "")
	if err != nil {
		return nil, err
	}
	return mergeSystemd(readUnits(units), readUnitFiles(files)), nil
}

// readUnits reads UNIT, LOAD, ACTIVE, SUB and DESCRIPTION.
func readUnits(output string) []Service {
	var list []Service
	for line := range lines(output) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] == "not-found" {
			continue
		}
		list = append(list, Service{
			Name: f[0], State: unitState(f[2], f[3]), Description: strings.Join(f[4:], " "),
		})
	}
	return list
}

// readUnitFiles reads the name and the state of unit files, which nothing has started yet as
// far as they say.
func readUnitFiles(output string) []Service {
	var list []Service
	for line := range lines(output) {
		if f := strings.Fields(line); len(f) >= 2 {
			list = append(list, Service{Name: f[0], State: StateStopped, Enabled: f[1]})
		}
	}
	return list
}

// mergeSystemd adds to the units in memory what their files say, and the files of those
// that are not in memory; templates and other names of the same unit are not services.
func mergeSystemd(units, files []Service) []Service {
	at := make(map[string]int, len(units))
	for i, s := range units {
		at[s.Name] = i
	}
	for _, s := range files {
		if i, ok := at[s.Name]; ok {
			units[i].Enabled = s.Enabled
		} else if !isTemplate(s.Name) && s.Enabled != "alias" {
			at[s.Name] = len(units)
			units = append(units, s)
		}
	}
	return units
}
