package gate

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/gate/shellrisk"
	"airlock/internal/tool"
)

// A subject is what rules are held against: a simple command of a line, a call of
// another tool, or a path that a commit would change.
type subject struct {
	tool, action string
	where        tool.Where
	workDir      string
	dir          string      // in which the line starts
	commit       bool        // of changes.commit: only rules that name the tool are about it
	command      bool        // of a shell line
	moved        bool        // it may run elsewhere than in a folder of the working folder's
	inert        func() bool // of a commit: nothing runs what would be written; nil: it may be run
	opaque       bool        // nothing is known of it: whatever it holds may be meant

	name, base string   // the program, as it is named and without its folder; "" is not known
	wrappers   []string // the programs that run it, such as sudo
	args       []word
	operands   []word // with the sub-command first; nil: args tell
	touches    []touch
	hosts      []word
	users      []word
	effects    []effect
	risk       tool.Risk
	why, text  string
	needs      []tool.Need
}

// An effect is one thing that a subject would do. An allow rule covers effects one by one.
type effect struct {
	risk  tool.Risk
	why   string
	touch *touch
	host  string
}

// subjects takes a question apart. The error says why the call cannot be judged.
func (g *Gate) subjects(q *tool.Question, where tool.Where) ([]subject, error) {
	args, err := members(q.Call.Args)
	if err != nil {
		return nil, err
	}
	if err := args.exactly(q.Action); err != nil {
		return nil, err
	}
	own, err := g.callSubject(q, where, args)
	if err != nil {
		return nil, err
	}
	if q.Action.Command == "" {
		return []subject{own}, nil
	}
	line, dir, err := commandOf(q, args)
	if err != nil {
		return nil, err
	}
	subjects := g.lineSubjects(q, where, line, dir)
	if plain := len(own.effects) == 1 && own.effects[0].touch == nil && lineDecides(q); plain {
		return subjects, nil
	}
	return append(subjects, own), nil
}

// workDirArg is the argument of a call with a command line that says where it starts.
const workDirArg = "working_directory"

// lineDecides reports whether a call does no more than its line does.
func lineDecides(q *tool.Question) bool {
	return q.Call.Tool == "cmd.run" || q.Action.Risk == tool.RiskUnknown || q.Action.Risk == ""
}

// callSubject is a call as its action describes it.
func (g *Gate) callSubject(q *tool.Question, where tool.Where, args arguments) (subject, error) {
	base := tool.Risks[riskIndex(q.Action.Risk)]
	s := subject{
		tool: q.Call.Tool, action: q.Call.Action, where: where, workDir: q.WorkDir, risk: base,
		users: []word{g.caller()}, needs: q.Action.Needs, text: show(q.Call.Tool + " " + q.Call.Action + " " + string(q.Call.Args)),
	}
	op := opWrite
	switch base {
	case tool.RiskReadOnly:
		op = opRead
	case tool.RiskDestructive:
		op = opDelete
	}
	var worst tool.Risk
	for _, name := range q.Action.Paths {
		if q.Action.Command != "" && name == workDirArg {
			continue // the line is read as it runs there
		}
		paths, err := args.words(name)
		if err != nil {
			return s, err
		}
		for _, p := range paths {
			if strings.ContainsRune(p, 0) {
				return s, fmt.Errorf("the argument %s holds a NUL", name)
			}
			for _, t := range g.touchesOf(p, q.WorkDir, op) {
				s.touches = append(s.touches, t)
				risk := g.placed(base, t, q.WorkDir)
				worst = worse(worst, risk)
				s.effects = append(s.effects, effect{risk: risk, why: whys[risk], touch: &t})
			}
		}
	}
	for _, name := range q.Action.Hosts {
		hosts, err := args.words(name)
		if err != nil {
			return s, err
		}
		for _, h := range hosts {
			s.hosts = append(s.hosts, word{hostName(h), true})
			s.effects = append(s.effects, effect{risk: worse(base, tool.RiskNetwork), why: whys[tool.RiskNetwork], host: hostName(h)})
		}
	}
	s.settle(base, len(s.touches) > 0)
	return s, nil
}

// settle works out the risk of a call from its effects. Where paths say whether a write is
// inside, they decide; otherwise the action's own risk is an effect as well.
func (s *subject) settle(base tool.Risk, placed bool) {
	switch {
	case base == tool.RiskWritesInside && !placed: // nothing says where
		base = tool.RiskWritesOutside
		fallthrough
	case base != tool.RiskWritesInside && !(base == tool.RiskReadOnly && len(s.effects) > 0):
		s.effects = append(s.effects, effect{risk: base, why: whys[base]})
	}
	s.risk = tool.RiskReadOnly
	for _, e := range s.effects {
		s.risk = worse(s.risk, e.risk)
	}
	s.why = whys[s.risk]
}

