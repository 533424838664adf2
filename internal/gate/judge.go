package gate

import (
	"path"
	"slices"
	"strings"

	"airlock/internal/tool"
)

// A ruleSet is what is in effect for a working folder: every layer's rules by program,
// and the strictest of their defaults.
type ruleSet struct {
	policies []*policy
	broken   *LoadError // a file that could not be read: nothing is allowed
	layer    string     // broken's
	notes    []string

	byProgram map[string][]*rule // rules that name programs, without * and ?
	general   []*rule            // the others, which any subject may match
	all       []*rule
	defaults  [numRisks]tool.Verdict
}

// newRuleSet puts policies together, the ones of projects last.
func newRuleSet(policies []*policy) *ruleSet {
	s := &ruleSet{policies: policies, byProgram: map[string][]*rule{}}
	said := [numRisks]bool{} // by the system or the user: the one cannot loosen the other
	for _, p := range policies {
		for i, v := range p.defaults {
			switch {
			case v == nil:
			case p.layer == layerBuiltin:
				s.defaults[i] = *v
			case p.layer == layerProject:
				if *v > s.defaults[i] {
					s.notes = append(s.notes, p.file+": the default for "+string(tool.Risks[i])+" would loosen the policy, which a project cannot; it has no effect")
				}
				s.defaults[i] = min(s.defaults[i], *v)
			case said[i]:
				s.defaults[i] = min(s.defaults[i], *v)
			default:
				s.defaults[i], said[i] = *v, true
			}
		}
		for _, r := range p.rules {
			if p.layer == layerProject && r.verdict == tool.Allow {
				s.notes = append(s.notes, (&LoadError{File: p.file, Line: r.line, Text: "rule " + r.name + " allows, which a project cannot; it has no effect"}).Error())
				continue
			}
			s.add(r)
		}
	}
	return s
}

func (s *ruleSet) add(r *rule) {
	s.all = append(s.all, r)
	if len(r.programs) == 0 || slices.ContainsFunc(r.programs, func(p program) bool { return !p.name.literal() }) {
		s.general = append(s.general, r)
		return
	}
	for _, p := range r.programs {
		if name := string(p.name); !slices.Contains(s.byProgram[name], r) {
			s.byProgram[name] = append(s.byProgram[name], r)
		}
	}
}

// A finding is what rules say of a subject.
type finding struct {
	verdict tool.Verdict
	risk    tool.Risk
	rule    string
	why     string
}

// stricter reports whether a decides over b: the stricter, then the more severe.
func (a finding) stricter(b finding) bool {
	if a.verdict != b.verdict {
		return a.verdict < b.verdict
	}
	return riskIndex(a.risk) > riskIndex(b.risk)
}

// decide holds the rules against a subject.
func (s *ruleSet) decide(m matcher, sub *subject) finding {
	out := finding{verdict: tool.Allow, risk: sub.risk}
	strict := func(rules []*rule) {
		for _, r := range rules {
			if r.verdict == tool.Allow || out.rule != "" && out.verdict <= r.verdict {
				continue
			}
			switch m.mayMatch(r, sub) {
			case yes:
				out.verdict, out.rule, out.why = r.verdict, r.id(), r.why
			case maybe:
				if !r.certain && (out.rule == "" || out.verdict > tool.Ask) {
					out.verdict, out.rule = tool.Ask, r.id()
					out.why = "this may be what the rule is about, which cannot be told: " + r.why
				}
			}
		}
	}
	strict(s.general)
	switch {
	case sub.command && sub.base == "":
		strict(s.all)
	case sub.command:
		strict(s.byProgram[sub.base])
		for _, w := range sub.wrappers {
			strict(s.byProgram[path.Base(w)])
		}
	}
	if out.rule != "" {
		return out
	}
	return s.byEffects(m, sub)
}

// byEffects allows a subject each of whose effects an allow rule covers or the default
// allows; the strictest of them decides.
func (s *ruleSet) byEffects(m matcher, sub *subject) finding {
	var allows []*rule
	for _, rules := range [][]*rule{s.general, s.byProgram[sub.base]} {
		for _, r := range rules {
			if r.verdict == tool.Allow && r.allows(sub) {
				allows = append(allows, r)
			}
		}
	}
	var out *finding
	for i := range sub.effects {
		e := &sub.effects[i]
		f := s.byDefault(sub, e.risk, e.why)
		if f.verdict != tool.Allow || sub.where == tool.InSandbox {
			if n := slices.IndexFunc(allows, func(r *rule) bool { return m.covers(r, sub, e) }); n >= 0 {
				f = finding{tool.Allow, e.risk, allows[n].id(), allows[n].why}
			}
		}
		if out == nil || f.stricter(*out) {
			out = &f
		}
	}
	if out == nil {
		f := s.byDefault(sub, sub.risk, sub.why)
		out = &f
	}
	out.risk = sub.risk
	return *out
}

