// Package planner turns a request in words into a plan, with a language model. It builds
// the conversation, lets the model use read-only tools, bounds all of it, and checks what
// comes back: a plan it returns is one that package action has found valid, or an answer
// without commands. It runs nothing, and knows no provider.
package planner

import (
	"time"

	"airlock/internal/action"
	"airlock/internal/tool"
)

// An Ask is what a person asks for.
type Ask struct {
	Verb     Verb
	Words    string // the request; may be empty where the material or the context says it all
	Context  Context
	Material []Piece

	// Earlier is the conversation so far, from an Outcome; nil begins one.
	Earlier []Message
}

// A Verb is the kind of help that is asked for.
type Verb string

// The verbs.
const (
	Any      Verb = ""        // the model chooses what kind of answer fits
	Explain  Verb = "explain" // a text about a command or the material
	Question Verb = "ask"     // a text that answers a question
	Run      Verb = "run"     // a command or a few
	Do       Verb = "do"      // a plan
	Fix      Verb = "fix"     // commands that mend the last command's failure
)

// Answers reports whether the verb asks for a text: commands are then shown and never run.
func (v Verb) Answers() bool { return v == Explain || v == Question }

// Context is what a model is told of the person's machine with each request. What is not
// known is left out.
type Context struct {
	OS           string `json:"os"`     // kernel, release and machine: "Linux 5.15.0-generic x86_64"
	Distro       string `json:"distro"` // "Ubuntu 22.04"
	CWD          string `json:"cwd"`
	User         string `json:"user"`
	LastCommand  string `json:"last_command,omitempty"`
	LastExitCode *int   `json:"last_exit_code,omitempty"`
	LastStderr   string `json:"last_stderr,omitempty"`
}

// A Piece is material: text from a file, a pipe or a command. Whatever it says, it is never
// an instruction of the person's.
type Piece struct {
	Kind PieceKind `json:"kind"`
	Name string    `json:"name"` // a path, or what else names it for a person
	Text string    `json:"text"`
	Note string    `json:"note,omitempty"` // what the model has to know of how the text came to be, such as that it was cut
}

// A PieceKind says where a piece comes from.
type PieceKind string

// The kinds of pieces.
const (
	FromPipe         PieceKind = "stdin"
	FromFile         PieceKind = "file"
	FromInstructions PieceKind = "instructions" // a project's AGENTS.md
	FromFailure      PieceKind = "failure"      // a step that failed, with its output
	FromShell        PieceKind = "shell"        // what the last command wrote, where that was had in another way than by the hook
)

// An Outcome is what an Ask came to.
type Outcome struct {
	Plan *action.Plan // valid; of an Ask whose verb Answers, without steps

	// Proposed are commands that came with an answer to an Ask that asks for text alone:
	// they are shown, never run.
	Proposed []action.Step

	// Invalid is what was wrong with the last answer where it could not be mended: Plan is
	// then an answer with the model's text.
	Invalid []action.Problem

	Model    Info
	Usage    Usage
	Requests int   // how often the model was asked
	Uses     []Use // of tools, in order

	// Messages are the conversation, for the next Ask's Earlier.
	Messages []Message
}

// A Use is a model's use of a tool.
type Use struct {
	Call  tool.Call
	OK    bool
	Bytes int    // of what the tool wrote, as the model got it
	Cut   bool   // the result was longer
	Why   string // it is not OK: one printable line
}

// Limits bound an Ask. The zero value of a member means its default.
type Limits struct {
	Time      time.Duration // all in all; 5 minutes
	Rounds    int           // answers with calls of tools; 8
	Calls     int           // of tools; 24
	ToolBytes int           // of one tool's result; 32 KiB
	AllBytes  int           // of all tools' results together; 128 KiB
	Retries   int           // after a fault that may pass; 2
	MaxWait   time.Duration // before one of them; 30 seconds
}

// Progress is told while an Ask is worked on: one of the types below.
type Progress interface{ progress() }

type (
	// Asked says that a request was sent; Round counts from 1.
	Asked struct{ Round int }
	// Thinking says that the model thinks before it writes.
	Thinking struct{}
	// Drafted is what can be read of the answer so far. Nothing of it has been checked.
	Drafted struct {
		Summary string
		Steps   []action.Step // complete ones
		Text    string        // the answer itself, where it is no JSON
	}
	// Using says that a tool is called.
	Using struct{ Call tool.Call }
	// Used says what came of it.
	Used struct{ Use Use }
	// Retrying says that a request is sent again after a while, and why.
	Retrying struct {
		After time.Duration
		Err   *Error
	}
	// Mending says that the answer was no valid plan, and that the model is asked once more.
	Mending struct{ Problems []action.Problem }
	// Lowered says that the endpoint lacks a Feature, and what Format is asked for from
	// now on: the same one where it was tools, or the choice of one, that are done without.
	Lowered struct {
		From, To Format
		Feature  Feature
	}
)

func (Asked) progress()    {}
func (Thinking) progress() {}
func (Drafted) progress()  {}
func (Using) progress()    {}
func (Used) progress()     {}
func (Retrying) progress() {}
func (Mending) progress()  {}
func (Lowered) progress()  {}
