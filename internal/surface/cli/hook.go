package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"airlock/internal/shellhook"
)

const hookText = `The hook lets airlock ai know your last command and its exit code, so that airlock ai fix
has something to fix, and lets it put the commands it ran into your shell's history. It
starts no program and writes no file at a prompt, and tells no program but airlock.

Add a line to your shell's own settings, and start a new shell:

  ~/.bashrc                   eval "$(airlock hook bash)"
  ~/.zshrc                    eval "$(airlock hook zsh)"
  ~/.config/fish/config.fish  airlock hook fish | source

It belongs at the end of the file, after what sets up the prompt. To take it out, remove
the line. Where no command ai exists, or it is a link to airlock, the hook makes one that is
airlock ai.`

func (p *Program) hookCmd() *cobra.Command {
	return &cobra.Command{
		Use:       "hook [bash|zsh|fish]",
		Short:     "Print what lets your shell tell airlock ai of the last command",
		Long:      hookText,
		ValidArgs: shellhook.Shells(),
		Args:      takes(0, 1, "airlock hook wants one shell: "+strings.Join(shellhook.Shells(), ", ")),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := fmt.Fprintln(p.Stdout, hookText)
				return err
			}
			exe, err := ownPath()
			if err != nil {
				return fail(exitFailed, fmt.Errorf("find this program's own path: %w", err))
			}
			script, err := shellhook.Script(args[0], exe, &shellhook.Options{Environ: os.Getenv})
			switch {
			case errors.Is(err, shellhook.ErrShell):
				return usage("there is no hook for %s; there is one for %s", printable(args[0]), strings.Join(shellhook.Shells(), ", "))
			case err != nil:
				return fail(exitFailed, err)
			}
			_, err = fmt.Fprint(p.Stdout, script)
			return err
		},
	}
}

// ownPath is this program's path: the one by which PATH finds it, which a new version is
// likely to have too, else where it lies.
func ownPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	found, err := exec.LookPath("airlock")
	if err != nil || !filepath.IsAbs(found) {
		return exe, nil
	}
	a, err := os.Stat(found)
	if err != nil {
		return exe, nil
	}
	if b, err := os.Stat(exe); err != nil || !os.SameFile(a, b) {
		return exe, nil
	}
	return found, nil
}
