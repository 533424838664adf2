package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"airlock/internal/tool"
)

const (
	maxQuestion = 4 << 10 // bytes that are shown of a tool's question
	maxTyped    = 64 << 10
)

// Ask puts a tool's question. All that comes from the tool is marked, so that it cannot
// pass for one of Airlock's own, and no answer to it approves anything.
func (a *Terminal) Ask(ctx context.Context, p *tool.Prompt) (string, error) {
	asking, in, width, done, ok := a.begin(ctx)
	defer done()
	switch {
	case !ok:
		return "", tool.ErrNobody
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	answer, ok := askPrompt(in, a.out, p, width)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case asking.Err() != nil, !ok:
		return "", tool.ErrNobody
	}
	return answer, nil
}

// askPrompt asks until there is an answer that is one; false at the end of the input, or
// where there is none too often.
func askPrompt(in io.Reader, out io.Writer, p *tool.Prompt, width int) (string, bool) {
	fmt.Fprintf(out, "\nairlock: %s asks:\n\n", printable(p.Tool))
	text := p.Question
	if len(text) > maxQuestion {
		text = strings.ToValidUTF8(text[:maxQuestion], "") + "…"
	}
	showMarked(out, printableLines(text), width)
	for i, choice := range p.Choices {
		showMarked(out, fmt.Sprintf("%d  %s", i+1, cut(printable(choice), 200)), width)
	}
	fmt.Fprintln(out)
	lines := bufio.NewReader(io.LimitReader(in, maxTyped))
	for range askings {
		fmt.Fprint(out, promptFor(p))
		line, err := lines.ReadString('\n')
		if err != nil { // what was typed without Enter is not an answer
			fmt.Fprintln(out)
			return "", false
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" && p.Default != "" {
			line = p.Default
		}
		if answer, ok := chosen(p.Choices, line); ok {
			return answer, true
		}
		fmt.Fprintf(out, "One of the %d answers is wanted, or its number.\n", len(p.Choices))
	}
	return "", false
}

func promptFor(p *tool.Prompt) string {
	if p.Default == "" {
		return "Your answer to " + printable(p.Tool) + ": "
	}
	return fmt.Sprintf("Your answer to %s [%s]: ", printable(p.Tool), cut(printable(p.Default), 60))
}

// chosen is the choice that a line means, or the line where there are none.
func chosen(choices []string, line string) (string, bool) {
	if len(choices) == 0 || slices.Contains(choices, line) {
		return line, true
	}
	if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && n >= 1 && n <= len(choices) {
		return choices[n-1], true
	}
	for _, c := range choices {
		if strings.EqualFold(c, strings.TrimSpace(line)) {
			return c, true
		}
	}
	return "", false
}
