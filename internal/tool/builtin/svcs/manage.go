package svcs

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

// Manage is the tool svc.manage.
type Manage struct{ opts *Options }

// NewManage makes the tool; nil options are the default.
func NewManage(opts *Options) *Manage { return &Manage{opts: opts} }

// Info describes the tool.
func (t *Manage) Info() *tool.Info { return &manageInfo }

// Invoke performs an action. Whatever comes of it, meta's service_state is what the
// service does afterwards, as far as that is known. A call that is canceled ends, but the
// service manager goes on with what it was asked for: the service is its own, not the call's.
func (t *Manage) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	var a struct {
		Service string `json:"service"`
	}
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return tool.Fail(tool.ParseError, "svc.manage: args: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.maxTime())
	defer cancel()
	l, failure := locate(ctx, m, "svc.manage")
	if failure != nil {
		return *failure
	}
	unit, err := l.check(a.Service)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, call.Action+": "+err.Error())
	}
	doing := call.Action + " " + unit
	before, err := l.look(ctx, l, unit)
	if err != nil {
		return l.failed(err, doing)
	}
	var result tool.Result
	switch argv, known := l.actions[call.Action]; {
	case call.Action == "status":
		result = l.report(ctx, unit, doing)
	case !known:
		return tool.Fail(tool.InvalidArgs, "svc.manage has no action "+shown(call.Action))
	case isTemplate(unit) && call.Action != "enable" && call.Action != "disable":
		return tool.Fail(tool.InvalidArgs, doing+": it is a template: name an instance, such as "+strings.Replace(unit, "@.", "@1.", 1))
	case before.masked && call.Action != "stop" && call.Action != "disable":
		result = tool.Fail(tool.PermissionDenied, doing+": somebody has masked it: systemctl unmask lets it start again")
	default:
		result = l.act(ctx, argv, unit, doing)
	}
	return l.outcome(ctx, result, call.Action, unit, doing)
}

// report is the action status.
func (l *local) report(ctx context.Context, unit, doing string) tool.Result {
	if isTemplate(unit) { // systemctl has nothing to say of one
		return tool.Result{OK: true, Meta: tool.Meta{}}
	}
	res, err := l.run(ctx, true, l.status, unit)
	if err != nil {
		return l.failed(err, doing)
	}
	if !slices.Contains(l.statusCodes, res.ExitCode) {
		return l.refused(res, l.status[0], doing)
	}
	return tool.Result{OK: true, Stdout: res.Stdout, Stderr: res.Stderr, Meta: tool.Meta{tool.MetaExitCode: res.ExitCode}}
}

// act performs one of the other actions.
func (l *local) act(ctx context.Context, argv []string, unit, doing string) tool.Result {
	res, err := l.run(ctx, true, argv, unit)
	if err != nil {
		return l.failed(err, doing)
	}
	if res.ExitCode != 0 {
		return l.refused(res, argv[0], doing)
	}
	return tool.Result{OK: true, Stdout: res.Stdout, Stderr: res.Stderr, Meta: tool.Meta{tool.MetaExitCode: 0}}
}

// outcome adds what the service does now, and where it did not get up, its log.
func (l *local) outcome(ctx context.Context, result tool.Result, action, unit, doing string) tool.Result {
	result.Meta[MetaManager], result.Meta[MetaService] = l.name, unit
	now, err := l.look(ctx, l, unit)
	if err != nil {
		if result.OK {
			return l.failed(err, doing+": done, but what it does now is not known")
		}
		return result
	}
	result.Meta[MetaService], result.Meta[MetaState] = now.Name, now.State
	if now.Enabled != "" {
		result.Meta[MetaEnabled] = now.Enabled
	}
	if l.byState && action == "disable" && result.Code() == tool.IOError && now.Enabled == "disabled" {
		result.OK = true
		delete(result.Meta, tool.MetaErrorCode)
	}
	starts := action == "start" || action == "restart"
	if starts && result.OK && now.State == StateFailed {
		result.OK = false
		result.Meta[tool.MetaErrorCode] = tool.IOError
		result.Stderr = joined(result.Stderr, doing+": it was started, and failed at once: its log says why")
	}
	if result.Code() == tool.IOError && (starts || action == "reload") {
		if log := l.lastWords(ctx, unit); log != "" {
			result.Stderr = joined(result.Stderr, "the last lines of its log:\n"+strings.TrimRight(log, "\n"))
		}
	}
	return result
}

// lastWords are the last lines of a unit's log, "" where there is none to be had.
func (l *local) lastWords(ctx context.Context, unit string) string {
	if l.log == nil {
		return ""
	}
	path, err := program.Find(ctx, l.machine, l.log[0])
	if err != nil || path == "" {
		return ""
	}
	l.paths[l.log[0]] = path
	res, err := l.run(ctx, false, l.log, unit)
	if err != nil || res.ExitCode != 0 {
		return ""
	}
	return res.Stdout
}

const defaultList = 500

// List is the tool services.
type List struct{ opts *Options }

// NewList makes the tool; nil options are the default.
func NewList(opts *Options) *List { return &List{opts: opts} }

// Info describes the tool.
func (t *List) Info() *tool.Info { return &listInfo }

// Invoke lists services; those that run, unless another state is asked for.
func (t *List) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	var a struct {
		State  string `json:"state"`
		Filter string `json:"filter"`
		Max    int    `json:"max"`
	}
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return tool.Fail(tool.ParseError, "services: args: "+err.Error())
	}
	if _, err := path.Match(a.Filter, ""); err != nil {
		return tool.Fail(tool.InvalidArgs, "services: the filter "+shown(a.Filter)+" is no pattern: a [ in it has no ]")
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.maxTime())
	defer cancel()
	l, failure := locate(ctx, m, "services")
	if failure != nil {
		return *failure
	}
	all, err := l.list(ctx, l)
	if err != nil {
		return l.failed(err, "services")
	}
	state := cmp.Or(a.State, StateRunning)
	list := slices.DeleteFunc(all, func(s Service) bool {
		is, _ := path.Match(a.Filter, s.Name)
		if !is {
			is, _ = path.Match(a.Filter, strings.TrimSuffix(s.Name, ".service"))
		}
		return a.Filter != "" && !is || state != "all" && s.State != state
	})
	slices.SortStableFunc(list, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	total, most := len(list), cmp.Or(a.Max, defaultList)
	list = list[:min(total, max(most, 0))]
	var b strings.Builder
	for _, s := range list {
		columns := []string{s.Name, s.State, s.Enabled, s.Description}
		for i := range columns {
			columns[i] = changes.Printable(columns[i])
		}
		b.WriteString(strings.Join(columns, "\t") + "\n")
	}
	return tool.Result{OK: true, Stdout: b.String(), Meta: tool.Meta{
		MetaManager: l.name, MetaCount: len(list), MetaTotal: total, MetaTruncated: total > len(list),
	}}
}
