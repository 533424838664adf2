package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// A NotFoundError is an agent whose script or interpreter is not there. Its text is what
// the bridge answers.
type NotFoundError struct {
	What   string // "script" or "interpreter"
	Path   string
	Python bool   // the interpreter is Python's
	Found  string // where PATH has a program of that name; "" where it has none
}

func (e *NotFoundError) Error() string {
	switch {
	case e.What == "script":
		return "Agent not found: " + e.Path
	case e.Python && e.Found != "":
		return "Python interpreter not found: " + e.Path + "; for that of PATH write python: " + e.Found
	case e.Python:
		return "Python interpreter not found: " + e.Path
	case e.Found != "":
		return "Interpreter not found: " + e.Path + "; for that of PATH write command: " + e.Found
	}
	return "Interpreter not found: " + e.Path
}

// An OutsideError is a script or an interpreter in the workspace that is, by a link, not
// in the workspace. Its text is what the bridge answers.
type OutsideError struct {
	What string // "script" or "interpreter"
	Path string // as the workspace has it
}

func (e *OutsideError) Error() string {
	return "Agent outside of the workspace: " + e.Path + "; name it absolutely or move it there"
}

// Look looks whether what the agent needs is there: its script, a regular file, and the
// program that is started, which can be executed. What lies in the workspace must really
// lie there. The error is a *NotFoundError, an *OutsideError, or another that says what to
// mend.
func (a *Agent) Look(workspace string) error {
	if a.Script != "" {
		if err := a.lookScript(workspace); err != nil {
			return err
		}
	}
	if a.Interpreter == "" {
		return nil
	}
	// The program itself may be a link: in a virtual environment python is one.
	folder := filepath.Dir(a.Interpreter)
	real, err := filepath.EvalSymlinks(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a.noInterpreter()
	case err != nil:
		return fmt.Errorf("look for the interpreter: %w", err)
	case within(workspace, folder) && !within(workspace, real):
		return &OutsideError{What: "interpreter", Path: a.Interpreter}
	}
	st, err := os.Stat(a.Interpreter)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a.noInterpreter()
	case err != nil:
		return fmt.Errorf("look for the interpreter: %w", err)
	}
	return runnable(st, a.Interpreter)
}

func (a *Agent) lookScript(workspace string) error {
	real, err := filepath.EvalSymlinks(a.Script)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &NotFoundError{What: "script", Path: a.Script}
	case err != nil:
		return fmt.Errorf("look for the agent: %w", err)
	case within(workspace, a.Script) && !within(workspace, real):
		return &OutsideError{What: "script", Path: a.Script}
	}
	st, err := os.Stat(real)
	switch {
	case err != nil:
		return fmt.Errorf("look for the agent: %w", err)
	case a.Interpreter == "":
		return runnable(st, a.Script)
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", a.Script)
	}
	return nil
}

func (a *Agent) noInterpreter() error {
	return &NotFoundError{What: "interpreter", Path: a.Interpreter, Python: a.Python, Found: a.Found}
}

// runnable refuses what cannot be started.
func runnable(st fs.FileInfo, path string) error {
	switch {
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case runtime.GOOS != "windows" && st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable; chmod +x it, or name its interpreter with command", path)
	}
	return nil
}

// within reports whether a path is a folder or below it; both are absolute and clean.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
