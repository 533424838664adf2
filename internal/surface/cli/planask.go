package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"airlock/internal/action"
	"airlock/internal/executor"
)

// interactive reports whether there is a person who sees what is said and can answer.
func (p *Program) interactive() bool {
	in, ok := p.Stdin.(*os.File)
	return ok && isTerminal(p.Stdin) && isTerminal(p.Stderr) && ours(in)
}

// errNoAnswer is the end of the input in place of an answer.
var errNoAnswer = errors.New("there was no answer")

// choose asks until one of the words of answers is given, and gives what that stands for.
func (p *Program) choose(ctx context.Context, question string, answers map[string]string, help string) (string, error) {
	for {
		line, err := p.line(ctx, question)
		if err != nil {
			return "", err
		}
		word := strings.ToLower(strings.TrimSpace(line))
		if meaning, ok := answers[word]; ok {
			return meaning, nil
		}
		if word != "" {
			fmt.Fprintln(p.Stderr, help)
		}
	}
}

// line asks for a line. What was typed before the question is no answer to it.
func (p *Program) line(ctx context.Context, question string) (string, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	in, done := answers(ctx, p.Stdin)
	defer done()
	fmt.Fprint(p.Stderr, question)
	line, err := bufio.NewReader(io.LimitReader(in, maxAnswer)).ReadString('\n')
	if err != nil {
		fmt.Fprintln(p.Stderr)
		return "", errors.Join(errNoAnswer, ctx.Err())
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// maxAnswer bounds what is read as one answer.
const maxAnswer = 128 << 10

// planHelper is what a plan's run asks: a person, or only what --set said.
type planHelper struct {
	p      *Program
	values map[string]string
	asking bool
	screen *planScreen
	guide  *aiGuide // nil: no model made the plan
}

// Fill gives values for placeholders: those that are known, and a person's.
func (h *planHelper) Fill(ctx context.Context, step action.Step, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, hole := range names {
		name := bare(hole)
		value, ok := h.values[name]
		if !ok && h.asking {
			h.screen.settle()
			fmt.Fprintf(h.p.Stderr, "\nStep %s: %s\n  $ %s\n", printable(step.ID), printable(step.Description), indented(step.ShellCommand))
			var err error
			if value, err = h.p.line(ctx, "  "+printable(name)+" = "); err != nil {
				return nil, err
			}
			ok = value != ""
		}
		if ok {
			out[hole] = value
			h.values[name] = value // the same name means the same everywhere
		}
	}
	return out, nil
}

// Failed asks what to do about a step. Without a person it ends the plan.
func (h *planHelper) Failed(ctx context.Context, step action.Step, res *executor.StepResult) (executor.Remedy, error) {
	if !h.asking || h.screen.ending() {
		return executor.Remedy{}, nil
	}
	h.screen.settle()
	fmt.Fprintf(h.p.Stderr, "\nStep %s %s.\n", printable(step.ID), how(res))
	question, answers, help := "[r]etry  [e]dit  [s]kip  [q] stop ? ", map[string]string{
		"r": "retry", "retry": "retry", "e": "edit", "edit": "edit", "s": "skip", "skip": "skip", "q": "stop", "stop": "stop",
	}, "r runs the step again, e changes its command first, s goes on with the next step, q ends the plan here."
	if h.guide != nil {
		question = strings.Replace(question, "[q]", "[m]odel: ask what to do  [q]", 1)
		answers["m"], answers["model"] = "model", "model"
		help += " m sends the step and what it wrote to the model, and runs what it proposes instead."
	}
	answer, err := h.p.choose(ctx, question, answers, help)
	h.screen.forgetSignals()
	if errors.Is(err, errNoAnswer) {
		return executor.Remedy{}, nil
	}
	if err != nil {
		return executor.Remedy{}, err
	}
	switch answer {
	case "retry":
		return executor.Remedy{Do: executor.Retry}, nil
	case "skip":
		return executor.Remedy{Do: executor.Skip}, nil
	case "model":
		steps, err := h.guide.mend(ctx, step, res)
		h.screen.forgetSignals()
		if err != nil {
			h.p.complain(err)
		}
		if len(steps) == 0 {
			return h.Failed(ctx, step, res)
		}
		return executor.Remedy{Do: executor.Replace, Steps: steps}, nil
	case "edit":
		command, err := h.p.edit(ctx, res.Command)
		if err != nil {
			h.p.complain(err)
			return h.Failed(ctx, step, res)
		}
		return executor.Remedy{Do: executor.Edit, Command: command}, nil
	}
	return executor.Remedy{}, nil
}

// edit lets a person change a command: in $VISUAL or $EDITOR, else on a line of its own.
func (p *Program) edit(ctx context.Context, command string) (string, error) {
	if editor() == "" {
		fmt.Fprintf(p.Stderr, "  was  %s\n", indented(command))
		line, err := p.line(ctx, "  now  ")
		if err == nil && strings.TrimSpace(line) == "" {
			err = errors.New("the command is empty; nothing was changed")
		}
		return line, err
	}
	text, err := p.editText(ctx, "airlock-step-*.sh", command+"\n")
	text = strings.TrimRight(text, "\r\n")
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("the command is empty; nothing was changed")
	}
	return text, err
}

// editor is the person's; "" where none is set.
func editor() string {
	if editor := os.Getenv("VISUAL"); editor != "" {
		return editor
	}
	return os.Getenv("EDITOR")
}

// editText lets a person change a text in $VISUAL or $EDITOR, or in vi. pattern is for the
// name of the file it is in meanwhile.
func (p *Program) editText(ctx context.Context, pattern, text string) (string, error) {
	editor := editor()
	if editor == "" {
		if _, err := exec.LookPath("vi"); err != nil {
			return "", errors.New("there is no editor: set EDITOR")
		}
		editor = "vi"
	}
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	// A Ctrl-C is the editor's: it must not end what the editor is open for.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	// The variable may hold options, as everybody's does who wants an editor to wait.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stderr, p.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the editor %s: %w", printable(editor), err)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	return string(data), nil
}
