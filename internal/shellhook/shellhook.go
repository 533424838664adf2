// Package shellhook is what a person's shell and airlock tell each other: a script for the
// shell, which gives airlock the last command, its exit code and a place to leave lines for
// the shell's history, and the reading of what the shell gave. It imports nothing of ours.
//
// The shell gives what it knows in variables of the one airlock process that it starts; no
// other program sees them. Their values are input from outside: they are bounded, made
// valid and never evaluated, here and in the shell.
package shellhook

import (
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// The variables in which the shell gives what it knows.
const (
	varShell   = "AIRLOCK_SHELL"           // bash, zsh or fish
	varPID     = "AIRLOCK_SHELL_PID"       // the shell's process
	varCommand = "AIRLOCK_LAST_COMMAND"    // the last command line; unset where there is none
	varCode    = "AIRLOCK_LAST_EXIT_CODE"  // its exit code
	varLine    = "AIRLOCK_LINE"            // the command line that calls airlock; unset where it is not known
	varBefore  = "AIRLOCK_LINE_EXIT_CODE"  // what $? was in it when it did
	varHistory = "AIRLOCK_SHELL_HISTORY"   // the name of the file that the shell reads lines for its history from
	maxCommand = 8 << 10                   // bytes of a last command
	maxStderr  = 8 << 10                   // bytes of what it wrote
	maxEntry   = 32 << 10                  // bytes of a command for the history
	maxEntries = 100                       // commands for the history at once
	filePrefix = "history-"                // and the shell's process and a token follow
	folderBits = 0o700                     // of the folder of such files
	fileBits   = 0o600                     // of such a file
	tokenBytes = 8                         // that make a file's name of the shell's own
	safeBytes  = "/._-=:,@+~^[]{}()<>|&; " // beside letters and digits, bytes that stand for themselves in an entry
)

//go:embed hook.bash
var bashScript string

//go:embed hook.zsh
var zshScript string

//go:embed hook.fish
var fishScript string

// ErrShell says that there is no script for a shell.
var ErrShell = errors.New("there is no hook for this shell")

// Options are a script's. Nil is valid.
type Options struct {
	// Environ gives the environment, whose variables say where the person's files are. Nil
	// makes a script that takes no lines for the history.
	Environ func(string) string
}

// Shells are the shells that there is a script for.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Script gives what a shell is to evaluate when it starts. airlock is the absolute path of
// the program that the script is to start. An error is ErrShell for a shell that Shells
// does not list.
func Script(shell, airlock string, opts *Options) (string, error) {
	var text string
	quoted := quotePOSIX
	switch shell {
	case "bash":
		text = bashScript
	case "zsh":
		text = zshScript
	case "fish":
		text, quoted = fishScript, quoteFish
	default:
		return "", fmt.Errorf("%w: %q", ErrShell, shell)
	}
	if !filepath.IsAbs(airlock) || strings.ContainsRune(airlock, 0) {
		return "", fmt.Errorf("the program's path %q is not absolute", airlock)
	}
	var dir, token string
	if opts != nil && opts.Environ != nil {
		dir = folder(opts.Environ)
		var random [tokenBytes]byte
		_, _ = rand.Read(random[:]) // never fails
		token = hex.EncodeToString(random[:])
	}
	return strings.NewReplacer("@AIRLOCK@", quoted(airlock), "@FOLDER@", quoted(dir), "@TOKEN@", token).Replace(text), nil
}

// quotePOSIX quotes a word for bash and zsh.
func quotePOSIX(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteFish quotes a word for fish.
func quoteFish(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// folder is where the files of shells are; "" where there is no place for them.
func folder(environ func(string) string) string {
	for _, place := range []struct{ variable, below string }{
		{"XDG_RUNTIME_DIR", "airlock"},
		{"AIRLOCK_HOME", "shell"},
		{"XDG_STATE_HOME", "airlock/shell"},
		{"HOME", ".local/state/airlock/shell"},
	} {
		if dir := environ(place.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, place.below)
		}
	}
	return ""
}
