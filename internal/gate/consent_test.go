package gate_test

import (
	"context"
	"encoding/json"
	"testing"

	"airlock/internal/tool"
)

func TestConsentStandsForADefaultsQuestionAlone(t *testing.T) {
	agent := &tool.Action{Name: "run", Risk: tool.RiskUnknown, Place: tool.HostOnly}
	line := &tool.Action{Name: "execute", Risk: tool.RiskUnknown, Command: "command"}
	for _, tt := range []struct {
		name    string
		policy  string
		action  *tool.Action
		args    string
		flags   tool.Flags
		consent string
		verdict tool.Verdict
		rule    string
	}{
		{"without consent the default asks", "", agent, `{}`, tool.Flags{}, "", tool.Ask, "default unknown"},
		{"consent answers the default", "", agent, `{}`, tool.Flags{}, "--config x.yaml", tool.Allow, "consent"},
		{"a rule that asks still does", "rules: [{name: r, tool: x.agent, verdict: ask}]\n", agent, `{}`, tool.Flags{}, "--config x.yaml", tool.Ask, "user/r"},
		{"a rule that denies still does", "rules: [{name: r, tool: x.agent}]\n", agent, `{}`, tool.Flags{}, "--config x.yaml", tool.Deny, "user/r"},
		{"a default that denies still does", "defaults: {unknown: deny}\n", agent, `{}`, tool.Flags{}, "--config x.yaml", tool.Deny, "default unknown"},
		{"a model's word still asks", "", agent, `{}`, tool.Flags{NeedsConfirmation: true}, "--config x.yaml", tool.Ask, "flag needs_confirmation"},
		{"a command line is read all the same", "", line, `{"command": "touch x"}`, tool.Flags{}, "--config x.yaml", tool.Ask, "default writes-inside"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.policy != "" {
				w.user(tt.policy)
			}
			q := w.question("")
			q.Call = tool.Call{Tool: "x.agent", Action: tt.action.Name, Args: json.RawMessage(tt.args)}
			q.Action, q.Flags, q.Consent, q.Where = tt.action, tt.flags, tt.consent, tool.OnHost
			j := w.gate().Judge(context.Background(), q)
			if j.Verdict != tt.verdict || j.Rule != tt.rule {
				t.Errorf("%s by %s (%s), want %s by %s", j.Verdict, j.Rule, j.Why, tt.verdict, tt.rule)
			}
		})
	}
}
