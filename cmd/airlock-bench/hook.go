package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"
)

// hookPrompts is how many prompts are counted, without the ones before, in which a shell
// reads what it needs.
const hookPrompts = 1000

// hookFigures are what a prompt costs with the hook beside one without, in each shell that
// is here: lines that do nothing, on a terminal, until the shell has shown all its prompts.
func hookFigures(ctx context.Context, b *bed) ([]figure, error) {
	var figures []figure
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			figures = append(figures, figure{name: "a prompt of " + shell + " with the hook", ours: "not here", met: true})
			continue
		}
		script, err := exec.CommandContext(ctx, b.airlock, "hook", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("airlock hook %s: %w", shell, err)
		}
		var with, without, more []time.Duration
		for range min(b.rounds, 5) {
			plain, err := promptTime(ctx, b, shell, path, nil)
			if err != nil {
				return nil, err
			}
			hooked, err := promptTime(ctx, b, shell, path, script)
			if err != nil {
				return nil, err
			}
			with, without, more = append(with, hooked), append(without, plain), append(more, hooked-plain)
		}
		const bar = 5 * time.Millisecond
		extra := median(more)
		figures = append(figures, figure{
			name: fmt.Sprintf("a prompt of %s with the hook, of %d", shell, hookPrompts), ours: micros(median(with)), peer: micros(median(without)) + " without",
			ratio: fmt.Sprintf("%+d µs", extra.Microseconds()), bar: "≤ 5 ms more", met: extra <= bar,
		})
	}
	return figures, nil
}

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// promptTime is what a line and its prompt take in a shell with these settings.
func promptTime(ctx context.Context, b *bed, shell, path string, script []byte) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	home, err := os.MkdirTemp(b.dir, shell)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(home, map[string]string{"bash": "rc", "zsh": ".zshrc", "fish": "fish/config.fish"}[shell])
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, script, 0o600)); err != nil {
		return 0, err
	}
	args := map[string][]string{"bash": {"--rcfile", file, "-i"}, "zsh": {"-d", "-i"}, "fish": {"-i"}}[shell]
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "LANG=C.UTF-8", "ZDOTDIR=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home,
	}
	tty, err := pty.Start(cmd)
	if err != nil {
		return 0, err
	}
	defer func() {
		tty.Close()
		_ = cmd.Wait() // its terminal is gone
	}()
	var seen strings.Builder
	until := func(mark string) error {
		buf := make([]byte, 64<<10)
		for !strings.Contains(seen.String(), mark) {
			n, err := tty.Read(buf)
			if err != nil {
				return fmt.Errorf("%s has ended: %w: %q", shell, err, seen.String())
			}
			seen.Write(buf[:n])
		}
		seen.Reset()
		return nil
	}
	// Each line is typed when the one before has been answered, as by a person.
	line := func(i int) error {
		mark := strconv.Itoa(i)
		if _, err := fmt.Fprintf(tty, "echo m''%s.\n", mark); err != nil {
			return err
		}
		return until("m" + mark + ".")
	}
	var start time.Time
	for i := range hookPrompts + 20 {
		if i == 20 {
			start = time.Now()
		}
		if err := line(i); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / hookPrompts, nil
}
