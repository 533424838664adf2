package shellhook

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	askTime    = 300 * time.Millisecond
	maxScreen  = 512 << 10 // bytes of a terminal's text that are looked at
	screenRows = "400"     // lines of it that are asked for
)

// A terminal is one that can be asked for its text.
type terminal struct {
	name    string
	program string
	args    func(environ func(string) string) []string // nil where this is not the terminal
	pass    []string                                   // variables that its program needs
}

func terminals() []terminal {
	return []terminal{
		{"tmux", "tmux", func(environ func(string) string) []string {
			pane := environ("TMUX_PANE")
			if environ("TMUX") == "" || !strings.HasPrefix(pane, "%") || !digits(pane[1:]) {
				return nil
			}
			return []string{"capture-pane", "-p", "-J", "-S", "-" + screenRows, "-t", pane}
		}, []string{"TMUX", "TMUX_TMPDIR"}},
		{"kitty", "kitten", func(environ func(string) string) []string {
			// Without a socket it would ask by writing to the terminal.
			if environ("KITTY_LISTEN_ON") == "" || !digits(environ("KITTY_WINDOW_ID")) {
				return nil
			}
			return []string{"@", "get-text", "--match", "id:" + environ("KITTY_WINDOW_ID"), "--extent", "all"}
		}, []string{"KITTY_LISTEN_ON", "KITTY_WINDOW_ID", "KITTY_PID", "KITTY_PUBLIC_KEY"}},
		{"wezterm", "wezterm", func(environ func(string) string) []string {
			if !digits(environ("WEZTERM_PANE")) {
				return nil
			}
			return []string{"cli", "get-text", "--pane-id", environ("WEZTERM_PANE"), "--start-line", "-" + screenRows}
		}, []string{"WEZTERM_UNIX_SOCKET", "WEZTERM_PANE"}},
	}
}

// screen asks the innermost terminal for its text, of which output is what the command wrote, and
// says which it was. It waits for wait at most.
func screen(ctx context.Context, wait time.Duration, environ func(string) string, output func(string) string) (text, source string) {
	for _, t := range terminals() {
		args := t.args(environ)
		if args == nil {
			continue
		}
		// A terminal around this one shows the same: it is not asked as well.
		path := find(t.program, environ("PATH"))
		if path == "" {
			return "", ""
		}
		env := []string{}
		for _, name := range append(t.pass, "HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "XDG_RUNTIME_DIR") {
			if value := environ(name); value != "" {
				env = append(env, name+"="+value)
			}
		}
		if text = output(capture(ctx, wait, path, args, env)); text != "" {
			return text, t.name
		}
		return "", ""
	}
	return "", ""
}

// capture is what a program writes in a short time; what it writes beyond a bound is lost.
func capture(ctx context.Context, wait time.Duration, path string, args, env []string) string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	out := &tail{max: maxScreen}
	cmd.Env, cmd.Stdout = env, out
	cmd.Dir = "/"
	ownGroup(cmd)
	cmd.WaitDelay = wait / 3
	if cmd.Run() != nil {
		return ""
	}
	return string(out.data)
}

// find looks a program up in the absolute folders of a PATH.
func find(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, program)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// digits reports whether s is a number of a few digits.
func digits(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

// Output finds in a terminal's text what a command wrote: what stands between the last line
// that ends with the command and the line that called for airlock after it. It is "" where
// the command is not there. At most the last 8 KiB are given, as valid UTF-8.
func Output(text, command string) string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	// The last line with airlock's name is the one that was typed just now.
	end := len(lines) - 1
	for end > 0 && !calls(lines[end]) {
		end--
	}
	// Of a command of several lines it is the last that its output follows.
	command = strings.TrimRight(command, " \t\r\n")
	if i := strings.LastIndexByte(command, '\n'); i >= 0 {
		command = command[i+1:]
	}
	command = strings.TrimSpace(command)
	if command == "" || end <= 0 {
		return ""
	}
	for i := end - 1; i >= 0; i-- {
		before, found := strings.CutSuffix(lines[i], command)
		if !found || before != "" && !strings.HasSuffix(before, " ") {
			continue
		}
		out := strings.Trim(strings.Join(lines[i+1:end], "\n"), "\n")
		if len(out) > maxStderr {
			out = out[len(out)-maxStderr:]
		}
		return bounded(strings.ToValidUTF8(out, ""), maxStderr)
	}
	return ""
}

// after finds in a terminal's text what stands below the last line that ends with a command
// line, which calls airlock itself. It is bounded as Output's is.
func after(text, line string) string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	line = strings.TrimRight(line, " \t\r\n")
	line = strings.TrimSpace(line[strings.LastIndexByte(line, '\n')+1:])
	for i := len(lines) - 1; i >= 0 && line != ""; i-- {
		begin, found := strings.CutSuffix(strings.TrimRight(lines[i], " \t\r"), line)
		if !found || begin != "" && !strings.HasSuffix(begin, " ") {
			continue
		}
		out := strings.Trim(strings.Join(lines[i+1:], "\n"), " \t\r\n")
		if len(out) > maxStderr {
			out = out[len(out)-maxStderr:]
		}
		return bounded(strings.ToValidUTF8(out, ""), maxStderr)
	}
	return ""
}

// calls reports whether a line may be one that called for airlock.
func calls(line string) bool {
	for word := range strings.FieldsSeq(line) {
		if word == "ai" || word == "airlock" || strings.HasSuffix(word, "/airlock") || strings.HasSuffix(word, "/ai") {
			return true
		}
	}
	return false
}

// tail keeps the last of what is written to it.
type tail struct {
	data []byte
	max  int
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > t.max {
		t.data = bytes.Clone(t.data[len(t.data)-t.max:])
	}
	return len(p), nil
}
