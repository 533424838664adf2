// Package event holds what a front end is told while work runs: the events, their form as
// JSON, and their fan-out to readers of any speed. It knows neither who sends them nor
// who reads them.
//
// The names and members of output, step_complete and plan_complete are those of
// the tools' specification; the others are added in its manner.
package event

import "encoding/json"

// An Event is one of the types below.
type Event interface {
	// Name is the event's name, such as "step_complete".
	Name() string
}

// A Sink takes events. Publish does not wait for readers, keeps no reference to what an
// event holds after it returns, and is safe for concurrent use.
type Sink interface {
	Publish(e Event)
}

// PlanStart is a plan's beginning.
type PlanStart struct {
	PlanID  string `json:"plan_id"`
	Kind    string `json:"kind"`
	Summary string `json:"summary,omitempty"`
	Steps   int    `json:"steps"`
	Where   string `json:"where"` // "sandbox" or "host"
}

// StepStart is a step's beginning. What was judged of it is known then.
type StepStart struct {
	StepID      string `json:"step_id"`
	Index       int    `json:"index"` // from 1
	Description string `json:"description"`
	Command     string `json:"command"`
	WorkDir     string `json:"working_directory"`
	Risk        string `json:"risk"`
	Verdict     string `json:"verdict"`
	Rule        string `json:"rule"`
	Attempt     int    `json:"attempt"` // from 1
}

// Output is a piece of what a step's command wrote. Data is text: what is not UTF-8 is
// replaced, and a character is never cut in two.
type Output struct {
	StepID string `json:"step_id"`
	Stream string `json:"stream"` // "stdout" or "stderr"
	Data   string `json:"data"`
}

// StepComplete is a step's end. A step that was refused, skipped or could not be started
// ends with the code that says so and the status that names it.
type StepComplete struct {
	StepID     string `json:"step_id"`
	ExitCode   int    `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	Status     string `json:"status"` // "ok", "failed", "refused", "skipped", "timed out", "canceled"
}

// ApprovalRequested says that the work waits for a person.
type ApprovalRequested struct {
	ApprovalID string `json:"approval_id"`
	StepID     string `json:"step_id,omitempty"`
	Digest     string `json:"digest"`
	Command    string `json:"command"` // whole
	Risk       string `json:"risk"`
	Rule       string `json:"rule"`
	Why        string `json:"why"`
	ExpiresAt  string `json:"expires_at"` // RFC 3339
}

// ApprovalResolved is the answer, or that there was none in time.
type ApprovalResolved struct {
	ApprovalID string `json:"approval_id"`
	StepID     string `json:"step_id,omitempty"`
	Approved   bool   `json:"approved"`
	By         string `json:"by"`
	Reason     string `json:"reason,omitempty"`
}

// Changes says what a sandbox changed and what has become of it.
type Changes struct {
	ID      string `json:"id"`
	Work    int    `json:"work"`    // changes in the working folder
	Outside int    `json:"outside"` // and elsewhere
	Noise   int    `json:"noise"`   // of caches and temporary files
	State   string `json:"state"`   // "none", "kept", "committed", "discarded"
}

// PlanComplete is a plan's end. Changes may follow it.
type PlanComplete struct {
	Success         bool  `json:"success"`
	StepsExecuted   int   `json:"steps_executed"`
	TotalDurationMS int64 `json:"total_duration_ms"`
}

// Dropped says that a reader was too slow and that these many events, the ones with the
// numbers First to Last, did not reach it.
type Dropped struct {
	Count uint64 `json:"count"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func (PlanStart) Name() string         { return "plan_start" }
func (StepStart) Name() string         { return "step_start" }
func (Output) Name() string            { return "output" }
func (StepComplete) Name() string      { return "step_complete" }
func (ApprovalRequested) Name() string { return "approval_requested" }
func (ApprovalResolved) Name() string  { return "approval_resolved" }
func (Changes) Name() string           { return "changes" }
func (PlanComplete) Name() string      { return "plan_complete" }
func (Dropped) Name() string           { return "dropped" }
func (Progress) Name() string          { return "progress" }
func (Partial) Name() string           { return "partial" }

// Progress is how far a tool says that it has come.
type Progress struct {
	Tool    string   `json:"tool"`
	Message string   `json:"message,omitempty"`
	Done    float64  `json:"done,omitempty"`  // of Total, in the tool's own unit
	Total   *float64 `json:"total,omitempty"` // nil: not known
}

// Partial is a part of a tool's answer that is there before the rest.
type Partial struct {
	Tool string          `json:"tool"`
	Data json.RawMessage `json:"data"` // any JSON value
}
