package gate

import (
	"slices"
	"strings"

	"airlock/internal/tool"
)

// example is a rule that would allow a line, as narrow as can be told in one.
func (g *Gate) example(q *tool.Question, line, dir string) string {
	subjects := g.lineSubjects(q, q.Where, line, dir)
	rule := "{name: my-rule, verdict: allow, program: NAME}"
	for i := range subjects {
		s := &subjects[i]
		if s.base == "" || s.risk == tool.RiskReadOnly {
			continue
		}
		rule = "{name: my-rule, verdict: allow, program: " + scalar(s.base)
		var words []string
		for _, w := range s.operands {
			if w.known && len(words) < 2 && strings.Trim(w.value, nameChars) == "" {
				words = append(words, scalar(w.value))
			}
		}
		if len(words) > 0 {
			rule += ", args: [" + strings.Join(words, ", ") + "]"
		}
		if mustBeNamed.has(riskIndex(s.risk)) {
			rule += ", risk: [" + string(s.risk) + "]"
		}
		return rule + "}"
	}
	return rule
}

// helps reports whether a rule in the user's policy would let the call pass. Nothing helps
// against a rule that asks or denies, nor against what a model says of its step.
func (g *Gate) helps(q *tool.Question, rule string) bool {
	set := g.layers.current(q.WorkDir, false)
	p, err := g.load(layerUser, "", []byte("version: 1\nrules:\n- "+rule+"\n"))
	if err != nil || set.broken != nil {
		return false
	}
	return g.judge(q, newRuleSet(append(slices.Clone(set.policies), p))).Verdict == tool.Allow
}

// scalar is a word as YAML takes it.
func scalar(s string) string {
	if strings.Trim(s, nameChars) != "" || s == "" || s[0] == '-' || s[0] == '.' {
		return "'" + strings.ReplaceAll(show(s), "'", "''") + "'"
	}
	return s
}
