package diagnose

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"airlock/internal/tool/bridge/setup"
)

const maxScript = 1 << 20 // bytes of a script that are searched for names of variables

// environment says which variables agents get, and which they ask for and do not get. Values are
// not shown, nor parts of them.
func (d *doctor) environment(context.Context) {
	if d.file == nil {
		return
	}
	d.passed()
	for i := range d.file.Agents {
		d.wanted(&d.file.Agents[i])
	}
}

// passed lists the variables that entries hand on.
func (d *doctor) passed() {
	var names []string
	users := map[string][]string{}
	for i := range d.file.Agents {
		a := &d.file.Agents[i]
		for _, name := range a.Pass {
			if users[name] == nil {
				names = append(names, name)
			}
			if !slices.Contains(users[name], a.Name) {
				users[name] = append(users[name], a.Name)
			}
		}
	}
	for _, name := range names {
		who := list(users[name])
		value, set := d.getenv(name)
		switch {
		case set && value != "":
			d.add(Environment, OK, name, fmt.Sprintf("set, %d characters (%s)", utf8.RuneCountInString(value), who), "")
		case set:
			d.add(Environment, Warning, name, "set, but empty ("+who+")", "export "+name+"=…")
		case d.otherKey(name):
			d.add(Environment, Info, name, "not set, but the other one of the two is ("+who+")", "")
		default:
			d.add(Environment, Warning, name, "not set ("+who+")", "export "+name+"=…, where an agent needs it")
		}
	}
}

// otherKey reports whether a variable that is not set has one in its place.
func (d *doctor) otherKey(name string) bool {
	other := map[string]string{"GEMINI_API_KEY": "GOOGLE_API_KEY", "GOOGLE_API_KEY": "GEMINI_API_KEY", "GITHUB_TOKEN": "GH_TOKEN"}[name]
	value, _ := d.getenv(other)
	return other != "" && value != ""
}

// wanted warns of variables that are set, that a script names, and that its entry does not
// hand on: the original handed on all there were.
func (d *doctor) wanted(a *setup.Agent) {
	if a.Script == "" {
		return
	}
	f, err := openRegular(a.Script)
	if err != nil {
		return // told among the files
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil {
		return
	}
	named := variables(string(text))
	var missing []string
	for _, kv := range d.env {
		name, value, ok := strings.Cut(kv, "=")
		_, given := a.Set[name]
		if !ok || value == "" || !named[name] || given || isHandedOn(name) || isBridges(name) || slices.Contains(a.Pass, name) || slices.Contains(missing, name) {
			continue
		}
		missing = append(missing, name)
	}
	if len(missing) == 0 {
		return
	}
	slices.Sort(missing)
	mend := "write in its entry env: [" + strings.Join(slices.Concat(a.Pass, missing), ", ") + "]"
	if len(a.Set) > 0 {
		mend = "write in its entry's env " + strings.Join(missing, ": null, ") + ": null"
	}
	d.add(Environment, Warning, a.Name, "its script names "+list(missing)+", set here and not handed on", mend)
}

// isBridges reports whether a variable is one that the bridge or a shell itself sets.
func isBridges(name string) bool {
	switch name {
	case "PYTHONPATH", "AIRLOCK_TOOL", "AIRLOCK_CALL", "AIRLOCK_ATTEMPT", "PWD", "OLDPWD", "SHLVL", "_", "IFS", "PPID", "RANDOM", "UID", "EUID", "HOSTNAME", "OPTIND", "OPTARG":
		return true
	}
	return false
}

// variables finds the names of variables in a script: words in quotes of their own, as in
// os.environ["NAME"]; behind $ or ${, and behind env. or environ. of JavaScript; and wherever
// it stands, a word that is called as credentials are.
func variables(script string) map[string]bool {
	found := map[string]bool{}
	for i := 0; i < len(script); {
		if !isWord(script[i]) {
			i++
			continue
		}
		end := i
		for end < len(script) && isWord(script[end]) {
			end++
		}
		if name := script[i:end]; len(name) <= 128 && (isVariable(script[:i], script[end:]) || isCredential(name)) {
			found[name] = true
		}
		i = end
	}
	return found
}

// isVariable reports whether what stands before and behind a word makes it a variable's name.
func isVariable(before, behind string) bool {
	for _, quote := range []string{`"`, "'", "`"} {
		if strings.HasSuffix(before, quote) && strings.HasPrefix(behind, quote) {
			return true
		}
	}
	for _, start := range []string{"$", "${", "env.", "environ."} {
		if strings.HasSuffix(before, start) {
			return true
		}
	}
	return false
}

// isCredential reports whether a word is called as variables with credentials are.
func isCredential(name string) bool {
	if name != strings.ToUpper(name) {
		return false
	}
	for _, end := range []string{"_TOKEN", "_KEY", "_SECRET", "_PASSWORD", "_PASSWD", "_CREDENTIALS"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
