package setup

import (
	"encoding/json"
	"slices"
	"strings"

	"airlock/internal/lazyregexp"
	"airlock/internal/yamlfile"
)

const (
	maxOptions = 200
	maxRules   = 1000
	maxWords   = 200
	maxEnv     = 200
	maxValue   = 64 << 10 // bytes of a variable

	// reserved is what protocol 1.1 adds to an agent's parameters.
	reserved = "_airlock"
)

var flagForm = lazyregexp.New(`^--?[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// parameters are the members of a mapping whose names are parameters.
func parameters(name string, n yamlfile.Node, most int) ([]yamlfile.Member, error) {
	members, err := n.Free(name)
	if err != nil {
		return nil, err
	}
	if len(members) > most {
		return nil, n.Fail("%s has more than %d members", name, most)
	}
	for _, m := range members {
		if m.Name == reserved {
			return nil, m.Key.Fail("%s: %s is the bridge's own; give the parameter another name", name, reserved)
		}
	}
	return members, nil
}

// options are the parameters that are given on the command line, in their order.
func options(to *[]Option) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		members, err := parameters(name, n, maxOptions)
		if err != nil {
			return err
		}
		out := make([]Option, 0, len(members))
		for _, m := range members {
			flag, err := m.Value.Line(m.Name)
			if err != nil {
				return err
			}
			if !flagForm.MatchString(flag) {
				return m.Value.Fail("%s: %q is no option; write one such as --%s", name, flag, strings.ReplaceAll(m.Name, "_", "-"))
			}
			out = append(out, Option{m.Name, flag})
		}
		*to = out
		return nil
	}
}

// values are parameters' values.
func values(to *map[string]json.RawMessage) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		members, err := parameters(name, n, maxRules)
		if err != nil {
			return err
		}
		out := make(map[string]json.RawMessage, len(members))
		for _, m := range members {
			if out[m.Name], err = m.Value.JSON(name + ": " + m.Name); err != nil {
				return err
			}
		}
		*to = out
		return nil
	}
}

// rules are what holds for single parameters.
func rules(to *map[string]Rule) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		members, err := parameters(name, n, maxRules)
		if err != nil {
			return err
		}
		out := make(map[string]Rule, len(members))
		for _, m := range members {
			var rule Rule
			err := m.Value.Mapping(name+": "+m.Name, yamlfile.Members{
				"raw":        boolean(&rule.Raw),
				"max_length": yamlfile.Whole(&rule.MaxLength, 1, maxParams),
			})
			if err != nil {
				return err
			}
			out[m.Name] = rule
		}
		*to = out
		return nil
	}
}

// env is a list of variables that are handed on, or a mapping of those and of ones with a
// value. Errors do not show values, which may be secrets.
func env(a *Agent) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		a.Pass, a.Set = nil, nil
		if list, ok := n.List(); ok {
			return a.passOn(name, n, list)
		}
		if !n.IsMapping() {
			return n.Fail("%s is a list such as [GITHUB_TOKEN], or a mapping such as {MODE: fast, GITHUB_TOKEN: null}", name)
		}
		members, err := n.Free(name)
		if err != nil {
			return err
		}
		if len(members) > maxEnv {
			return n.Fail("%s has more than %d variables", name, maxEnv)
		}
		a.Set = make(map[string]string, len(members))
		for _, m := range members {
			if text := wrongVariable(m.Name); text != "" {
				return m.Key.Fail("%s: %s", name, text)
			}
			if m.Value.Null() {
				a.Pass = append(a.Pass, m.Name)
				continue
			}
			value, err := m.Value.Text(name + ": " + m.Name)
			switch {
			case err != nil:
				return err
			case strings.ContainsRune(value, 0):
				return m.Value.Fail("%s: %s holds a NUL character, which no variable can", name, m.Name)
			case len(value) > maxValue:
				return m.Value.Fail("%s: %s has more than %d bytes", name, m.Name, maxValue)
			}
			a.Set[m.Name] = value
		}
		return nil
	}
}

func (a *Agent) passOn(name string, n yamlfile.Node, list []yamlfile.Node) error {
	if len(list) > maxEnv {
		return n.Fail("%s has more than %d variables", name, maxEnv)
	}
	for _, item := range list {
		variable, err := item.Line(name)
		if err != nil {
			return err
		}
		switch text := wrongVariable(variable); {
		case text != "":
			return item.Fail("%s: %s", name, text)
		case slices.Contains(a.Pass, variable):
			return item.Fail("%s: %s is there twice", name, variable)
		}
		a.Pass = append(a.Pass, variable)
	}
	return nil
}

// wrongVariable says why no variable of this name may be given; "" where one may.
func wrongVariable(name string) string {
	word := func(c rune) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	before, _, pair := strings.Cut(name, "=")
	switch {
	case pair:
		return "a value does not stand in a list; write {" + visibleName(before) + ": its value}"
	case name == "" || name[0] >= '0' && name[0] <= '9' || strings.ContainsFunc(name, func(c rune) bool { return !word(c) }):
		return "a variable's name is of letters, digits and _, and begins with no digit"
	case strings.HasPrefix(strings.ToUpper(name), "AIRLOCK_"):
		return name + " is the bridge's own, as all that begin with AIRLOCK_ are; take it out"
	}
	return ""
}

// visibleName is a name that is short enough to be shown.
func visibleName(name string) string {
	if len(name) > maxName {
		return "NAME"
	}
	return name
}

// command is a program's name, or a list that begins with it.
func command(to *[]string) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		list, ok := n.List()
		if !ok {
			word, err := n.Line(name)
			if err != nil {
				return err
			}
			if first, _, more := strings.Cut(word, " "); more {
				return n.Fail("%s: %q has a space in it; write a list such as [%s, …]", name, word, first)
			}
			*to = []string{word}
			return nil
		}
		switch {
		case len(list) == 0:
			return n.Fail("%s is empty; write the program, such as [/usr/bin/node]", name)
		case len(list) > maxWords:
			return n.Fail("%s has more than %d words", name, maxWords)
		}
		out := make([]string, 0, len(list)+1)
		for i, item := range list {
			read := item.Text
			if i == 0 {
				read = item.Line
			}
			word, err := read(name)
			switch {
			case err != nil:
				return err
			case strings.ContainsRune(word, 0):
				return item.Fail("%s: a word holds a NUL character, which none can", name)
			case len(word) > maxValue:
				return item.Fail("%s: a word has more than %d bytes", name, maxValue)
			}
			out = append(out, word)
		}
		*to = out
		return nil
	}
}
