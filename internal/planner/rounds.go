package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"airlock/internal/tool"
)

// ask gets the next answer: without what the endpoint turns out not to have, and once more
// after a fault that passes.
func (c *conversation) ask(ctx context.Context, round int) (*Answer, error) {
	for retries := 0; ; {
		req := c.p.request(c.messages, c.last)
		c.watch(Asked{Round: round})
		c.out.Requests++
		answer, err := c.answer(ctx, req)
		if err == nil {
			return answer, nil
		}
		fault := c.p.asError(ctx, err)
		if ctx.Err() != nil {
			return nil, fault
		}
		if fault.Fault == FaultUnsupported {
			lowered, ok := c.p.lower(fault, req)
			if !ok {
				return nil, fault
			}
			c.watch(lowered)
			continue
		}
		if fault.Fault == FaultTooLong && fault.Mend == "" {
			shorter := *fault
			shorter.Mend = "hand in less, begin a new conversation, or take a model with a larger window"
			fault = &shorter
		}
		if err := c.again(ctx, fault, &retries); err != nil {
			return nil, err
		}
	}
}

// answer asks once.
func (c *conversation) answer(ctx context.Context, req *Request) (*Answer, error) {
	d := newDrafts(c.watch)
	answer, err := c.p.model.Answer(ctx, req, d.add)
	if err != nil {
		return nil, err
	}
	d.flush()
	c.out.Usage.Add(answer.Usage)
	size := len(answer.Text)
	for _, call := range answer.Calls {
		size += len(call.Args)
	}
	if size > maxAnswer {
		return nil, &Error{Fault: FaultTooBig, Endpoint: c.p.info.Endpoint, Text: fmt.Sprintf("the answer has %d bytes, at most %d are taken", size, maxAnswer)}
	}
	return answer, nil
}

// again waits until the request may be sent once more. The error is the fault, where it is
// not to be, and ctx's.
func (c *conversation) again(ctx context.Context, fault *Error, retries *int) error {
	passing := false
	switch fault.Fault {
	case FaultBusy, FaultServer, FaultUnreachable, FaultTimeout, FaultCut:
		passing = fault.Again
	}
	if !passing || *retries >= c.p.limits.Retries {
		return fault
	}
	wait := fault.RetryAfter
	if wait > c.p.limits.MaxWait {
		later := *fault
		later.Mend = fmt.Sprintf("it takes requests again in %s", wait.Round(time.Second))
		return &later
	}
	if wait <= 0 {
		wait = time.Second
		for range *retries {
			wait *= 3
		}
		wait += rand.N(wait / 4)
		wait = min(wait, c.p.limits.MaxWait)
	}
	*retries++
	c.watch(Retrying{After: wait, Err: fault})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &Error{Fault: FaultCanceled, Endpoint: c.p.info.Endpoint, Err: ctx.Err()}
	}
}

// useTools answers the calls of an answer, one after another.
func (c *conversation) useTools(ctx context.Context, a *Answer) error {
	c.rounds++
	said := c.said(a)
	back := Message{Role: User}
	for i := range a.Calls {
		r, failed, err := c.useTool(ctx, &a.Calls[i])
		if err != nil {
			return err
		}
		c.last = c.last || c.rounds >= c.p.limits.Rounds || c.calls >= c.p.limits.Calls || c.p.limits.AllBytes-c.bytes < 2*overhead
		if c.last && i == len(a.Calls)-1 {
			r.Note = "No more tools can be used. Respond now with the AiAction, from what is known."
		}
		back.Results = append(back.Results, ToolResult{ID: a.Calls[i].ID, Name: said.Calls[i].Name, Text: r.text(), Failed: failed})
	}
	c.messages = append(c.messages, said, back)
	return nil
}

// useTool answers one call.
func (c *conversation) useTool(ctx context.Context, call *ToolCall) (reply, bool, error) {
	if call.Name == propose {
		return refusal(tool.InvalidArgs, "not taken: it was made before the results of the other calls were known; propose again"), true, nil
	}
	if c.last {
		return refusal(tool.PermissionDenied, "not called: no more tools can be used"), true, nil
	}
	c.calls++
	target, known := c.p.tools.byName[call.Name]
	if !known {
		return c.refuse(tool.Call{Tool: cut(call.Name, maxName)}, tool.NotFound, "there is no such tool: "+c.p.tools.names())
	}
	args, ok := object(call.Args)
	if !ok || len(call.Args) > maxArgs {
		return c.refuse(target, tool.InvalidArgs, fmt.Sprintf("the arguments must be one JSON object of at most %d bytes", maxArgs))
	}
	key, err := marshal(args)
	if err != nil {
		return c.refuse(target, tool.InvalidArgs, "the arguments cannot be read")
	}
	target.Args = json.RawMessage(call.Args)
	if len(args) == 0 {
		target.Args = json.RawMessage("{}")
	}
	if before, ok := c.answered[call.Name+" "+string(key)]; ok {
		c.bytes += len(before.reply.text())
		return before.reply, before.failed, nil
	}
	return c.make(ctx, target, call.Name+" "+string(key))
}

// A kept reply answers the same call when it comes again.
type kept struct {
	reply  reply
	failed bool
}

// make makes a call and keeps what came of it.
func (c *conversation) make(ctx context.Context, call tool.Call, key string) (reply, bool, error) {
	c.watch(Using{Call: call})
	limit := min(c.p.limits.ToolBytes, c.p.limits.AllBytes-c.bytes)
	r, short, err := c.p.tools.call(ctx, c.p.scrub, call, limit)
	if err != nil {
		if ctx.Err() != nil {
			return reply{}, false, &Error{Fault: FaultCanceled, Endpoint: c.p.info.Endpoint, Err: ctx.Err()}
		}
		return reply{}, false, fmt.Errorf("use %s: %w", call.Tool, err)
	}
	size := len(r.text())
	c.bytes += size
	use := Use{Call: call, OK: r.OK, Bytes: len(r.Stdout) + len(r.Stderr), Cut: short}
	if !r.OK {
		use.Why = why(r.Stderr)
	}
	c.used(use)
	c.answered[key] = kept{r, !r.OK}
	return r, !r.OK, nil
}

// refuse answers a call that is not made.
func (c *conversation) refuse(call tool.Call, code tool.ErrorCode, text string) (reply, bool, error) {
	r := refusal(code, text)
	size := len(r.text())
	c.bytes += size
	c.used(Use{Call: call, Bytes: len(text), Why: why(text)})
	return r, true, nil
}

func (c *conversation) used(use Use) {
	c.out.Uses = append(c.out.Uses, use)
	c.watch(Used{Use: use})
}

// why is a line for a person.
func why(text string) string {
	if text == "" {
		return "it failed without saying why"
	}
	return string(printable(clean(cut(text, 200))))
}
