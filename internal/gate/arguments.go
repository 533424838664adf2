package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/tool"
)

var errDuplicate = errors.New("two of its arguments have names that differ in nothing but letters' case")

// The limits of a call's arguments.
const (
	maxArgs  = 8 << 20
	maxPaths = 1000
)

// commandOf is the shell line of a call, and the folder in which it starts.
func commandOf(q *tool.Question, args arguments) (line, dir string, err error) {
	raw := args[q.Action.Command]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &line) != nil {
		return "", "", fmt.Errorf("the argument %s is not a command line", q.Action.Command)
	}
	if strings.ContainsRune(line, 0) {
		return "", "", errors.New("the command line holds a NUL")
	}
	dirs, err := args.words(workDirArg)
	if err != nil || len(dirs) > 1 {
		return "", "", errors.New("the argument working_directory is not a path")
	}
	dir = q.WorkDir
	if len(dirs) == 1 && dirs[0] != "" {
		if dir = dirs[0]; !filepath.IsAbs(dir) {
			dir = filepath.Join(q.WorkDir, dir)
		}
	}
	return line, dir, nil
}

// arguments are the members of a call's arguments, as they are written.
type arguments map[string]json.RawMessage

// members reads an object's members. What another reader could read otherwise is refused:
// names that are there twice, or that differ in nothing but case.
func members(raw json.RawMessage) (arguments, error) {
	out := arguments{}
	if len(raw) > maxArgs {
		return nil, fmt.Errorf("its arguments are larger than %d bytes", maxArgs)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return out, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("its arguments are not a JSON object")
	}
	var names []string
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("its arguments are not JSON")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("its arguments are not JSON")
		}
		if len(names) > 256 {
			return nil, errors.New("it has more than 256 arguments")
		}
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return nil, errDuplicate
		}
		names = append(names, name)
		out[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("its arguments are not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its arguments")
	}
	return out, nil
}

// exactly refuses an argument that is written in other letters than its name has: some
// readers take it, and some do not.
func (a arguments) exactly(action *tool.Action) error {
	for n := range a {
		for _, names := range [][]string{{action.Command, workDirArg}, action.Paths, action.Hosts} {
			for _, name := range names {
				if len(n) > 0 && n != name && strings.EqualFold(n, name) {
					return fmt.Errorf("the argument %q is not written as its schema has it, %q", show(n), name)
				}
			}
		}
	}
	return nil
}

// words are an argument's strings: one, or a list.
func (a arguments) words(name string) ([]string, error) {
	raw, ok := a[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxPaths {
		return nil, fmt.Errorf("the argument %s is neither a string nor a list of at most %d", name, maxPaths)
	}
	return list, nil
}
