package acp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/internal/tool"
)

const (
	maxPaths  = 100     // that one request may name
	maxEdit   = 1 << 20 // bytes of a file's new content that fs.write_file takes
	maxUnsure = 4 << 10 // bytes of a request's paths, and of its input, that are shown where it is not clear
)

var (
	errAlone     = errors.New("refused: this agent runs without anybody who could let it")
	errUnread    = errors.New("refused: its command is neither a line nor a list of words")
	errNoSandbox = errors.New("there is no sandbox to do this in")
)

// A wish is what an agent asks leave for, as far as it says.
type wish struct {
	title string
	kind  sdk.ToolKind
	input any // rawInput
	paths []string
	edits []edit
	lost  bool // more was said of it than was kept
}

// An edit is a file's new content.
type edit struct{ path, text string }

// permit answers session/request_permission: it asks the gate, and never gives leave for
// more than this once.
func (c *client) permit(ctx context.Context, p *sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	if err := c.known(p.SessionId); err != nil {
		return sdk.RequestPermissionResponse{}, err
	}
	w := c.turn.asked(&p.ToolCall)
	err := c.mayDo(ctx, &w)
	kind := sdk.PermissionOptionKindAllowOnce
	switch {
	case ctx.Err() != nil:
		return chosen(nil), nil
	case err != nil:
		kind = sdk.PermissionOptionKindRejectOnce
		c.log.InfoContext(ctx, "agent was refused what it asked leave for", slog.String("kind", shown(string(w.kind))), slog.String("why", shown(err.Error())))
	}
	i := slices.IndexFunc(p.Options, func(o sdk.PermissionOption) bool { return o.Kind == kind })
	if i < 0 {
		return chosen(nil), nil
	}
	return chosen(&p.Options[i]), nil
}

// chosen is an answer; nil is none of the options.
func chosen(o *sdk.PermissionOption) sdk.RequestPermissionResponse {
	if o == nil {
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}
	}
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(o.OptionId)}
}

// mayDo asks the gate about all that a wish comes to: every call must pass.
func (c *client) mayDo(ctx context.Context, w *wish) error {
	calls, err := w.calls(c.s.Tool)
	if err != nil {
		return err
	}
	var passed []func(tool.Result)
	for i := range calls {
		done, err := c.admit(ctx, c.s.Where, calls[i])
		if err != nil {
			for _, done := range passed {
				done(tool.Fail(tool.PermissionDenied, "the agent was not let do this, because something else that it asked for with it was refused"))
			}
			return err
		}
		passed = append(passed, done)
	}
	for _, done := range passed {
		done(tool.Result{OK: true, Stdout: "the agent was let do this by itself"})
	}
	return nil
}

// Names under which agents say what they are about to do, in rawInput.
var (
	commandNames = []string{"command", "cmd"}
	folderNames  = []string{"cwd", "workdir", "working_directory"}
	pathNames    = []string{"path", "file_path", "filePath", "abs_path", "absolute_path", "notebook_path", "old_path", "new_path", "from", "to", "source", "destination"}
	urlNames     = []string{"url", "uri"}
	contentNames = []string{"content", "new_string", "new_str"}
)

// calls are the calls of tools that a wish is judged as. A command is judged as such, whatever
// kind it is said to be; and what is not clear as a call of the agent's own tool, about
// which nobody knows what it does.
func (w *wish) calls(own string) ([]tool.Call, error) {
	input, _ := w.input.(map[string]any)
	line, given, err := command(input)
	if err != nil {
		return nil, err
	}
	paths, err := w.places(input)
	if err != nil {
		return nil, err
	}
	var calls []tool.Call
	if given {
		args := map[string]any{"command": line}
		if dir := first(input, folderNames); dir != "" {
			args["working_directory"] = dir
		}
		calls = append(calls, newCall("cmd.run", "execute", args))
	}
	unclear := w.lost
	switch w.kind {
	case sdk.ToolKindExecute:
		unclear = unclear || !given
	case sdk.ToolKindRead, sdk.ToolKindSearch:
		for _, p := range paths {
			calls = append(calls, newCall("fs.read_file", "read", map[string]any{"path": p}))
			if w.kind == sdk.ToolKindSearch { // it reads all that is below
				calls = append(calls, newCall("cmd.run", "execute", map[string]any{"command": "grep -r -- . " + quote(p)}))
			}
		}
		unclear = unclear || len(calls) == 0
	case sdk.ToolKindEdit:
		for _, p := range paths {
			calls = append(calls, newCall("fs.write_file", "write", map[string]any{"path": p, "content": w.content(p, input)}))
		}
		unclear = unclear || len(paths) == 0
	case sdk.ToolKindDelete, sdk.ToolKindMove:
		for _, p := range paths {
			calls = append(calls, newCall("cmd.run", "execute", map[string]any{"command": "rm -rf -- " + quote(p)}))
		}
		unclear = unclear || len(paths) == 0
	case sdk.ToolKindFetch:
		url := first(input, urlNames)
		if url != "" {
			calls = append(calls, newCall("cmd.run", "execute", map[string]any{"command": "curl -- " + quote(url)}))
		}
		unclear = unclear || url == ""
	default: // whatever it is, it may be more than what it shows
		for _, e := range w.edits {
			calls = append(calls, newCall("fs.write_file", "write", map[string]any{"path": e.path, "content": w.content(e.path, input)}))
		}
		unclear = unclear || !given
	}
	if unclear {
		calls = append(calls, tool.Call{Tool: own, Args: encode(map[string]any{"prompt": w.text(paths)})})
	}
	return calls, nil
}