// byDefault is the verdict where no rule has one.
func (s *ruleSet) byDefault(sub *subject, risk tool.Risk, why string) finding {
	switch {
	case sub.commit:
		return finding{tool.Allow, risk, defaultRule + "commit", why}
	case sub.where == tool.InSandbox:
		return finding{tool.Allow, risk, defaultRule + "sandbox", why}
	}
	return finding{s.defaults[riskIndex(risk)], risk, "default " + string(risk), why}
}

// refuse is the judgement of what cannot be judged.
func refuse(rule, why string) tool.Judgement {
	return tool.Judgement{Verdict: tool.Deny, Risk: tool.RiskUnknown, Rule: rule, Why: show(why)}
}

// judge is Judge with the policy given.
func (g *Gate) judge(q *tool.Question, set *ruleSet) tool.Judgement {
	if set.broken != nil {
		return refuse(set.layer+"/unreadable", set.broken.Error()+"; nothing is allowed until it is mended (airlock policy check shows what is wrong)")
	}
	if q.Action == nil {
		return refuse("builtin/unknown-action", "nothing is known of "+q.Call.Tool+" "+q.Call.Action)
	}
	where := q.Where
	if q.Action.Place == tool.HostOnly {
		where = tool.OnHost // whatever is said: it means the host
	}
	subjects, err := g.subjects(q, where)
	if err != nil {
		return refuse("builtin/unclear-call", err.Error())
	}
	if len(subjects) == 0 { // a line of blanks and comments
		subjects = []subject{{
			tool: q.Call.Tool, action: q.Call.Action, where: where, workDir: q.WorkDir, command: true,
			name: ":", base: ":", risk: tool.RiskReadOnly, why: "it does nothing",
		}}
	}
	return g.sum(q, set, where, subjects)
}

// sum makes one judgement of the subjects'.
func (g *Gate) sum(q *tool.Question, set *ruleSet, where tool.Where, subjects []subject) tool.Judgement {
	var j tool.Judgement
	var decides finding
	j.Risk = tool.RiskReadOnly
	m := matcher{g.places}
	for i := range subjects {
		s := &subjects[i]
		f := consented(q, set.decide(m, s))
		if i == 0 || f.stricter(decides) {
			decides = f
		}
		j.Risk = worse(j.Risk, s.risk)
		if q.Action.Command != "" {
			j.Parts = append(j.Parts, tool.Part{Text: s.text, Verdict: f.verdict, Risk: s.risk, Rule: f.rule, Why: show(f.why)})
		}
		for _, n := range s.needs {
			if !slices.Contains(j.Needs, n) {
				j.Needs = append(j.Needs, n)
			}
		}
		j.Touches = s.touched(j.Touches)
	}
	if raised := byFlags(q.Flags, set, where); raised.rule != "" {
		j.Risk = worse(j.Risk, raised.risk)
		if raised.verdict < decides.verdict {
			decides = raised
		}
	}
	j.Verdict, j.Rule, j.Why = decides.verdict, decides.rule, show(decides.why)
	if j.Why == "" {
		j.Why = whys[j.Risk]
	}
	return j
}

// consented lets pass what a person has let run beforehand and only a default asks about.
// A rule that asks or denies still does, and so does a model's word. It is never about
// command lines: they are read.
func consented(q *tool.Question, f finding) finding {
	if q.Consent == "" || q.Action.Command != "" || f.verdict != tool.Ask || !strings.HasPrefix(f.rule, defaultRule) {
		return f
	}
	f.verdict, f.rule, f.why = tool.Allow, "consent", "you let it run, by "+q.Consent
	return f
}

// defaultRule begins the name of a verdict that no rule gave.
const defaultRule = "default "

// maxTouches is how many paths and hosts a judgement lists.
const maxTouches = 50

// touched adds what a subject touches.
func (s *subject) touched(to []string) []string {
	add := func(name string) {
		if name = show(name); name != "" && len(to) < maxTouches && !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	for _, t := range s.touches {
		add(t.path)
	}
	for _, h := range s.hosts {
		add(h.value)
	}
	return to
}

// byFlags is what a model's own words make of a call. On the host they ask; in a sandbox,
// where the commit is what a person decides about, they raise the risk that is shown.
func byFlags(f tool.Flags, set *ruleSet, where tool.Where) finding {
	out := finding{verdict: tool.Allow}
	raise := func(said bool, risk tool.Risk, rule, why string) {
		if !said {
			return
		}
		f := finding{verdict: tool.Allow, risk: risk, rule: rule, why: why}
		if where == tool.OnHost {
			f.verdict = min(tool.Ask, set.defaults[riskIndex(risk)])
			if risk == tool.RiskReadOnly {
				f.verdict = tool.Ask
			}
		}
		if out.rule == "" || f.stricter(out) {
			out = f
		}
	}
	raise(f.NeedsConfirmation, tool.RiskReadOnly, "flag needs_confirmation", "the plan says that it wants a confirmation")
	raise(f.RequiresSudo, tool.RiskPrivileged, "flag requires_sudo", "the plan says that it takes the superuser's rights")
	raise(f.Destructive, tool.RiskDestructive, "flag is_destructive", "the plan says that it could lose what cannot be brought back")
	return out
}
