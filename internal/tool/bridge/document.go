package bridge

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"airlock/agent"
	"airlock/internal/tool"
)

// What a Result of a bridged agent has in its Meta.
const (
	MetaOutcome  = "outcome"  // one of the Outcome… constants
	MetaDocument = "document" // the answer, as a json.RawMessage, where it is too long for Stdout
	MetaAttempts = "attempts" // how many were made, where it was more than one
	MetaCall     = "call"     // the ID that the agent was given
	metaSignal   = "signal"
)

// An answer is what came of a call, or of an attempt at it.
type answer struct {
	document json.RawMessage // UTF-8
	ok       bool
	outcome  string
	code     tool.ErrorCode // where it is not ok
	text     string         // of the error
	retry    bool           // another attempt may come out better

	exit   *int // of a process that ended
	signal string
}

// problem is an error that Airlock tells.
func problem(outcome string, code tool.ErrorCode, text string) answer {
	return answer{outcome: outcome, code: code, text: text, document: encode(failure{Status: "error", Error: text})}
}

// A failure is the document of an error, in the order of docs/bridge.md.
type failure struct {
	Status   string  `json:"status"` // "error"
	Error    string  `json:"error"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   string  `json:"signal,omitempty"`
	Output   *string `json:"output,omitempty"`
	Stdout   *string `json:"stdout,omitempty"`
	Stderr   *string `json:"stderr,omitempty"`
}

// encode is a value as JSON, without the escapes that HTML would ask for.
func encode(value any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return json.RawMessage(`{"status":"error","error":` + strconv.Quote(err.Error()) + `}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// result is the answer as an envelope.
func (a *answer) result() tool.Result {
	res := tool.Result{OK: a.ok, Meta: tool.Meta{MetaOutcome: a.outcome}}
	if len(a.document) <= agent.MaxOutput {
		res.Stdout = string(a.document)
	} else {
		res.Meta[MetaDocument] = a.document
	}
	if !a.ok {
		res.Stderr, res.Meta[tool.MetaErrorCode] = shown(a.text), a.code
	}
	if a.exit != nil {
		res.Meta[tool.MetaExitCode] = *a.exit
	}
	if a.signal != "" {
		res.Meta[metaSignal] = a.signal
	}
	return res
}

// outcomes are all of them.
func outcomes() []string {
	return []string{
		OutcomeOK, OutcomeAnswer, OutcomeExit, OutcomeSignal, OutcomeNotJSON, OutcomeProtocol, OutcomeTimeout,
		OutcomeTooMuch, OutcomeNotStarted, OutcomeInvalid, OutcomeRefused, OutcomeCanceled, OutcomeLost,
	}
}

// Document is the answer that a Result carries, as one JSON document: a bridged agent's own,
// or the bridge's words for what the registry and the gate refused. What another tool
// answers is its envelope.
func Document(res tool.Result) json.RawMessage {
	if document := own(res); document != nil {
		return document
	}
	if text := refusal(&res); text != "" {
		return encode(failure{Status: "error", Error: text})
	}
	return encode(res)
}

// own is the answer that a bridged agent's Result carries; nil where it is none of a bridged
// agent's.
func own(res tool.Result) json.RawMessage {
	word, ok := res.Meta[MetaOutcome].(string)
	if !ok || !slices.Contains(outcomes(), word) {
		return nil
	}
	if document, ok := res.Meta[MetaDocument].(json.RawMessage); ok && json.Valid(document) {
		return document
	}
	if json.Valid([]byte(res.Stdout)) {
		return json.RawMessage(res.Stdout)
	}
	return nil
}

var (
	noTool  = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"): ` + regexp.QuoteMeta(tool.ErrNoTool.Error()) + `(.*)$`)
	subject = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]* [a-z][a-z0-9_]*: `) // the tool and its action
)

// refusal is what kept a call from its tool, in the bridge's words; "" where nothing did.
func refusal(res *tool.Result) string {
	if ran := res.Stdout != "" || res.Meta[tool.MetaExitCode] != nil; ran {
		return ""
	}
	text := res.Stderr
	switch res.Code() {
	case tool.NotFound:
		m := noTool.FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		name, err := strconv.Unquote(m[1])
		if err != nil {
			name = m[1]
		}
		return "Unknown tool: " + name + m[2]
	case tool.InvalidArgs:
		return "Validation error: " + strings.TrimPrefix(subject.ReplaceAllString(text, ""), "args.")
	case tool.ParseError:
		if rest := subject.ReplaceAllString(text, ""); strings.HasPrefix(rest, "args") {
			return "Validation error: " + rest
		}
	case tool.PermissionDenied:
		if why, gate := strings.CutPrefix(text, "refused by "); gate {
			return "Refused: " + why
		}
	}
	return ""
}
