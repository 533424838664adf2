package setup

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"airlock/internal/yamlfile"
)

// findProgram says what is started. Whether it is there is for Look to find out.
func (e *entry) findProgram() (err error) {
	a := e.agent
	python, command := e.given["python"], e.given["command"]
	switch {
	case e.has("python") && e.has("command"):
		return command.Fail("python and command exclude each other; take one out")
	case !e.has("path") && e.has("python"):
		return python.Fail("python runs a script, and there is none; write path: beside it")
	case !e.has("path") && !e.has("command"):
		return e.key.Fail("agents: %s: path is missing; write the script, such as path: agents/%s.py", a.Name, a.Name)
	}
	if e.has("path") {
		if a.Script, err = e.r.locate("path", e.path, e.given["path"]); err != nil {
			return err
		}
	}
	switch {
	case e.has("python"):
		a.Python = true
		a.Interpreter, err = e.r.locate("python", e.python, python)
		if err == nil {
			a.Found = e.r.elsewhere(e.python, a.Interpreter)
		}
	case e.has("command"):
		a.Interpreter, err = e.r.locate("command", e.command[0], command)
		if err == nil {
			a.Found = e.r.elsewhere(e.command[0], a.Interpreter)
		}
	case strings.HasSuffix(a.Script, ".py"):
		a.Python = true
		a.Interpreter = e.r.search.find("python3")
		if a.Interpreter == "" {
			a.Interpreter = "/usr/bin/python3" // where it would be: the call says that it is not
		}
	}
	if err != nil {
		return err
	}
	if a.Interpreter != "" {
		a.Argv = append(a.Argv, a.Interpreter)
	}
	if e.has("command") {
		a.Argv = append(a.Argv, e.command[1:]...)
	}
	if a.Script != "" {
		a.Argv = append(a.Argv, a.Script)
	}
	return nil
}

// locate makes a program's or a script's name absolute: without a / at its beginning it is
// in the workspace, and must not lead out of there.
func (r *reader) locate(member, name string, n yamlfile.Node) (string, error) {
	local := filepath.FromSlash(name)
	switch {
	case isAbs(name):
		return filepath.Clean(local), nil
	case name == "~" || strings.HasPrefix(name, "~/"):
		return "", n.Fail("%s: ~ is not home here; write the whole path", member)
	case !filepath.IsLocal(local):
		return "", n.Fail("%s: %q leads out of the workspace; name it absolutely, or move it there", member, name)
	case filepath.Clean(local) == ".":
		return "", n.Fail("%s: %q is the workspace itself; name a file in it", member, name)
	}
	return filepath.Join(r.file.Workspace, local), nil
}

// elsewhere is where PATH has a program that is named by a word alone and that is not in
// the workspace.
func (r *reader) elsewhere(name, path string) string {
	if strings.ContainsAny(name, `/\`) {
		return ""
	}
	if _, err := os.Lstat(path); err == nil {
		return ""
	}
	return r.search.find(name)
}

// A pathSearch looks for programs in PATH, for each once.
type pathSearch struct {
	path  string
	found map[string]string
}

// find is the first program of that name in PATH's absolute folders; "" where there is none.
func (s *pathSearch) find(name string) string {
	if at, known := s.found[name]; known {
		return at
	}
	at := ""
	for _, folder := range filepath.SplitList(s.path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		path := filepath.Join(folder, name)
		st, err := os.Stat(path)
		if err == nil && st.Mode().IsRegular() && (runtime.GOOS == "windows" || st.Mode().Perm()&0o111 != 0) {
			at = path
			break
		}
	}
	if s.found == nil {
		s.found = map[string]string{}
	}
	s.found[name] = at
	return at
}