// places are the paths that a wish names, each once.
func (w *wish) places(input map[string]any) ([]string, error) {
	all := slices.Clone(w.paths)
	for _, e := range w.edits {
		all = append(all, e.path)
	}
	for _, name := range pathNames {
		if p, ok := input[name].(string); ok {
			all = append(all, p)
		}
	}
	for _, name := range []string{"paths", "file_paths"} {
		list, _ := input[name].([]any)
		for _, p := range list {
			if p, ok := p.(string); ok {
				all = append(all, p)
			}
		}
	}
	if changed, ok := input["changes"].(map[string]any); ok { // of patches, by path
		for p := range changed {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxPaths {
		return nil, fmt.Errorf("refused: it names more than %d paths at once", maxPaths)
	}
	if slices.ContainsFunc(all, func(p string) bool { return p == "" || strings.ContainsRune(p, 0) }) {
		return nil, errors.New("refused: it names a path that there cannot be")
	}
	return all, nil
}

// untold stands for new content that an agent does not tell.
const untold = "(the agent does not say what it would write)"

// content is the new content of a path, or the part of it that is told.
func (w *wish) content(path string, input map[string]any) string {
	text, told := "", false
	for _, e := range w.edits {
		if e.path == path {
			text, told = e.text, true
		}
	}
	for _, name := range contentNames {
		if !told {
			text, told = input[name].(string)
		}
	}
	switch {
	case !told:
		return untold
	case len(text) > maxEdit:
		return clip(text)
	}
	return text
}

// text is a wish for a person who is to judge it.
func (w *wish) text(paths []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "asks for leave (%s): %s", shown(string(w.kind)), shown(w.title))
	if list := strings.Join(paths, ", "); len(list) > maxUnsure {
		b.WriteString("\npaths: more than can be shown")
	} else if list != "" {
		fmt.Fprintf(&b, "\npaths: %s", list)
	}
	if w.input != nil {
		if data := encode(w.input); len(data) <= maxUnsure {
			fmt.Fprintf(&b, "\ninput: %s", data)
		} else {
			b.WriteString("\ninput: more than can be shown")
		}
	}
	return b.String()
}

// command is the command line that an input has, if it has one: a line, or the words of one.
func command(input map[string]any) (line string, given bool, err error) {
	for _, name := range commandNames {
		switch v := input[name].(type) {
		case nil:
			continue
		case string:
			line = v
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				text, ok := word.(string)
				if !ok {
					return "", false, errUnread
				}
				words[i] = quote(text)
			}
			line = strings.Join(words, " ")
		default:
			return "", false, errUnread
		}
		if given {
			return "", false, errors.New("refused: it has more than one command")
		}
		given = true
	}
	switch more := input["args"].(type) {
	case nil:
	case []any:
		for _, word := range more {
			text, ok := word.(string)
			if !given {
				break // of something else
			}
			if !ok {
				return "", false, errUnread
			}
			line += " " + quote(text)
		}
	default:
		if given {
			return "", false, errUnread
		}
	}
	return line, given, nil
}

// first is the first of some members that is a text.
func first(input map[string]any, names []string) string {
	for _, name := range names {
		if text, ok := input[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// quote is a word of a shell line.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,+@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// newCall is a call with these arguments.
func newCall(name, action string, args map[string]any) tool.Call {
	return tool.Call{Tool: name, Action: action, Args: encode(args)}
}
