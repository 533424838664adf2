package tool

import (
	"context"
	"errors"

	"airlock/internal/event"
)

// A Back is how a tool that runs reaches back to who called it: with the rights of its own
// call, and no more. It is safe for concurrent use, and its methods return soon after
// ctx is done, which is never later than the end of the call.
type Back interface {
	// Call makes a call where the running tool's own call is made: it is checked, judged,
	// asked about and recorded as every call is. What a person consented to for the running
	// tool is not handed on. A call made in a sandbox makes none on the host. What is
	// refused, or nested too deep, is a Result with PERMISSION_DENIED.
	Call(ctx context.Context, call Call) Result

	// Admit is for what a tool does itself, on behalf of what it talks to: it lets a call
	// pass or not, made there, as Guard.Admit does, and records that. done, which is not nil
	// where the error is, records what came of it and is to be called once.
	Admit(ctx context.Context, where Where, call Call) (done func(Result), err error)

	// Sandbox is a machine that is a sandbox, for work that is not to be done on the host:
	// the call's own where it is one, else one laid over the call's working folder, which
	// is made when it is first asked for. What is changed there becomes the call's changes.
	Sandbox(ctx context.Context) (*Machine, error)

	// Ask puts a question to the person; ErrNobody where there is none to ask.
	Ask(ctx context.Context, p *Prompt) (string, error)

	// Publish tells who watches, such as event.Progress. It waits for nobody.
	Publish(e event.Event)
}

// ErrNobody is a question that there is nobody to put to.
var ErrNobody = errors.New("there is nobody to ask")

// A Prompt is a question of a tool's to the person. All of it comes from the tool, and is
// shown as such.
type Prompt struct {
	Tool     string   // who asks
	Question string   // text of any characters: who shows it makes them harmless
	Choices  []string // the answers there are; none: free text
	Default  string   // what an empty answer means; "" is no default
}

// An Asker puts tools' questions to a person. It is safe for concurrent use.
type Asker interface {
	// Ask returns the answer: one of the choices where there are any. The error is ErrNobody
	// where nobody can be asked or nobody answers, ctx's when it ends first.
	Ask(ctx context.Context, p *Prompt) (string, error)
}

// A Preparer is a tool that knows more of its arguments than a schema can say.
type Preparer interface {
	// Prepare gives the call as it will be made, with defaults in it and what must not be in
	// it taken out, or says in a Result that is not OK what is wrong with it. The gate is
	// asked about what it returns. It starts nothing, and prepares what it has prepared to
	// the same. The action of call is named, and its arguments match the schema.
	Prepare(call Call) (Call, *Result)
}
