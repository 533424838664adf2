package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"airlock/internal/tool"
)

// own is the member of the parameters that is Airlock's.
const own = "_airlock"

// opening is the first line of stdin: the parameters, with what is said of the call beside
// them. The parameters stay as they are written, but on one line.
func opening(s *Session, limit time.Duration) ([]byte, error) {
	args := bytes.TrimSpace(s.Args)
	if len(args) == 0 {
		args = []byte("{}")
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(args, &names); err != nil || names == nil {
		return nil, errors.New("the parameters are no JSON object")
	}
	if _, taken := names[own]; taken {
		return nil, fmt.Errorf("the parameter %s is Airlock's own word: give it another name", own)
	}
	about, err := encode(struct {
		Protocol  string   `json:"protocol"`
		Tool      string   `json:"tool"`
		Call      string   `json:"call"`
		Attempt   int      `json:"attempt"`
		TimeoutMS int64    `json:"timeout_ms"`
		Features  []string `json:"features"`
	}{Protocol, s.Tool, s.Call, s.Attempt, limit.Milliseconds(), []string{progress, partial, call, ask, "cancel"}})
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, args); err != nil {
		return nil, fmt.Errorf("the parameters: %w", err)
	}
	line.Truncate(line.Len() - 1) // the object's end
	if len(names) > 0 {
		line.WriteByte(',')
	}
	line.WriteString(`"` + own + `":`)
	line.Write(bytes.TrimSuffix(about, []byte("\n")))
	line.WriteString("}\n")
	return oneLine(line.Bytes()), nil
}

// resultLine answers a call; document may be nil. It stands beside meta, and not in it too.
func resultLine(id json.RawMessage, res tool.Result, document json.RawMessage) []byte {
	meta := maps.Clone(res.Meta)
	if meta == nil {
		meta = tool.Meta{}
	}
	if document != nil {
		delete(meta, "document")
	}
	line, err := encode(struct {
		Type     string          `json:"type"`
		ID       json.RawMessage `json:"id"`
		OK       bool            `json:"ok"`
		Stdout   string          `json:"stdout"`
		Stderr   string          `json:"stderr"`
		Meta     tool.Meta       `json:"meta"`
		Document json.RawMessage `json:"document,omitempty"`
	}{result, id, res.OK, res.Stdout, res.Stderr, meta, document})
	if err != nil {
		return errorLine(id, "the result cannot be written as JSON: "+err.Error())
	}
	return line
}

// answerLine answers a question; a problem is given in place of an answer.
func answerLine(id json.RawMessage, answer string, problem error) []byte {
	said := struct {
		Type   string          `json:"type"`
		ID     json.RawMessage `json:"id"`
		Answer *string         `json:"answer,omitempty"`
		Error  string          `json:"error,omitempty"`
	}{Type: "answer", ID: id}
	if problem != nil {
		said.Error = problem.Error()
	} else {
		said.Answer = &answer
	}
	return must(encode(said))
}

// errorLine says that a message is not right; id may be nil.
func errorLine(id json.RawMessage, problem string) []byte {
	return must(encode(struct {
		Type  string          `json:"type"`
		ID    json.RawMessage `json:"id,omitempty"`
		Error string          `json:"error"`
	}{"error", id, problem}))
}

// cancelLine says that the agent has to end.
func cancelLine(why string) []byte {
	return must(encode(struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	}{"cancel", why}))
}

// encode is a value as a line of JSON, with no escape that JSON does not ask for.
func encode(v any) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return oneLine(line.Bytes()), err
}

// oneLine escapes what is an end of a line to some readers, such as Node's readline, and
// what JSON has within its texts alone.
func oneLine(line []byte) []byte {
	line = bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(line, []byte("\u2029"), []byte(`\u2029`))
}

// must is the line of a value that is only text and an id that was JSON.
func must(line []byte, err error) []byte {
	if err != nil {
		return []byte(`{"type":"error","error":"an answer that cannot be written as JSON"}` + "\n")
	}
	return line
}
