// Package params makes the parameters of a call ready for a bridged agent: it lays the
// entry's defaults below them, refuses what does not hold, takes out of them what is to be
// taken out, and says which of them are options on the command line. It knows parameters
// and rules, and nothing of how an agent is run or of who calls it.
package params

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/acp"
	"airlock/internal/tool/bridge/setup"
)

// reserved is the member that protocol 1.1 puts beside the parameters.
const reserved = "_airlock"

// Rules are what holds for the parameters of one agent. They do not change, and are safe
// for concurrent use.
type Rules struct {
	agent    *setup.Agent
	security setup.Security
	defaults json.RawMessage // an object
	rules    map[string]setup.Rule
	either   []string                 // parameters of which one must be given; none: nothing must
	schema   func() (*checker, error) // compiled when it is first needed; nil: there is none
}

// A ValidationError is parameters that do not hold. Its text is one line of printable
// characters, and fit to stand behind "Validation error: ".
type ValidationError struct {
	Text string
	Code tool.ErrorCode // ParseError where they are not the JSON that is read, else InvalidArgs
}

// Error is the text.
func (e *ValidationError) Error() string { return e.Text }

// invalid is a ValidationError; what the text quotes of the parameters need not be printable.
func invalid(format string, args ...any) *ValidationError {
	return &ValidationError{changes.Printable(fmt.Sprintf(format, args...)), tool.InvalidArgs}
}

// New makes the rules of an agent. It refuses limits that are none, and defaults that are
// not JSON or have a name that is the bridge's. Neither a nor what it refers to may change
// from here on.
func New(a *setup.Agent, s *setup.Security) (*Rules, error) {
	if s.MaxParams < 1 || s.MaxParams > tool.MaxArgs {
		return nil, fmt.Errorf("max_total_length is %d: write 1 to %d", s.MaxParams, tool.MaxArgs)
	}
	if s.Validate && s.MaxParam < 1 {
		return nil, fmt.Errorf("max_param_length is %d: write 1 or more", s.MaxParam)
	}
	if s.Validate && !slices.Contains([]setup.Sanitizing{setup.Strip, setup.Refuse, setup.Off}, s.Sanitize) {
		return nil, fmt.Errorf("sanitize_inputs is %q: write strip, refuse or off", s.Sanitize)
	}
	r := &Rules{agent: a, security: *s, rules: rulesOf(a)}
	defaults, err := encode(a.Defaults)
	if err != nil {
		return nil, fmt.Errorf("agent %s: defaults: %w", a.Name, err)
	}
	if _, err := tool.ParseJSON(defaults); err != nil {
		return nil, fmt.Errorf("agent %s: defaults: the text %w", a.Name, err)
	}
	if _, given := a.Defaults[reserved]; given {
		return nil, fmt.Errorf("agent %s: defaults: %s is the bridge's own: choose another name", a.Name, reserved)
	}
	if len(a.Defaults) > 0 {
		r.defaults = defaults
	}
	schema := a.Schema
	switch {
	case schema != nil:
	case a.Kind == setup.ACP:
		schema = acp.Schema()
	case a.Name == analyse:
		r.either = []string{"report", "report_path"}
	}
	if schema != nil {
		r.schema = sync.OnceValues(func() (*checker, error) { return newChecker(schema) })
	}
	return r, nil
}

// rulesOf are the rules of an agent's single parameters: a prompt is for a model to read,
// files are names that there are, and both are left as they are.
func rulesOf(a *setup.Agent) map[string]setup.Rule {
	if a.Kind != setup.ACP {
		return a.Params
	}
	rules := map[string]setup.Rule{}
	maps.Copy(rules, a.Params)
	for _, name := range []string{"prompt", "files"} {
		rule := rules[name]
		rule.Raw = true
		rules[name] = rule
	}
	return rules
}

