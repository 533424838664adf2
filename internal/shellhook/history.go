package shellhook

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ErrNoHook says that the shell takes no lines for its history: no hook is in it, or the
// shell has no way to.
var ErrNoHook = errors.New("the shell has no hook that takes commands for its history; airlock hook says how to add one")

// AddHistory leaves commands for the history of the shell that started this process, which
// takes them at its next prompt. Every byte of a command survives, but NUL, which no command
// has. All are left, or none. The error is ErrNoHook where the shell takes none.
func AddHistory(environ func(string) string, commands []string) error {
	pid, file := target(environ)
	if pid == "" {
		return ErrNoHook
	}
	if len(commands) > maxEntries {
		return fmt.Errorf("%d commands for the history: more than %d at once", len(commands), maxEntries)
	}
	var text strings.Builder
	for i, command := range commands {
		switch {
		case len(command) > maxEntry:
			return fmt.Errorf("command %d for the history is %d bytes long: more than %d", i+1, len(command), maxEntry)
		case strings.ContainsRune(command, 0):
			return fmt.Errorf("command %d for the history has a NUL byte", i+1)
		case command != "":
			encode(&text, command)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	if err := leave(file, text.String()); err != nil {
		return fmt.Errorf("leave commands for the shell's history: %w", err)
	}
	return nil
}

// target is the shell's process and the file that it takes lines from, by a name that only
// a script of ours gives: never a file of another kind or in another folder.
func target(environ func(string) string) (pid, file string) {
	dir := folder(environ)
	pid, token, ok := parseName(environ(varHistory))
	if dir == "" || !ok || pid != environ(varPID) {
		return "", ""
	}
	return pid, filepath.Join(dir, filePrefix+pid+"-"+token)
}

// parseName takes a file's name apart.
func parseName(name string) (pid, token string, ok bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return "", "", false
	}
	pid, token, ok = strings.Cut(rest, "-")
	if !ok || !digits(pid) || len(token) != 2*tokenBytes || strings.Trim(token, "0123456789abcdef") != "" {
		return "", "", false
	}
	return pid, token, true
}

// encode writes a command as a line: letters, digits and a few signs stand for themselves,
// each other byte is \0 and three octal digits, which every printf's %b turns back.
func encode(b *strings.Builder, command string) {
	for i := range len(command) {
		c := command[i]
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte(safeBytes, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(b, `\0%03o`, c)
	}
	b.WriteByte('\n')
}
