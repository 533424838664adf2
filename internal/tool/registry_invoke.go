package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"airlock/agent"
)

// ErrorCodes lists the error codes.
var ErrorCodes = []ErrorCode{PermissionDenied, NotFound, Timeout, InvalidArgs, IOError, ParseError}

// errMaxTime ends a call after Machine.MaxTime.
var errMaxTime = errors.New("the time that a call may take has passed")

// Invoke makes a call: it checks it, bounds it by m.MaxTime, and hands it to its tool with
// the action named and arguments never empty. It asks no gate: who calls Invoke has.
//
// Whatever the tool does, the result keeps the envelope's promises. Stdout and Stderr are
// UTF-8, each of at most agent.MaxOutput bytes and agent.TruncatedMarker; Meta is not nil and
// has duration_ms; it has an error_code, one of ErrorCodes, exactly where OK is false. A tool
// that panics has failed with IO_ERROR.
func (r *Registry) Invoke(ctx context.Context, m *Machine, call Call) Result {
	started := time.Now()
	entry, call, failure := r.check(call)
	if failure != nil {
		return finish(*failure, time.Since(started))
	}
	if m == nil {
		m = &Machine{}
	}
	if m.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, m.MaxTime, errMaxTime)
		defer cancel()
	}
	res := guarded(ctx, entry.tool, m, call)
	// A tool that was cut short need not know why.
	if !res.OK && codeOf(&res) == IOError && errors.Is(context.Cause(ctx), errMaxTime) {
		meta := make(Meta, len(res.Meta)+1)
		maps.Copy(meta, res.Meta)
		meta[MetaErrorCode] = Timeout
		res.Meta = meta
		if res.Stderr == "" {
			res.Stderr = fmt.Sprintf("%s: did not end within %s", call.Tool, m.MaxTime)
		}
	}
	return finish(res, time.Since(started))
}

// guarded invokes a tool and survives its panic.
func guarded(ctx context.Context, t Tool, m *Machine, call Call) (res Result) {
	defer func() {
		if cause := recover(); cause != nil {
			res = Fail(IOError, fmt.Sprintf("%s %s: the tool failed inside: %s", call.Tool, call.Action, clip(fmt.Sprint(cause), 300)))
		}
	}()
	return t.Invoke(ctx, m, call)
}

// codeOf is the code of a result that is not OK, one of ErrorCodes in any case.
func codeOf(res *Result) ErrorCode {
	if code := res.Code(); slices.Contains(ErrorCodes, code) {
		return code
	}
	return IOError
}

// finish makes a result keep the envelope's promises.
func finish(res Result, took time.Duration) Result {
	code := codeOf(&res)
	res.Stdout, res.Stderr = Bounded(res.Stdout), Bounded(res.Stderr)
	meta := make(Meta, len(res.Meta)+2)
	maps.Copy(meta, res.Meta)
	meta[MetaDurationMS] = took.Milliseconds()
	delete(meta, MetaErrorCode)
	if !res.OK {
		meta[MetaErrorCode] = code
	}
	res.Meta = meta
	return res
}

// Bounded is text as a Result may carry it: UTF-8, with U+FFFD for what is not, and cut
// between two characters, with agent.TruncatedMarker, where it is longer than
// agent.MaxOutput bytes. Text that was bounded is not changed again.
func Bounded(text string) string {
	if len(text) <= agent.MaxOutput+len(agent.TruncatedMarker) && strings.HasSuffix(text, agent.TruncatedMarker) && utf8.ValidString(text) {
		return text
	}
	// Nobody reads what comes so far behind the limit, whatever is in front of it.
	cut := len(text) > agent.MaxOutput+utf8.UTFMax
	if cut {
		text = text[:agent.MaxOutput+utf8.UTFMax]
	}
	text = strings.ToValidUTF8(text, "�")
	if cut || len(text) > agent.MaxOutput {
		n := min(len(text), agent.MaxOutput)
		for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + agent.TruncatedMarker
	}
	return text
}
