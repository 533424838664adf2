package plugin

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

const (
	maxActions       = 64
	maxDescription   = 1000 // characters
	maxNames         = 64   // of variables, and of arguments that are paths or hosts
	defaultTimeout   = time.Minute
	maxTimeout       = time.Hour
	defaultMaxOutput = 1 << 20
	leastMaxOutput   = 1 << 10
	mostMaxOutput    = 8 << 20
)

// A manifest is what a plugin's author says of it, checked.
type manifest struct {
	name        string
	version     string
	description string
	executable  string // the name of a file beside the manifest
	actions     []tool.Action
	places      []*node // of actions
	timeout     time.Duration
	maxOutput   int64
	needs       []tool.Need
	host        bool
	env         []string

	nameAt, executableAt *node
}

// risk is what the gate is told of an action. The manifest's word can only make it worse:
// nobody but the author has looked at what the executable does.
func (m *manifest) risk(a *tool.Action) tool.Risk {
	least := tool.RiskReadOnly
	if slices.Contains(m.needs, tool.NeedNetwork) || len(a.Hosts) > 0 {
		least = tool.RiskNetwork
	}
	if m.host {
		least = tool.RiskUnknown
	}
	if slices.Index(tool.Risks, a.Risk) < slices.Index(tool.Risks, least) {
		return least
	}
	return a.Risk
}

var (
	nameGrammar     = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	variableGrammar = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	fileGrammar     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
)

const maxName = 64

// A field reads one member of an object.
type field struct {
	name     string
	required bool
	read     func(*node) *Problem
}