// placed is the risk of doing what base says to a path.
func (g *Gate) placed(base tool.Risk, t touch, workDir string) tool.Risk {
	if base != tool.RiskWritesInside {
		return base
	}
	root := g.places.resolve(workDir)
	if _, ok := relative(root, t.path); ok && root != "" && t.known && t.path != root {
		return tool.RiskWritesInside
	}
	return tool.RiskWritesOutside
}

// touchesOf are the paths that an argument can mean: one that begins with ~ is a name to
// some tools, and a home folder to others.
func (g *Gate) touchesOf(p, workDir string, op opSet) []touch {
	var out []touch
	add := func(p string) {
		real := g.places.resolve(p)
		out = append(out, touch{path: real, op: op, known: real != "", deep: true})
	}
	if filepath.IsAbs(p) {
		add(p)
		return out
	}
	add(workDir + "/" + p)
	if rest, ok := strings.CutPrefix(p, "~"); ok && len(g.opts.Homes) > 0 && (rest == "" || rest[0] == '/') {
		add(g.opts.Homes[0] + rest)
	}
	return out
}

// caller is the user that the program runs as.
func (g *Gate) caller() word {
	name, _, ok := strings.Cut(g.opts.HostIdentity, "@")
	return word{name, ok}
}

// whys say what a risk means, of a call that is not a command line.
var whys = map[tool.Risk]string{
	tool.RiskReadOnly:     "it only reads",
	tool.RiskWritesInside: "it writes below the working folder",
	tool.RiskNetwork:      "it speaks to other machines", tool.RiskPackage: "it installs or removes software",
	tool.RiskService: "it starts, stops or sets up services", tool.RiskWritesOutside: "it writes outside the working folder",
	tool.RiskUnknown: "what it does cannot be told", tool.RiskPrivileged: "it takes another user's rights",
	tool.RiskDestructive: "it could lose what cannot be brought back",
}

// lineSubjects are the simple commands of a line, and what could not be read of it.
func (g *Gate) lineSubjects(q *tool.Question, where tool.Where, line, dir string) []subject {
	opts := &shellrisk.Options{WorkDir: dir, Env: q.Env, ResolvePath: g.places.resolve}
	if where == tool.OnHost { // a sandbox's folders are not the ones that can be looked at
		opts.Names = g.places.names
	}
	report := shellrisk.Analyze(line, opts)
	if filepath.Clean(dir) != filepath.Clean(q.WorkDir) {
		g.replace(&report, dir, q.WorkDir)
	}
	out := make([]subject, 0, len(report.Parts)+1)
	worst := tool.RiskReadOnly
	_, starts := relative(g.places.resolve(q.WorkDir), g.places.resolve(dir))
	moved := !starts
	for i := range report.Parts {
		s := g.partSubject(&report.Parts[i])
		s.moved = moved
		moved = moved || s.base == "" || movers[s.base]
		s.tool, s.action, s.where, s.workDir, s.dir = q.Call.Tool, q.Call.Action, where, q.WorkDir, dir
		worst = worse(worst, s.risk)
		out = append(out, s)
	}
	risk := tool.Risks[riskIndex(tool.Risk(report.Risk))]
	if report.ParseError == "" && worse(worst, risk) == worst {
		return out
	}
	why := report.Why
	if report.ParseError != "" {
		risk, why = worse(risk, tool.RiskUnknown), "it cannot be read: "+report.ParseError
	}
	return append(out, subject{
		tool: q.Call.Tool, action: q.Call.Action, where: where, workDir: q.WorkDir, command: true, opaque: true,
		risk: risk, why: show(why), text: show(line), effects: []effect{{risk: risk, why: show(why)}},
	})
}

// movers change the folder that later commands of a line run in.
var movers = map[string]bool{"cd": true, "pushd": true, "popd": true, "eval": true, "source": true, ".": true}

