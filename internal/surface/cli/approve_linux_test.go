package cli_test

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"airlock/internal/gate"
	"airlock/internal/surface/cli"
	"airlock/internal/tool"
)

// TestApprovingOnATerminal: what was typed before the question is no answer to it, and an
// end of waiting ends the question.
func TestApprovingOnATerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	defer master.Close()
	defer slave.Close()
	screen := bufio.NewReader(master)
	until := func(text string) {
		t.Helper()
		seen := ""
		for !strings.Contains(seen, text) {
			c, err := screen.ReadByte()
			if err != nil {
				t.Fatalf("the terminal ended (%v) after %q", err, seen)
			}
			seen += string(c)
		}
	}
	typed := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	a := cli.NewTerminal(slave, slave)
	type outcome struct {
		answer gate.Answer
		err    error
	}
	ask := func(ctx context.Context) chan outcome {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // a test that fails must end
		t.Cleanup(cancel)
		done := make(chan outcome, 1)
		go func() {
			answer, err := a.Approve(ctx, request(tool.RiskDestructive, "rm -rf x"))
			done <- outcome{answer, err}
		}()
		return done
	}

	typed("yes\n") // ahead of the question
	until("yes")
	done := ask(t.Context())
	until("Let it run?")
	typed("\n")
	if o := <-done; o.err != nil || o.answer.Approved {
		t.Errorf("Approve = %+v, %v: what was typed ahead counted", o.answer, o.err)
	}

	done = ask(t.Context())
	until("Let it run?")
	typed("yes\n")
	if o := <-done; o.err != nil || !o.answer.Approved {
		t.Errorf("Approve = %+v, %v, want approved", o.answer, o.err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done = ask(ctx)
	until("Let it run?")
	cancel()
	if o := <-done; !errors.Is(o.err, context.Canceled) || o.answer.Approved {
		t.Errorf("Approve = %+v, %v, want %v", o.answer, o.err, context.Canceled)
	}

	// Two questions at once: the second is shown when the first has its answer.
	first, second := ask(t.Context()), ask(t.Context())
	until("Let it run?")
	typed("n\n")
	until("Let it run?")
	typed("yes\n")
	x, y := <-first, <-second
	if x.err != nil || y.err != nil || x.answer.Approved == y.answer.Approved {
		t.Errorf("two questions: %+v and %+v, want one of each", x, y)
	}
}