// object reads an object whose members are fields and nothing else.
func object(n *node, what string, fields []field) *Problem {
	members, ok := n.value.([]member)
	if !ok {
		return n.at("%s must be an object, and this is %s", what, n.kind())
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	given := map[string]bool{}
	for i := range members {
		m := &members[i]
		at := slices.Index(names, m.name)
		if at < 0 {
			p := m.at("%s has no member %q", what, m.name)
			p.Mend = instead(m.name, names)
			return p
		}
		given[m.name] = true
		if p := fields[at].read(m.value); p != nil {
			p.Text = m.name + ": " + p.Text
			return p
		}
	}
	for _, f := range fields {
		if f.required && !given[f.name] {
			p := n.at("%s has no %q", what, f.name)
			p.Mend = "add " + f.name + ":"
			return p
		}
	}
	return nil
}

// parseManifest reads a manifest. readFile gives the content of a file beside it.
func parseManifest(data []byte, readFile func(name string) ([]byte, error)) (*manifest, *Problem) {
	root, problem := parseYAML(data)
	if problem != nil {
		return nil, problem
	}
	m := &manifest{timeout: defaultTimeout, maxOutput: defaultMaxOutput}
	var needsAt *node
	problem = object(root, "the manifest", []field{
		{"name", true, func(n *node) *Problem { m.nameAt = n; return n.name(&m.name, nameGrammar) }},
		{"version", true, func(n *node) *Problem { return n.version(&m.version) }},
		{"description", true, func(n *node) *Problem { return n.line1(&m.description, maxDescription) }},
		{"executable", true, func(n *node) *Problem { m.executableAt = n; return n.file(&m.executable) }},
		{"actions", true, func(n *node) *Problem { return m.readActions(n, readFile) }},
		{"timeout", false, func(n *node) *Problem { return n.duration(&m.timeout) }},
		{"max_output", false, func(n *node) *Problem { return n.size(&m.maxOutput) }},
		{"needs", false, func(n *node) *Problem { needsAt = n; return m.readNeeds(n) }},
		{"run", false, func(n *node) *Problem { return m.readRun(n) }},
		{"env", false, func(n *node) *Problem { return m.readEnv(n) }},
	})
	if problem != nil {
		return nil, problem
	}
	for _, need := range m.needs {
		if !m.host && need != tool.NeedNetwork {
			p := needsAt.at("needs: a sandbox does not have the host's %s", need)
			p.Mend = "leave it out, or say run: host"
			return nil, p
		}
	}
	return m, nil
}

func (m *manifest) readActions(n *node, readFile func(string) ([]byte, error)) *Problem {
	list, ok := n.value.([]*node)
	switch {
	case !ok:
		return n.at("must be a list, and this is %s", n.kind())
	case len(list) == 0:
		return n.at("the list is empty: a plugin has one action at least")
	case len(list) > maxActions:
		return n.at("%d actions are more than %d", len(list), maxActions)
	}
	for i, item := range list {
		var a tool.Action
		var nameAt *node
		problem := object(item, fmt.Sprintf("action %d", i+1), []field{
			{"name", true, func(n *node) *Problem {
				nameAt = n
				return n.name(&a.Name, regexp.MustCompile(`^[a-z][a-z0-9_]*$`))
			}},
			{"description", true, func(n *node) *Problem { return n.line1(&a.Description, maxDescription) }},
			{"schema", true, func(n *node) *Problem { return n.schema(&a.Schema, readFile) }},
			{"risk", false, func(n *node) *Problem { return n.oneOf((*string)(&a.Risk), words(tool.Risks)) }},
			{"paths", false, func(n *node) *Problem { return n.names(&a.Paths) }},
			{"hosts", false, func(n *node) *Problem { return n.names(&a.Hosts) }},
			{"command", false, func(n *node) *Problem { return n.line1(&a.Command, maxName) }},
		})
		if problem != nil {
			return problem
		}
		if a.Risk == "" {
			a.Risk = tool.RiskUnknown
		}
		if slices.ContainsFunc(m.actions, func(b tool.Action) bool { return b.Name == a.Name }) {
			return nameAt.at("there are two actions %q", a.Name)
		}
		m.actions = append(m.actions, a)
		m.places = append(m.places, item)
	}
	return nil
}

func (m *manifest) readNeeds(n *node) *Problem {
	known := []string{string(tool.NeedNetwork), string(tool.NeedServices), string(tool.NeedPackages), string(tool.NeedHardware), string(tool.NeedProcesses)}
	list, ok := n.value.([]*node)
	if !ok {
		return n.at("must be a list, and this is %s", n.kind())
	}
	for _, item := range list {
		var need string
		if problem := item.oneOf(&need, known); problem != nil {
			return problem
		}
		if slices.Contains(m.needs, tool.Need(need)) {
			return item.at("%q is there twice", need)
		}
		m.needs = append(m.needs, tool.Need(need))
	}
	return nil
}

func (m *manifest) readRun(n *node) *Problem {
	var where string
	problem := n.oneOf(&where, []string{"sandbox", "host"})
	m.host = where == "host"
	return problem
}

func (m *manifest) readEnv(n *node) *Problem {
	if problem := n.names(&m.env); problem != nil {
		return problem
	}
	for i, name := range m.env {
		at := n.value.([]*node)[i]
		if !variableGrammar.MatchString(name) {
			return at.at("%q is not the name of a variable", name)
		}
		if strings.HasPrefix(name, "AIRLOCK_") {
			return at.at("%s: names that begin with AIRLOCK_ are Airlock's", name)
		}
	}
	return nil
}

// str reads text.
func (n *node) str(into *string) *Problem {
	s, ok := n.value.(string)
	if !ok {
		p := n.at("must be text, and this is %s", n.kind())
		if n.value != nil {
			p.Mend = "put it in quotes"
		}
		return p
	}
	*into = s
	return nil
}

// line1 reads one line that can be shown to a person as it is.
func (n *node) line1(into *string, most int) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	*into = strings.TrimSuffix(*into, "\n") // of a block of text
	switch {
	case strings.TrimSpace(*into) == "":
		return n.at("is empty")
	case utf8.RuneCountInString(*into) > most:
		return n.at("has more than %d characters", most)
	case changes.Printable(*into) != *into:
		return n.at("%s: has characters that cannot be shown, or more than one line", *into)
	}
	return nil
}