// replace says anew which writes of a line are inside, where it starts elsewhere than in
// the working folder: that is what inside means.
func (g *Gate) replace(report *shellrisk.Report, dir, workDir string) {
	root := g.places.resolve(workDir)
	_, starts := relative(root, g.places.resolve(dir))
	report.Risk = shellrisk.ReadOnly
	for i := range report.Parts {
		p := &report.Parts[i]
		p.Risk = shellrisk.ReadOnly
		for j := range p.Effects {
			e := &p.Effects[j]
			named := fileTools[p.Program] && slices.ContainsFunc(p.Effects, func(e shellrisk.Effect) bool { return e.Path != "" })
			switch {
			case e.Risk != shellrisk.WritesInside && e.Risk != shellrisk.WritesOutside:
			case e.Path == "" && (named || starts):
			default:
				e.Risk = shellrisk.WritesOutside
				ref := slices.IndexFunc(p.Paths, func(r shellrisk.PathRef) bool { return r.Known && r.Path == e.Path })
				if _, inside := relative(root, e.Path); inside && root != "" && ref >= 0 && e.Path != root {
					e.Risk = shellrisk.WritesInside
				}
			}
			if p.Risk.Less(e.Risk) {
				p.Risk, p.Why = e.Risk, e.Why
			}
		}
		if report.Risk.Less(p.Risk) {
			report.Risk, report.Why = p.Risk, p.Why
		}
	}
}

// partSubject is a simple command as rules see it.
func (g *Gate) partSubject(p *shellrisk.Part) subject {
	s := subject{command: true, base: p.Program, name: p.Path, wrappers: p.Wrappers, risk: tool.Risks[riskIndex(tool.Risk(p.Risk))], why: p.Why, text: show(p.Text)}
	if s.name == "" {
		s.name = s.base
	}
	for i, w := range p.Argv {
		if i > 0 {
			s.args = append(s.args, word{w.Value, w.Known && !w.Glob})
		}
	}
	if p.Sub != "" {
		for w := range strings.FieldsSeq(p.Sub) {
			s.operands = append(s.operands, word{w, true})
		}
		for _, w := range p.Operands {
			s.operands = append(s.operands, word{w.Value, w.Known && !w.Glob})
		}
	}
	deep := recursive(&s)
	for _, ref := range p.Paths {
		s.touches = append(s.touches, touch{path: ref.Path, op: ops[string(ref.Op)], known: ref.Known, deep: deep})
	}
	for _, h := range p.Hosts {
		s.hosts = append(s.hosts, word{hostName(h), plainHost(h)})
	}
	s.users = []word{g.caller()}
	if slices.ContainsFunc(p.Wrappers, func(w string) bool { return raisers[path.Base(w)] }) {
		s.users = []word{{"root", true}}
	}
	if p.User != "" {
		s.users = []word{{p.User, strings.Trim(p.User, nameChars) == ""}}
	}
	for _, n := range p.Needs {
		s.needs = append(s.needs, tool.Need(n))
	}
	worst := tool.RiskReadOnly
	for _, e := range p.Effects {
		risk := tool.Risks[riskIndex(tool.Risk(e.Risk))]
		worst = worse(worst, risk)
		out := effect{risk: risk, why: e.Why, host: hostName(e.Host)}
		if i := slices.IndexFunc(p.Paths, func(ref shellrisk.PathRef) bool { return ref.Path == e.Path }); i >= 0 {
			out.touch = &s.touches[i]
		} else if e.Path != "" {
			out.touch = &touch{path: e.Path, op: opWrite}
		}
		s.effects = append(s.effects, out)
	}
	if worse(worst, s.risk) != worst {
		s.effects = append(s.effects, effect{risk: s.risk, why: s.why})
	}
	s.risk = worse(worst, s.risk)
	return s
}

// raisers take the superuser's rights where they are not told otherwise.
var raisers = map[string]bool{"sudo": true, "doas": true, "su": true, "pkexec": true, "run0": true, "sudoedit": true}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func plainHost(h string) bool { return strings.Trim(h, nameChars+":[]%") == "" }

// deepReaders read what lies below a folder without being told to.
var deepReaders = map[string]bool{
	"tar": true, "bsdtar": true, "zip": true, "7z": true, "rsync": true, "rg": true, "ag": true, "ack": true,
	"restic": true, "borg": true, "duplicity": true, "rclone": true, "gsutil": true, "aws": true, "mutagen": true,
}

// recursive reports whether a command reads what lies below the folders it names.
func recursive(s *subject) bool {
	if deepReaders[s.base] {
		return true
	}
	if s.base == "ls" || s.base == "find" { // names alone; what find starts is a command by itself
		return false
	}
	for _, a := range s.args {
		switch {
		case !a.known || len(a.value) < 2 || a.value[0] != '-':
		case a.value == "--recursive" || a.value == "--archive" || a.value == "--dereference-recursive":
			return true
		case a.value[1] != '-' && len(a.value) <= 5 && strings.ContainsAny(a.value, "rRa"):
			return true
		}
	}
	return false
}
