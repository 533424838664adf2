// Package acp runs a program that speaks the Agent Client Protocol as one call of a tool: it
// is the client's side of one session with one turn. docs/bridge.md, "ACP agents", is the
// contract.
//
// The program is trusted with nothing. What it says is bounded before it is read; what it
// asks leave for is judged by the gate as the calls that it is for; what it reads, writes
// and runs through the protocol is done in a sandbox. What it does by itself, without
// asking, is a matter of where it runs.
//
// The package knows neither the gate nor how a sandbox is made.
package acp

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/internal/tool"
	"airlock/internal/tool/bridge/proc"
)

const (
	// grace is how long an agent is left alone after it was told that its turn is over, by
	// session/cancel or by the end of its input.
	grace = 2 * time.Second

	// maxMessage is the longest message there is, in bytes: the SDK takes no longer line.
	maxMessage = 10<<20 - 2
)

// A Session is one call of an agent: a prompt, and what its answer is made with.
type Session struct {
	Tool      string // the tool's name
	Call      string // the call's ID, for the log
	Workspace string // absolute, links resolved; where the agent works
	Prompt    string
	Files     []string // named to the agent: in the workspace, relative to it or absolute

	// Where is where the agent runs, and Back how it reaches back. With a nil Back
	// everything that it asks for is refused.
	Where tool.Where
	Back  tool.Back

	Log *slog.Logger // nil discards
}

// schema is of a call's arguments.
const schema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["prompt"],
  "properties": {
    "prompt": {
      "type": "string",
      "minLength": 1,
      "maxLength": 1048576,
      "description": "What the agent is to do."
    },
    "files": {
      "type": "array",
      "maxItems": 1000,
      "items": {"type": "string", "minLength": 1, "maxLength": 4096},
      "description": "Files in the workspace that are named to the agent: relative to it, or absolute."
    }
  }
}`

// Schema is the JSON Schema (draft-07) of what such a tool takes: prompt, and files.
func Schema() json.RawMessage { return json.RawMessage(schema) }

// Do runs an agent for one turn and ends it. Of the run, Params.Stdin and Params.Input are
// not used, MaxOutput bounds one message of the agent's, and no Grace is two seconds.
//
// The document is the answer, whatever the Outcome says of the process, which is ended once
// it has answered. It is nil where the Outcome alone says what happened: the process was not
// started, failed before it answered, took too long, printed too much, or the call was
// canceled. Then the Outcome's Stdout is what text there was.
//
// Do returns after ctx's end within the time that the process is given to end, and leaves
// nothing running: no process, no command of a terminal's, no goroutine of its own.
func Do(ctx context.Context, r *proc.Run, s *Session) (proc.Outcome, json.RawMessage) {
	blocks, err := s.blocks()
	if err != nil {
		return proc.Outcome{}, failure("Validation error: "+err.Error(), nil)
	}
	run := *r
	if run.Grace <= 0 {
		run.Grace = grace
	}
	run.Params.Stdin, run.Params.Input = "", false

	c := newClient(s, int(min(max(r.MaxOutput, 1), maxMessage)))
	work, stop := context.WithCancel(ctx) // what is done on the agent's behalf
	defer stop()
	conn := sdk.NewConnection(func(asked context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
		defer c.in.handled(len(params))
		one, done := context.WithCancel(work)
		defer done()
		defer context.AfterFunc(asked, done)()
		return c.handle(one, method, params)
	}, c.out, c.in)
	conn.SetLogger(slog.New(slog.DiscardHandler)) // it would log whole messages

	p, err := run.Start(ctx, c.out, c.in)
	if err != nil {
		c.in.close()
		c.out.abort()
		<-conn.Done()
		return proc.Outcome{Err: err}, nil
	}
	l := &life{client: c, conn: conn, proc: p, stop: stop, grace: run.Grace}
	return l.run(ctx, blocks)
}
