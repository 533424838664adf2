package pkgs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

// Manage is the tool pkg.manage.
type Manage struct{ opts *Options }

// NewManage makes the tool; nil options are the default.
func NewManage(opts *Options) *Manage { return &Manage{opts: opts} }

// Info describes the tool.
func (t *Manage) Info() *tool.Info { return &manageInfo }

// args are those of all actions.
type args struct {
	Packages  []string `json:"packages"`
	AssumeYes bool     `json:"assume_yes"`
	Query     string   `json:"query"`
	Max       int      `json:"max"`
}

// Invoke performs an action. Without assume_yes the actions that change something only say
// what they would do: there is nobody whom a package manager could ask.
func (t *Manage) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	var a args
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return tool.Fail(tool.ParseError, "pkg.manage: args: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.maxTime())
	defer cancel()
	l, failure := locate(ctx, m, "pkg.manage")
	if failure != nil {
		return *failure
	}
	switch call.Action {
	case "search":
		return l.find(ctx, &a)
	case "update":
		return l.refresh(ctx)
	case "install", "remove", "upgrade":
		return l.change(ctx, call.Action, &a)
	}
	return tool.Fail(tool.InvalidArgs, "pkg.manage has no action "+shown(call.Action))
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

// packages lists what is installed.
func (l *local) packages(ctx context.Context) ([]Package, error) {
	res, err := l.run(ctx, false, l.list)
	if err != nil {
		return nil, err
	}
	// pacman and brew end with 1 where nothing is installed; what cannot be read says why.
	if res.ExitCode != 0 && strings.TrimSpace(res.Stderr) != "" && res.Stdout == "" || res.NotStarted != "" {
		return nil, fmt.Errorf("%s ended with %d: %s", l.list[0], res.ExitCode, strings.TrimSpace(res.Stderr))
	}
	if res.Cut {
		return nil, fmt.Errorf("%s lists more packages than can be read", l.list[0])
	}
	return l.installed(res.Stdout), nil
}

// refresh fetches the newest lists.
func (l *local) refresh(ctx context.Context) tool.Result {
	res, err := l.run(ctx, true, l.update.argv)
	if err != nil {
		return program.Failure(err, "update", "")
	}
	return l.judged(&l.update, res, "update")
}

// change installs, removes or upgrades.
func (l *local) change(ctx context.Context, action string, a *args) tool.Result {
	c, doing := l.command(action, a.Packages), strings.Join(append([]string{action}, a.Packages...), " ")
	if len(a.Packages) == 0 && action != "upgrade" {
		return tool.Fail(tool.InvalidArgs, action+": name the packages")
	}
	if err := l.names.check(a.Packages, action == "install"); err != nil {
		return tool.Fail(tool.InvalidArgs, action+": "+err.Error())
	}
	before, err := l.packages(ctx)
	if err != nil {
		return program.Failure(err, doing, "")
	}
	if failure := l.known(ctx, action, a.Packages, before); failure != nil {
		return *failure
	}
	if !a.AssumeYes {
		return l.simulate(ctx, c, action, a.Packages)
	}
	res, err := l.run(ctx, true, c.argv, a.Packages...)
	if err != nil {
		return program.Failure(err, doing, l.broken)
	}
	result := l.judged(c, res, doing)
	after, err := l.packages(ctx)
	if err != nil {
		if result.OK {
			return program.Failure(err, doing+": done, but what is installed now is not known", "")
		}
		return result
	}
	before, after = whole(before), whole(after)
	account(result.Meta, action, l.named(a.Packages, after), before, after)
	return result
}

// command picks the command of an action.
func (l *local) command(action string, names []string) *command {
	switch {
	case action == "install":
		return &l.install
	case action == "remove":
		return &l.remove
	case len(names) > 0:
		return &l.upgradeSome
	}
	return &l.upgrade
}

// known refuses names that nothing can be done about. Only what is installed can be
// removed or upgraded, in part at least: of a name that is not, some managers make
// something else, apt's "remove hello+" installs hello. The same goes for names to install that would be taken
// for patterns.
func (l *local) known(ctx context.Context, action string, names []string, installed []Package) *tool.Result {
	var unknown []string
	for _, name := range names {
		if len(l.named([]string{name}, installed)) > 0 {
			continue
		}
		if action != "install" {
			unknown = append(unknown, name)
			continue
		}
		is, err := l.exists(ctx, name)
		if err != nil {
			return new(program.Failure(err, action+" "+name, ""))
		}
		if !is {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	if action == "install" {
		return new(tool.Fail(tool.NotFound, fmt.Sprintf("install: there is no package %s: %s", strings.Join(unknown, ", "), refresh)))
	}
	return new(tool.Fail(tool.NotFound, fmt.Sprintf("%s: not installed: %s; nothing was done", action, strings.Join(unknown, ", "))))
}

// exists asks for a name that would be taken for a pattern; others are the manager's to
// know.
func (l *local) exists(ctx context.Context, name string) (bool, error) {
	bare, _, _ := strings.Cut(l.names.bare(name), ":")
	if l.exact == nil || !strings.ContainsAny(bare, l.names.pattern) {
		return true, nil
	}
	res, err := l.run(ctx, false, l.exact, bare)
	if err != nil {
		return false, err
	}
	for line := range lines(res.Stdout) {
		if line == bare {
			return true, nil
		}
	}
	return false, nil
}

// simulate says what would be done.
func (l *local) simulate(ctx context.Context, c *command, action string, names []string) tool.Result {
	if c.dry == nil {
		return tool.Fail(tool.InvalidArgs, fmt.Sprintf("%s: %s cannot say beforehand what it would do; with assume_yes it does it", action, l.name))
	}
	res, err := l.run(ctx, true, c.dry, names...)
	if err != nil {
		return program.Failure(err, action, "")
	}
	if c.refused != nil && res.ExitCode == 1 && c.refused.MatchString(res.Stderr+res.Stdout) {
		res.ExitCode = 0
	}
	result := l.judged(c, res, action)
	result.Meta[MetaSimulated] = true
	switch action {
	case "install":
		result.Meta[MetaInstalled] = []string{}
	case "remove":
		result.Meta[MetaRemoved] = []string{}
	}
	if result.OK {
		result.Stderr = joined(result.Stderr, "nothing was done: assume_yes was not true")
	}
	return result
}

// judged is a run's Result.
func (l *local) judged(c *command, res program.Result, doing string) tool.Result {
	result := tool.Result{
		OK: c.succeeded(res.ExitCode), Stdout: res.Stdout, Stderr: res.Stderr,
		Meta: tool.Meta{MetaManager: l.name, tool.MetaExitCode: res.ExitCode},
	}
	if result.OK {
		return result
	}
	code, mend := l.meaning(res)
	how := fmt.Sprintf("%s ended with %d", c.argv[0], res.ExitCode)
	if res.Signal != "" {
		how = c.argv[0] + " was ended by " + res.Signal
	} else if res.NotStarted != "" {
		how = c.argv[0] + " could not be started"
	}
	text := doing + ": " + how
	if mend != "" {
		text += ": " + mend
	}
	result.Stderr = joined(res.Stderr, text)
	result.Meta[tool.MetaErrorCode] = code
	return result
}

const judgedBytes = 64 << 10 // of the end of each stream

// meaning looks up what a failed run says.
func (l *local) meaning(res program.Result) (tool.ErrorCode, string) {
	said := tail(res.Stderr) + "\n" + tail(res.Stdout)
	for _, f := range l.failures {
		if f.exit != 0 && f.exit == res.ExitCode || f.text != nil && f.text.MatchString(said) {
			return f.code, f.mend
		}
	}
	return tool.IOError, ""
}

func tail(s string) string { return s[max(0, len(s)-judgedBytes):] }

// joined adds a sentence as a line of its own.
func joined(text, sentence string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + sentence + "\n"
}

// named are those of names, without their pins, that are in the list.
func (l *local) named(names []string, list []Package) []string {
	have := make(map[string]bool, 4*len(list))
	for _, p := range list {
		version, _, _ := strings.Cut(p.Version, "-")
		for _, form := range []string{
			"", ":" + p.Arch, "." + p.Arch,
			"-" + p.Version, "-" + p.Version + "." + p.Arch, "-" + version,
		} {
			have[p.Name+form] = true
		}
	}
	are := []string{}
	for _, name := range names {
		if bare := l.names.bare(name); have[bare] && !slices.Contains(are, bare) {
			are = append(are, bare)
		}
	}
	return are
}

// whole leaves out what is installed in part only.
func whole(list []Package) []Package {
	return slices.DeleteFunc(list, func(p Package) bool { return p.Partly })
}

const maxReported = 1000 // names in each list of meta

// account says in meta what a run did to the list of installed packages.
func account(meta tool.Meta, action string, named []string, before, after []Package) {
	added, removed, upgraded := compare(before, after)
	if action == "install" {
		meta[MetaInstalled] = named
	}
	if action == "remove" || len(removed) > 0 {
		meta[MetaRemoved] = removed
	}
	if action != "remove" {
		meta[MetaAdded], meta[MetaUpgraded] = added, upgraded
	}
}

// compare tells two lists apart, by name and architecture.
func compare(before, after []Package) (added, removed, upgraded []string) {
	versions := func(list []Package) map[string]map[string]bool {
		all := make(map[string]map[string]bool, len(list))
		for _, p := range list {
			key := p.Name + ":" + p.Arch
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			all[key][p.Version] = true
		}
		return all
	}
	old, now := versions(before), versions(after)
	added, removed, upgraded = []string{}, []string{}, []string{}
	add := func(list *[]string, name string) {
		if len(*list) < maxReported && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, p := range after {
		switch had := old[p.Name+":"+p.Arch]; {
		case had == nil:
			add(&added, p.Name)
		case !had[p.Version]:
			add(&upgraded, p.Name)
		}
	}
	for _, p := range before {
		if now[p.Name+":"+p.Arch] == nil {
			add(&removed, p.Name)
		}
	}
	return added, removed, upgraded
}

// find searches.
func (l *local) find(ctx context.Context, a *args) tool.Result {
	list, err := words(a.Query)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "search: "+err.Error())
	}
	if !l.literal {
		for i := range list {
			list[i] = regexp.QuoteMeta(list[i])
		}
	}
	res, err := l.run(ctx, false, l.search.argv, list...)
	if err != nil {
		return program.Failure(err, "search", "")
	}
	if slices.Contains(l.search.empty, res.ExitCode) && len(l.found(res.Stdout)) == 0 {
		if code, mend := l.meaning(res); mend == "" || code == tool.NotFound {
			res.ExitCode = 0
		}
	}
	result := l.judged(&l.search, res, "search")
	if !result.OK {
		return result
	}
	hits := l.found(res.Stdout)
	rows := make([][]string, len(hits))
	for i, f := range hits {
		rows[i] = []string{f.Name, f.Version, f.About}
	}
	result.Stdout = table(result.Meta, rows, a.Max, defaultFound)
	result.Meta[MetaTruncated] = result.Meta[MetaTruncated] == true || res.Cut
	return result
}
