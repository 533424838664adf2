package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/params"
	"airlock/internal/tool/bridge/proc"
	"airlock/internal/tool/bridge/setup"
)

// maxOutput is how many bytes of what an agent printed an error repeats.
const maxOutput = 64 << 10

// An attempt is how an agent ran, and what it printed.
type attempt struct {
	out   proc.Outcome
	final []byte        // what it gave as its answer; nil: that is out.Stdout
	fault error         // it did not keep to its protocol, or said nothing until its time had passed
	limit time.Duration // that it was given
}

// answer is what came of an attempt: the table of docs/bridge.md.
func (t *agentTool) answer(r *attempt) answer {
	out := &r.out
	res := &out.Result
	switch {
	case out.Canceled:
		return problem(OutcomeCanceled, tool.IOError, "Agent execution was canceled")
	case out.TimedOut:
		return t.tooSlow(r)
	case out.TooMuch:
		return problem(OutcomeTooMuch, tool.IOError, fmt.Sprintf("Agent printed more than %d bytes; print less, or raise max_output of %s", t.agent.MaxOutput, t.agent.Name))
	case r.fault != nil:
		a := problem(OutcomeProtocol, tool.ParseError, "Agent did not keep to its protocol: "+r.fault.Error())
		a.retry = true
		return a
	case out.Err != nil:
		return problem(OutcomeLost, tool.IOError, "Agent execution failed: "+changes.Printable(out.Err.Error()))
	case res.NotStarted != "":
		return t.notStarted(res)
	}
	printed := trimmed(out.Stdout)
	if r.final != nil {
		printed = trimmed(r.final)
	}
	if res.ExitCode != 0 || res.Signal != "" {
		return crashed(res, printed, out.Stderr)
	}
	a := t.printed(printed)
	a.exit = new(0)
	return a
}

func (t *agentTool) tooSlow(r *attempt) answer {
	text := "Agent execution timed out after " + seconds(r.limit)
	if r.fault != nil {
		text += "; " + r.fault.Error()
	}
	return answer{outcome: OutcomeTimeout, code: tool.Timeout, text: text, retry: true, document: encode(failure{
		Status: "error", Error: text, Stdout: repeated(r.out.Stdout), Stderr: repeated([]byte(r.out.Stderr)),
	})}
}

// notStarted is the answer where the guest could not start what was there to be seen.
func (t *agentTool) notStarted(res *agent.ExecResult) answer {
	program := t.agent.Argv[0]
	code, text := tool.PermissionDenied, "Agent could not be started: "+changes.Printable(res.Stderr)
	if res.NotStarted == "not_found" {
		code = tool.NotFound
		text = t.missing(program)
	}
	a := problem(OutcomeNotStarted, code, text)
	a.retry = true
	return a
}

// missing is a program that is not there where the agent runs.
func (t *agentTool) missing(program string) string {
	if program == t.agent.Script {
		return (&setup.NotFoundError{What: "script", Path: program}).Error()
	}
	return (&setup.NotFoundError{What: "interpreter", Path: program, Python: t.agent.Python}).Error()
}

// looked is the answer where the agent's script or interpreter is not as it has to be.
func looked(err error) answer {
	code := tool.PermissionDenied
	if _, ok := errors.AsType[*setup.NotFoundError](err); ok {
		code = tool.NotFound
	}
	text := err.Error()
	if _, outside := errors.AsType[*setup.OutsideError](err); !outside && code != tool.NotFound {
		text = "Agent could not be started: " + text
	}
	return problem(OutcomeNotStarted, code, changes.Printable(text))
}

// invalid is the answer to parameters that do not hold.
func (t *agentTool) invalid(err error) answer {
	wrong, ok := errors.AsType[*params.ValidationError](err)
	if !ok {
		return problem(OutcomeInvalid, tool.InvalidArgs, changes.Printable(err.Error()))
	}
	return problem(OutcomeInvalid, wrong.Code, "Validation error: "+wrong.Error())
}

// crashed is the answer of an agent that ended with another code than 0, or by a signal.
func crashed(res *agent.ExecResult, printed []byte, stderr string) answer {
	a := answer{outcome: OutcomeExit, code: tool.IOError, retry: true, exit: new(res.ExitCode), signal: res.Signal}
	how := fmt.Sprintf("Agent exited with code %d", res.ExitCode)
	if res.Signal != "" {
		a.outcome, how = OutcomeSignal, "Agent was ended by "+res.Signal
	}
	a.text = strings.TrimSpace(stderr)
	if a.text == "" && notJSON(printed) == nil {
		a.text = strings.TrimSpace(read(printed).text)
	}
	a.text = cmp.Or(a.text, how)
	a.document = encode(failure{
		Status: "error", Error: a.text, ExitCode: a.exit, Signal: a.signal,
		Stdout: repeated(printed), Stderr: repeated([]byte(stderr)),
	})
	return a
}

// printed is the answer of an agent that ended well.
func (t *agentTool) printed(text []byte) answer {
	if len(text) == 0 {
		return answer{ok: true, outcome: OutcomeOK, document: encode(struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		}{"success", "Agent completed without output"})}
	}
	err := notJSON(text)
	if err != nil && t.agent.Mixed {
		if begin, ok := lastValue(text); ok {
			t.log.mixed(t.agent.Name, begin)
			text, err = text[begin:], nil
		}
	}
	if err != nil {
		why := "Agent output is not valid JSON: " + changes.Printable(err.Error())
		return answer{outcome: OutcomeNotJSON, code: tool.ParseError, text: why, retry: true, document: encode(failure{
			Status: "error", Error: why, Output: repeated(text),
		})}
	}
	return told(text)
}

// told is a document that is an agent's own answer.
func told(document []byte) answer {
	a := answer{ok: true, outcome: OutcomeOK, document: document}
	if s := read(document); s.failed {
		a.ok, a.outcome, a.code = false, OutcomeAnswer, tool.IOError
		a.text = cmp.Or(s.text, "the agent says that it failed")
	}
	return a
}

// repeated is what an agent printed, as an error repeats it.
func repeated(data []byte) *string {
	text := strings.ToValidUTF8(string(data[:min(len(data), maxOutput)]), "�")
	if len(data) > maxOutput {
		text += agent.TruncatedMarker
	}
	return &text
}

// seconds is a time as the original wrote it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
