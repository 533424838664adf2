package shellhook

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Last is the last command of the shell that started this process.
type Last struct {
	Command  string // at most 8 KiB of valid UTF-8; "" where it is not known
	ExitCode *int   // nil where it is not known
	Stderr   string // at most 8 KiB: what it wrote; of a terminal's screen that is stdout too
	Source   string // how Stderr was had: "tmux", "kitty", "wezterm"; "" for not at all
}

// Read reads what the shell and its terminal tell of the last command. The terminal is asked
// only where there is a command, and for 300 milliseconds at most; ctx ends that sooner. What
// cannot be had is left out.
func Read(ctx context.Context, environ func(string) string) Last { return read(ctx, askTime, environ) }

// read is Read with another time for the terminal.
func read(ctx context.Context, wait time.Duration, environ func(string) string) Last {
	var last Last
	if !slices.Contains(Shells(), environ(varShell)) {
		return last
	}
	shell, line := environ(varShell), environ(varLine)
	if line != "" {
		switch got := before(shell, line); got.place {
		case placeUnknown:
			return last
		case placeAfter:
			last.Command = clean(got.command)
			if !got.unsure && last.Command != "" {
				last.ExitCode = exitCode(environ(varBefore))
			}
			last.Stderr, last.Source = screen(ctx, wait, environ, func(text string) string { return after(text, line) })
			return last
		case placeAlone:
		}
	}
	last.Command = clean(environ(varCommand))
	if last.Command == "" {
		return last
	}
	last.ExitCode = exitCode(environ(varCode))
	if got := before(shell, last.Command); got.place == placeAfter {
		// That line called airlock too: what it called it for is still the last command. What
		// stands on the screen below is airlock's.
		last.Command = clean(got.command)
		if got.unsure || got.piped {
			last.ExitCode = nil
		}
		return last
	}
	last.Stderr, last.Source = screen(ctx, wait, environ, func(text string) string { return Output(text, last.Command) })
	return last
}

func clean(command string) string {
	return strings.TrimRight(bounded(command, maxCommand), " \t\r\n")
}

// exitCode reads what shells write: 0 to 255 in decimal, without anything else.
func exitCode(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 255 || strconv.Itoa(n) != s {
		return nil
	}
	return &n
}

// bounded makes text valid and cuts it to n bytes, between characters.
func bounded(s string, n int) string {
	if len(s) > n+utf8.UTFMax { // no more than needed is looked at
		s = s[:n+utf8.UTFMax]
	}
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
