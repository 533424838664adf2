package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Registry holds the tools there are: what every surface offers is the same list. It
// does not change, and is safe for concurrent use.
type Registry struct {
	infos []*Info // by name
	tools map[string]*registered
}

// registered is a tool with what was learnt of it once.
type registered struct {
	tool    Tool
	info    *Info
	schemas map[string]*schema // by action
}

var (
	toolName   = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	agentName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`) // of a bridged agent: people have them already
	actionName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// NewRegistry makes a Registry of tools. It refuses a name that comes twice or is not
// lower-case words with dots between (a bridged agent's may have capitals and dashes), a tool without actions, and an action whose schema is
// missing, no draft-07 schema of an object, or does not know an argument that the gate
// is told to read: a mistyped name would hide a command line from it. One tool alone makes
// a registry that checks just that tool.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]*registered, len(tools))}
	for _, t := range tools {
		if t == nil || t.Info() == nil {
			return nil, errors.New("a tool has no info")
		}
		info := t.Info()
		grammar := toolName
		if info.Kind == Bridge {
			grammar = agentName
		}
		if !grammar.MatchString(info.Name) || len(info.Name) > maxName {
			return nil, fmt.Errorf("tool %s: the name must be words of a-z, 0-9 and _, with dots between, of at most %d characters", quote(info.Name), maxName)
		}
		if other, twice := r.tools[info.Name]; twice {
			return nil, fmt.Errorf("tool %s: there are two of this name (%s and %s): rename or leave out one", info.Name, origin(other.info), origin(info))
		}
		entry, err := register(t, info)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", info.Name, err)
		}
		r.tools[info.Name] = entry
		r.infos = append(r.infos, info)
	}
	slices.SortFunc(r.infos, func(a, b *Info) int { return cmp.Compare(a.Name, b.Name) })
	return r, nil
}

// origin says where a tool comes from.
func origin(info *Info) string {
	kind := string(info.Kind)
	if kind == "" {
		kind = "of no kind"
	}
	if info.Source != "" {
		return kind + " " + quote(info.Source)
	}
	return kind
}

func register(t Tool, info *Info) (*registered, error) {
	if len(info.Actions) == 0 {
		return nil, errors.New("it has no actions")
	}
	entry := &registered{tool: t, info: info, schemas: make(map[string]*schema, len(info.Actions))}
	for i := range info.Actions {
		a := &info.Actions[i]
		if !actionName.MatchString(a.Name) || len(a.Name) > maxName {
			return nil, fmt.Errorf("action %s: the name must be made of a-z, 0-9 and _ and begin with a letter", quote(a.Name))
		}
		if _, twice := entry.schemas[a.Name]; twice {
			return nil, fmt.Errorf("action %s: there are two of this name", a.Name)
		}
		s, err := checkAction(a)
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", a.Name, err)
		}
		entry.schemas[a.Name] = s
	}
	return entry, nil
}

func checkAction(a *Action) (*schema, error) {
	if len(a.Schema) == 0 {
		return nil, errors.New("it has no schema for its arguments")
	}
	if !slices.Contains(Risks, a.Risk) {
		return nil, fmt.Errorf("its risk %s is none of those there are", quote(string(a.Risk)))
	}
	if a.Place != AnyPlace && a.Place != HostOnly {
		return nil, fmt.Errorf("its place %s is none of %q and %q", quote(string(a.Place)), AnyPlace, HostOnly)
	}
	s, err := compileSchema(a.Schema)
	if err != nil {
		return nil, err
	}
	read := slices.Concat(a.Paths, a.Hosts)
	if a.Command != "" {
		read = append(read, a.Command)
	}
	for _, name := range read {
		if !s.has(name) {
			return nil, fmt.Errorf("the gate is to read the argument %s, which the schema does not have", quote(name))
		}
	}
	return s, nil
}

// List is what is known of the tools, sorted by name.
func (r *Registry) List() []*Info { return slices.Clone(r.infos) }

// Lookup finds a tool by its whole name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	entry, ok := r.tools[name]
	if !ok {
		return nil, false
	}
	return entry.tool, true
}

// Resolve finds the tool and the action that a call means. No action means the action of
// a tool that has one. The error says what there is instead, and is for NOT_FOUND where
// there is no such tool (ErrNoTool), else for INVALID_ARGS.
func (r *Registry) Resolve(call Call) (Tool, *Action, error) {
	entry, action, err := r.resolve(call)
	if err != nil {
		return nil, nil, err
	}
	return entry.tool, action, nil
}

// ErrNoTool is a call of a tool that there is not.
var ErrNoTool = errors.New("there is no such tool")

func (r *Registry) resolve(call Call) (*registered, *Action, error) {
	entry, ok := r.tools[call.Tool]
	if !ok {
		names := make([]string, len(r.infos))
		for i, info := range r.infos {
			names[i] = info.Name
		}
		return nil, nil, fmt.Errorf("%s: %w; %s", quote(call.Tool), ErrNoTool, instead(call.Tool, names))
	}
	actions := entry.info.Actions
	if call.Action == "" && len(actions) == 1 {
		return entry, &actions[0], nil
	}
	names := make([]string, len(actions))
	for i := range actions {
		if actions[i].Name == call.Action {
			return entry, &actions[i], nil
		}
		names[i] = actions[i].Name
	}
	if call.Action == "" {
		return nil, nil, fmt.Errorf("%s has several actions: name one of %s", call.Tool, strings.Join(names, ", "))
	}
	return nil, nil, fmt.Errorf("%s has no action %s; %s", call.Tool, quote(call.Action), instead(call.Action, names))
}

// Check says what is wrong with a call, nil where nothing is: NOT_FOUND for a tool that
// there is not, INVALID_ARGS for an action that it does not have or for arguments that are
// not as its schema says, PARSE_ERROR for arguments that are not JSON, have a name twice, or
// are too large or too deep. No arguments are an empty object.
func (r *Registry) Check(call Call) *Result {
	_, failure := r.Prepare(call)
	return failure
}

// Prepare gives a call as it will be made: with its action named, its arguments never
// empty, and made ready by its tool where that is a Preparer. The failure is Check's.
func (r *Registry) Prepare(call Call) (Call, *Result) {
	_, call, failure := r.check(call)
	return call, failure
}

// check is Check; without a failure it also returns what was resolved and prepared.
func (r *Registry) check(call Call) (*registered, Call, *Result) {
	entry, action, err := r.resolve(call)
	if err != nil {
		code := InvalidArgs
		if errors.Is(err, ErrNoTool) {
			code = NotFound
		}
		return nil, call, new(Fail(code, err.Error()))
	}
	name := call.Tool + " " + action.Name
	if len(call.Args) > MaxArgs {
		return nil, call, new(Fail(ParseError, fmt.Sprintf("%s: args have %d bytes, more than %d", name, len(call.Args), MaxArgs)))
	}
	args, err := ParseJSON(argsOf(call))
	if err != nil {
		return nil, call, new(Fail(ParseError, name+": args: "+err.Error()))
	}
	if problem := entry.schemas[action.Name].check(args); problem != "" {
		return nil, call, new(Fail(InvalidArgs, name+": "+problem))
	}
	call.Action, call.Args = action.Name, slices.Clone(argsOf(call))
	if p, ok := entry.tool.(Preparer); ok {
		prepared, failure := p.Prepare(call)
		if failure != nil {
			return nil, call, failure
		}
		call = prepared
	}
	return entry, call, nil
}

// argsOf are a call's arguments, an empty object where there are none.
func argsOf(call Call) json.RawMessage {
	if len(call.Args) == 0 {
		return json.RawMessage("{}")
	}
	return call.Args
}
