// Package action is the AiAction: what a model proposes, or a person writes down, to be
// run. It parses and checks plans; it knows nothing of who runs them.
package action

// A Plan is an AiAction.
type Plan struct {
	Kind    Kind   `json:"kind"`
	Summary string `json:"summary,omitempty"`
	Steps   []Step `json:"steps,omitempty"`
}

// A Kind says what sort of answer a plan is.
type Kind string

// The kinds.
const (
	AnswerOnly      Kind = "answer_only"       // text, no commands
	CommandSequence Kind = "command_sequence"  // one or more commands
	PlanAndCommands Kind = "plan_and_commands" // several steps
)

// A Step is one command of a plan.
type Step struct {
	ID                string `json:"id"` // unique in its plan
	Description       string `json:"description"`
	ShellCommand      string `json:"shell_command"`
	NeedsConfirmation bool   `json:"needs_confirmation,omitempty"`
	IsDestructive     bool   `json:"is_destructive,omitempty"`
	RequiresSudo      bool   `json:"requires_sudo,omitempty"`
	WorkingDirectory  string `json:"working_directory,omitempty"` // relative to the plan's folder, or absolute; "" is the plan's folder
}