// Prepare gives the parameters as the agent gets them: an object with the defaults in it, in
// compact JSON with its members sorted and its numbers as they were written. cut names the
// strings that characters were taken out of, such as filters.name or items[3]: the first of
// them, where there are many. It prepares what it has prepared to the same. No args are an
// empty object. The error is a *ValidationError, but where the agent's schema is none.
func (r *Rules) Prepare(args json.RawMessage) (prepared json.RawMessage, cut []string, err error) {
	values, err := r.parse(args)
	if err != nil {
		return nil, nil, err
	}
	text, err := encode(values)
	if err != nil {
		return nil, nil, fmt.Errorf("write the parameters: %w", err)
	}
	if len(text) > r.security.MaxParams {
		return nil, nil, invalid("Invalid parameters: they have %d bytes as JSON, more than %d (max_total_length)", len(text), r.security.MaxParams)
	}
	if err := r.matches(text, nil); err != nil {
		return nil, nil, err
	}
	if r.security.Validate {
		if cut, err = r.validate(values); err != nil {
			return nil, nil, err
		}
	}
	if len(cut) > 0 {
		if text, err = encode(values); err != nil {
			return nil, nil, fmt.Errorf("write the parameters: %w", err)
		}
		// What was taken out can be what the schema wanted.
		if err := r.matches(text, cut); err != nil {
			return nil, nil, err
		}
	}
	if err := r.complete(values); err != nil {
		return nil, nil, err
	}
	// An option that cannot be given is found before anything is started.
	if _, err := r.options(values); err != nil {
		return nil, nil, err
	}
	return text, cut, nil
}

// parse reads the parameters and lays the defaults below them.
func (r *Rules) parse(args json.RawMessage) (map[string]any, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if len(args) > tool.MaxArgs {
		return nil, &ValidationError{fmt.Sprintf("Invalid parameters: they have %d bytes, more than %d", len(args), tool.MaxArgs), tool.ParseError}
	}
	values, err := object(args)
	if err != nil {
		return nil, &ValidationError{changes.Printable("Invalid parameters: the text " + err.Error()), tool.ParseError}
	}
	if _, given := values[reserved]; given {
		return nil, invalid("Invalid parameters: %s is the bridge's own: choose another name", reserved)
	}
	if r.defaults == nil {
		return values, nil
	}
	defaults, err := object(r.defaults) // read anew: what is prepared is changed in place
	if err != nil {
		return nil, fmt.Errorf("agent %s: defaults: the text %w", r.agent.Name, err)
	}
	for name, value := range defaults {
		if _, given := values[name]; !given {
			values[name] = value
		}
	}
	return values, nil
}

// matches checks the parameters against the agent's schema; cut are those that something
// was taken out of since they matched it.
func (r *Rules) matches(text json.RawMessage, cut []string) error {
	if r.schema == nil {
		return nil
	}
	schema, err := r.schema()
	if err != nil {
		return fmt.Errorf("agent %s: schema: %w", r.agent.Name, err)
	}
	problem := schema.problem(text)
	switch {
	case problem == "":
		return nil
	case cut != nil:
		return invalid("Invalid %s: without the characters that are not let through the schema does not hold: %s; "+
			"leave them out, or let the configuration say params: {NAME: {raw: true}}", strings.Join(cut[:min(3, len(cut))], ", "), problem)
	}
	return invalid("%s", problem)
}

// complete says whether one of those parameters is given that the agent cannot do without.
func (r *Rules) complete(values map[string]any) error {
	for _, name := range r.either {
		if v := values[name]; v != nil && v != "" {
			return nil
		}
	}
	if len(r.either) == 0 {
		return nil
	}
	return invalid("Missing %s: give one of them", strings.Join(r.either, " or "))
}

// object reads a JSON object. The error goes on behind "the text".
func object(text json.RawMessage) (map[string]any, error) {
	value, err := tool.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	values, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("is " + kindWord(value) + ", want an object")
	}
	return values, nil
}

// encode writes compact JSON with sorted members, and with <, > and & as they are.
func encode(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
