package manager

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

// ErrUnreadable is what Changes.Expired wraps when trying again is of no use.
var ErrUnreadable = errors.New("it cannot be read as changes")

// NotFound: nothing has that name.
type NotFound struct {
	What string // "sandbox", "snapshot", "template"
	Name string
}

func (e *NotFound) Error() string {
	return fmt.Sprintf("there is no %s %q; %s", e.What, e.Name, map[string]string{
		"sandbox":  "airlock sandbox list --all shows those there are",
		"snapshot": "airlock sandbox snapshots shows those there are",
		"template": "airlock template list shows those there are",
	}[e.What])
}

// Ambiguous: several sandboxes' IDs begin that way.
type Ambiguous struct {
	Prefix string
	IDs    []string
}

func (e *Ambiguous) Error() string {
	const most = 10
	ids, rest := e.IDs, ""
	if len(ids) > most {
		rest = fmt.Sprintf(" and %d more", len(ids)-most)
		ids = ids[:most]
	}
	return fmt.Sprintf("%q is the beginning of several sandboxes' IDs: %s%s", e.Prefix, strings.Join(ids, ", "), rest)
}

// Gone: the sandbox has ended.
type Gone struct {
	ID     string
	Reason string
	Text   string // more of it; may be empty
}

func (e *Gone) Error() string {
	text := fmt.Sprintf("sandbox %s has ended: %s", e.ID, ReasonText(e.Reason))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Busy: another command has not ended what it does with the same thing.
type Busy struct {
	What string // "sandbox ID", "snapshot NAME"
	Verb string // what it does; "" if that is not known
	PID  int    // 0: not known
	Wait time.Duration
}

func (e *Busy) Error() string {
	verb, who := "something", ""
	if e.Verb != "" {
		verb = e.Verb
	}
	if e.PID > 0 {
		who = fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("%s: another command does %s with it%s and did not end within %s; try again when it has", e.What, verb, who, e.Wait)
}

// A Problem is a request that cannot be met as it is. Its text says what to change.
type Problem struct{ Text string }

func (e *Problem) Error() string { return e.Text }

func problem(format string, args ...any) error { return &Problem{fmt.Sprintf(format, args...)} }

// ReasonText is a reason as a person reads it.
func ReasonText(reason string) string {
	text, ok := map[string]string{
		Removed: "it was removed", Expired: "its time was over", Idle: "it was idle for too long",
		OutOfMemory: "it passed its memory limit", Killed: "its keeper or engine was ended from outside",
		Failed: "it could not be made",
	}[reason]
	if !ok {
		return "nothing says why"
	}
	return text
}

// Reason is what an error of Lasting.Err means.
func Reason(err error) string {
	switch {
	case err == nil:
		return Removed
	case errors.Is(err, sandbox.ErrOutOfMemory):
		return OutOfMemory
	case errors.Is(err, sandbox.ErrExpired):
		return Expired
	}
	return Killed
}
