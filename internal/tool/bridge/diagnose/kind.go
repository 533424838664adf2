package diagnose

import (
	"path/filepath"
	"strings"
)

// A kind is a family of interpreters, of which it is known how to try them without
// running anything of an agent.
type kind string

const (
	kindUnknown kind = ""
	kindPython  kind = "python"
	kindNode    kind = "node"
	kindShell   kind = "shell"
	kindPerl    kind = "perl"
	kindRuby    kind = "ruby"
)

var kinds = map[string]kind{
	"python": kindPython, "pypy": kindPython, "node": kindNode, "nodejs": kindNode,
	"sh": kindShell, "bash": kindShell, "dash": kindShell, "ksh": kindShell, "ash": kindShell,
	"perl": kindPerl, "ruby": kindRuby,
}

// kindOf is the kind of a program, by its name: python3.12 is python.
func kindOf(path string) kind {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimRight(strings.TrimSuffix(name, ".exe"), "0123456789.-")
	return kinds[name]
}

// What each kind does to show that it works: it prints 42.
func (k kind) trial(path string) []string {
	switch k {
	case kindPython:
		return []string{path, "-I", "-c", "print(6*7)"}
	case kindNode:
		return []string{path, "-e", "console.log(6*7)"}
	case kindShell:
		return []string{path, "-c", "echo $((6*7))"}
	case kindPerl:
		return []string{path, "-e", "print 6*7"}
	case kindRuby:
		return []string{path, "-e", "print 6*7"}
	}
	return nil
}

// parse is how a kind reads a script without running any of it; nil where it cannot: perl
// -c and ruby -c run what stands in BEGIN.
func (k kind) parse(path, script string) []string {
	switch k {
	case kindPython:
		return []string{path, "-I", "-c", parsePython, script}
	case kindNode:
		return []string{path, "--check", script}
	case kindShell:
		return []string{path, "-n", script}
	}
	return nil
}

const parsePython = `import ast, sys
try:
    ast.parse(open(sys.argv[1], "rb").read(), sys.argv[1])
except SyntaxError as e:
    sys.exit("line %s: %s" % (e.lineno, e.msg))
except (ValueError, MemoryError, RecursionError, OSError) as e:
    sys.exit("%s: %s" % (type(e).__name__, e))
`