func (n *node) name(into *string, grammar *regexp.Regexp) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	if !grammar.MatchString(*into) || len(*into) > maxName {
		p := n.at("%.80q is no name", *into)
		p.Mend = fmt.Sprintf("use words of a-z, 0-9 and _, a tool's with dots between, of at most %d characters", maxName)
		return p
	}
	return nil
}

// version reads text, or a number as it is written: 1.10 is not 1.1.
func (n *node) version(into *string) *Problem {
	switch n.value.(type) {
	case int64, uint64, float64:
		*into = n.text
		return nil
	}
	return n.line1(into, maxName)
}

// file reads the name of a file beside the manifest.
func (n *node) file(into *string) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	*into = strings.TrimPrefix(*into, "./")
	if !fileGrammar.MatchString(*into) || len(*into) > 255 || !filepath.IsLocal(*into) {
		p := n.at("%.80q is not the name of a file beside the manifest", n.value)
		p.Mend = "put the file into the manifest's own folder, and write its name without a folder"
		return p
	}
	return nil
}

func (n *node) oneOf(into *string, known []string) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	if !slices.Contains(known, *into) {
		p := n.at("%.80q is none of those there are", *into)
		p.Mend = instead(*into, known)
		return p
	}
	return nil
}

// names reads a list of short texts.
func (n *node) names(into *[]string) *Problem {
	list, ok := n.value.([]*node)
	if !ok {
		return n.at("must be a list, and this is %s", n.kind())
	}
	if len(list) > maxNames {
		return n.at("%d are more than %d", len(list), maxNames)
	}
	for _, item := range list {
		var name string
		if p := item.line1(&name, maxName); p != nil {
			return p
		}
		if slices.Contains(*into, name) {
			return item.at("%q is there twice", name)
		}
		*into = append(*into, name)
	}
	return nil
}

func (n *node) duration(into *time.Duration) *Problem {
	var text string
	if p := n.str(&text); p != nil {
		p.Mend = "write a time with its unit, such as 60s or 5m"
		return p
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		p := n.at("%.80q is no time between 1ms and %s", text, "1h")
		p.Mend = "write a time with its unit, such as 60s or 5m"
		return p
	}
	*into = d
	return nil
}

// size reads a number of bytes, or of KiB or MiB.
func (n *node) size(into *int64) *Problem {
	text, unit := n.text, int64(1)
	if s, ok := n.value.(string); ok {
		text = s
		for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
			if digits, ok := strings.CutSuffix(s, suffix); ok {
				text, unit = strings.TrimSpace(digits), factor
			}
		}
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v*unit < leastMaxOutput || v*unit > mostMaxOutput {
		p := n.at("%.80q is no size between 1 KiB and 8 MiB", n.text)
		p.Mend = "write a number of bytes, or one with its unit, such as 256KiB or 2MiB"
		return p
	}
	*into = v * unit
	return nil
}

// schema reads a JSON Schema that stands here, or in a file of JSON beside the manifest.
// What it says is for the registry to check.
func (n *node) schema(into *json.RawMessage, readFile func(string) ([]byte, error)) *Problem {
	if _, inline := n.value.([]member); inline {
		text, err := json.Marshal(n.plain())
		if err != nil {
			return n.at("%v", err)
		}
		*into = text
		return nil
	}
	if _, isText := n.value.(string); !isText {
		return n.at("must be an object, or the name of a file beside the manifest; this is %s", n.kind())
	}
	var name string
	if p := n.file(&name); p != nil {
		return p
	}
	data, err := readFile(name)
	if err != nil {
		p := n.at("%s: %v", name, err)
		p.Err = err
		return p
	}
	if !json.Valid(data) {
		return n.at("%s is not JSON", name)
	}
	*into = data
	return nil
}

// words are names as text.
func words[T ~string](list []T) []string {
	text := make([]string, len(list))
	for i, word := range list {
		text[i] = string(word)
	}
	return text
}
