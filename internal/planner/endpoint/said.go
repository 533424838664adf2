package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"airlock/internal/planner"
	"airlock/internal/redact"
)

// What an endpoint says is shown up to here.
const (
	maxText    = 400 // characters
	maxExcerpt = 200 // bytes
)

// Said is what an endpoint says when it does not answer, dug out of the shapes that the APIs
// and the servers that imitate them give it.
type said struct {
	isError bool   // it is an error object
	text    string // the message
	kind    string // the error's type, code and the like, in lower case, each between spaces
	status  int    // the HTTP status that it names; 0: none
	wait    time.Duration
	html    bool
}

// dig reads what an endpoint says. What is no JSON is taken for the message.
func dig(raw []byte) said {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return said{text: string(raw)}
	}
	if list, ok := v.([]any); ok && len(list) > 0 { // Gemini puts its error into a list
		v = list[0]
	}
	object, ok := v.(map[string]any)
	if !ok {
		return said{text: string(raw)}
	}
	s := said{isError: object["object"] == "error" || object["type"] == "error"}
	switch inner := object["error"].(type) {
	case map[string]any:
		s.isError = true
		s.read(inner)
	case string: // Ollama, LM Studio
		s.isError = inner != "" || s.isError
		s.text = inner
	}
	s.read(object)
	if s.text == "" {
		s.text = string(bytes.TrimSpace(raw))
	}
	return s
}

// read takes what is not known yet from an error object.
func (s *said) read(object map[string]any) {
	for _, name := range []string{"message", "msg", "detail", "error_description"} {
		if s.text != "" {
			break
		}
		switch text := object[name].(type) {
		case string:
			s.text = text
		case []any: // FastAPI: a list of what is wrong
			for _, item := range text {
				if wrong, ok := item.(map[string]any); ok {
					s.text = strings.TrimPrefix(s.text+fmt.Sprintf("; %v: %v", wrong["loc"], wrong["msg"]), "; ")
				}
			}
		}
	}
	for _, name := range []string{"type", "code", "status", "param", "reason"} {
		switch value := object[name].(type) {
		case string:
			s.kind += " " + strings.ToLower(value) + " "
		case float64:
			if s.status == 0 && value >= 400 && value <= 599 {
				s.status = int(value)
			}
		}
	}
	if upstream, ok := object["metadata"].(map[string]any); ok { // OpenRouter: what its provider said
		if raw, ok := upstream["raw"].(string); ok && raw != "" {
			inner := said{text: raw}
			if strings.Count(raw, `"raw"`) == 0 {
				inner = dig([]byte(raw))
			}
			s.text += ": " + inner.text
			s.kind += inner.kind
		}
	}
	details, _ := object["details"].([]any)
	for _, d := range details { // Gemini
		detail, _ := d.(map[string]any)
		if reason, ok := detail["reason"].(string); ok {
			s.kind += " " + strings.ToLower(reason) + " "
		}
		if delay, ok := detail["retryDelay"].(string); ok {
			if d, err := time.ParseDuration(delay); err == nil {
				s.wait = min(max(d, 0), maxRetryAfter)
			}
		}
	}
}

// judge makes an error of what an endpoint says with a status.
func (w *Watched) judge(status int, s said) *planner.Error {
	if status < 400 {
		status = statusOf(s.kind)
	}
	e := &planner.Error{Status: status, RetryAfter: s.wait, Text: w.clean(s.text)}
	if s.html {
		e.Text = ""
		if title := titleOf([]byte(s.text)); title != "" {
			e.Text = w.clean(fmt.Sprintf("a web page came (%q)", title))
		}
	}
	lower := strings.ToLower(s.text) + s.kind
	switch {
	case status == 407:
		e.Fault, e.Mend = planner.FaultUnreachable, "the proxy wants a name and a password: check HTTPS_PROXY"
	case anyOf(lower, noCredit):
		e.Fault, e.Mend = planner.FaultBusy, "check the plan, the credit and the limits of the account"
		e.Again = s.wait > 0 // Gemini says so of its limits for a minute too
	case status == 401, status == 403, anyOf(lower, badKey):
		e.Fault, e.Mend = planner.FaultKey, "check the key"
		if status == 403 {
			e.Mend = "check the key and what it has a right to"
		}
	case status != 429 && anyOf(lower, tooLong), strings.Contains(lower, "request too large"), status == 413:
		e.Fault, e.Mend = planner.FaultTooLong, "give it less material, or take a model with a larger window"
	default:
		e.Feature = w.lacking(strings.ToLower(s.text), s.kind)
		if e.Feature != "" && status != 429 && status < 502 {
			e.Fault, e.Mend = planner.FaultUnsupported, "take a model that has it"
			return e
		}
		e.Feature = ""
		byStatus(e, status, lower)
	}
	return e
}

// byStatus judges by the status what the words do not tell.
func byStatus(e *planner.Error, status int, lower string) {
	switch {
	case anyOf(lower, noModel), status == 404:
		e.Fault, e.Mend = planner.FaultNotFound, "check model and base_url"
	case status == 402:
		e.Fault, e.Mend = planner.FaultBusy, "check the plan, the credit and the limits of the account"
	case status == 408:
		e.Fault, e.Again = planner.FaultTimeout, true
	case status == 429, status == 503, status == 529:
		e.Fault, e.Again = planner.FaultBusy, true
	case status == 405:
		e.Fault, e.Mend = planner.FaultRejected, "check that base_url is that of the API"
	case status >= 500:
		e.Fault, e.Again = planner.FaultServer, status != 501 && status != 505
		e.Mend = "it is the endpoint's own fault: try again later, and look at what its operator says"
	default:
		e.Fault = planner.FaultRejected
		if anyOf(lower, []string{"tool_use_failed", "failed to call a function"}) { // Groq: the model wrote no valid call
			e.Again = true
		}
	}
	if status == 409 || status == 425 {
		e.Again = true
	}
}

// statusOf is the status that an error of a kind has where it comes with a good one.
func statusOf(kind string) int {
	for _, k := range kinds {
		if anyOf(kind, k.words) {
			return k.status
		}
	}
	return 0
}

// clean makes a text short and printable, without secrets.
func (w *Watched) clean(text string) string {
	text = w.hide(text)
	if len(text) > 16*maxText {
		text = text[:16*maxText]
	}
	text = redact.Text(strings.ToValidUTF8(text, "\uFFFD"))
	var b strings.Builder
	n, space := 0, true
	for _, r := range text {
		if n >= maxText {
			b.WriteString("…")
			break
		}
		switch {
		case unicode.IsSpace(r):
			if !space {
				b.WriteByte(' ')
				n++
			}
			space = true
			continue
		case !unicode.IsPrint(r):
			r = '\uFFFD' // taking it out could put a secret together
		}
		b.WriteRune(r)
		n++
		space = false
	}
	return w.hide(strings.TrimSpace(b.String()))
}

// anyOf reports whether one of the words is in a text.
func anyOf(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
