package setup

import (
	"encoding/json"
	"maps"
	"time"
)

// fillIn gives the agent what it has unless its entry says otherwise: given reports
// whether it says so of a member.
func (a *Agent) fillIn(given func(member string) bool) {
	if a.Kind == ACP {
		if !given("timeout") {
			a.Timeout = 600 * time.Second
		}
		return
	}
	p := profileOf(a.Name)
	if !given("timeout") {
		a.Timeout = p.timeout
	}
	if !given("args") {
		a.Args = p.args
	}
	if !given("env") {
		a.Pass = p.env
	}
	under := make(map[string]json.RawMessage, len(p.defaults)+len(a.Defaults))
	for name, value := range p.defaults {
		under[name] = json.RawMessage(value)
	}
	maps.Copy(under, a.Defaults)
	if len(under) > 0 {
		a.Defaults = under
	}
}

// A profile is what the original knew of one of its own tools.
type profile struct {
	args     []Option
	defaults map[string]string // as JSON
	timeout  time.Duration
	env      []string
}

// profileOf is a tool's profile; for one that the original did not have, what holds for any.
func profileOf(name string) profile {
	switch name {
	case "label_github_issue":
		return profile{
			args:     []Option{{"issue_number", "--issue"}, {"repo_name", "--repo"}, {"dry_run", "--dry-run"}},
			defaults: map[string]string{"dry_run": `true`},
			timeout:  300 * time.Second,
			env:      []string{"GITHUB_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"},
		}
	case "watch_collect":
		return profile{
			defaults: map[string]string{"sources": `["github","pypi","npm"]`, "output_format": `"markdown"`},
			timeout:  600 * time.Second,
			env:      []string{"GITHUB_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"},
		}
	case "analyse_watch_report":
		return profile{
			defaults: map[string]string{"format": `"json"`},
			timeout:  300 * time.Second,
			env:      []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		}
	case "curate_digest":
		return profile{
			defaults: map[string]string{"format": `"newsletter"`, "output": `"markdown"`},
			timeout:  180 * time.Second,
			env:      []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		}
	}
	return profile{timeout: 300 * time.Second}
}
