package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"airlock/internal/planner"
	"airlock/internal/redact"
	"airlock/internal/tool"
)

// A Recorder writes a transcript. It is safe for concurrent use. What cannot be written any more
// does not keep anybody from going on: Close tells.
type Recorder struct {
	redact func(string) string

	mu     sync.Mutex
	file   *os.File
	err    error // the first one
	size   int
	lines  int
	before request // the last one, whole
}

// Record begins a transcript in a new file that only its owner can read. A file, or a link, that
// is there already is left as it is: the error is fs.ErrExist then. redactText takes secrets out of
// each text; nil is redact.Text.
func Record(path string, begin Head, redactText func(string) string) (*Recorder, error) {
	if redactText == nil {
		redactText = redact.Text
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("record to %s: %w: name a new file, or remove it first", path, fs.ErrExist)
	}
	if err != nil {
		return nil, fmt.Errorf("record the conversation: %w", err)
	}
	r := &Recorder{redact: redactText, file: file}
	formats := begin.Model.Formats
	if len(formats) == 0 {
		formats = []planner.Format{planner.FormatText}
	}
	r.write(head{
		Format: format, Version: version, Airlock: brief(begin.Airlock), Created: begin.Created.UTC(), Redacted: true,
		Provider: brief(begin.Model.Provider), Model: brief(begin.Model.Model), Endpoint: brief(begin.Model.Endpoint), Formats: formats,
	})
	if r.err != nil {
		err := r.Close()
		_ = os.Remove(path) // it is ours, and holds nothing
		return nil, err
	}
	return r, nil
}

// Close ends the transcript. Its error says what could not be written. It may be called twice.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		if err := r.file.Close(); r.err == nil && err != nil {
			r.err = fmt.Errorf("record the conversation: %w", err)
		}
		r.file = nil
	}
	return r.err
}

// Ask writes down what a person asks for: before it is planned.
func (r *Recorder) Ask(a *planner.Ask) {
	r.write(line{Kind: ofAsk, Ask: &ask{Verb: a.Verb, Words: a.Words, Context: a.Context, Material: a.Material, Continues: len(a.Earlier) > 0}})
}

// write writes one line, redacted, in one piece.
func (r *Recorder) write(v any) {
	text, err := r.line(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.file == nil {
		return
	}
	switch {
	case err != nil:
	case len(text) > MaxLine:
		err = fmt.Errorf("a line would have %d bytes, at most %d are read again", len(text), MaxLine)
	case r.size+len(text) > MaxFile || r.lines == maxLines:
		err = fmt.Errorf("it would be larger than %d bytes or %d lines, which is all that is read again", MaxFile, maxLines)
	default:
		_, err = r.file.Write(text)
	}
	if err != nil {
		r.err = fmt.Errorf("record the conversation: the transcript ends at line %d: %w", r.lines, err)
		return
	}
	r.size += len(text)
	r.lines++
}

// line is v as a line, every text in it redacted.
func (r *Recorder) line(v any) ([]byte, error) {
	text, err := encode(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var whole any
	if err := dec.Decode(&whole); err != nil {
		return nil, err
	}
	return encode(r.clean(whole))
}

// clean redacts the texts in a JSON value.
func (r *Recorder) clean(v any) any {
	switch v := v.(type) {
	case string:
		return r.redact(v)
	case []any:
		for i := range v {
			v[i] = r.clean(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[r.redact(name)] = r.clean(member)
		}
		return out
	}
	return v
}

// encode writes a line.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Model gives a model that answers as m does and is written down.
func (r *Recorder) Model(m planner.Model) planner.Model { return &recorded{r, m} }

type recorded struct {
	r     *Recorder
	model planner.Model
}

func (m *recorded) Info() planner.Info { return m.model.Info() }

func (m *recorded) Answer(ctx context.Context, req *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	m.r.request(req)
	var got []piece
	whole, err := m.model.Answer(ctx, req, func(d planner.Delta) {
		got = join(got, d)
		if on != nil {
			on(d)
		}
	})
	a := answer{Pieces: m.r.pieces(got)}
	if err != nil {
		a.Error = faultOf(err)
	} else {
		a.Text, a.Calls, a.Stop, a.Usage, a.Model = m.r.redact(whole.Text), calls(whole.Calls), whole.Stop, whole.Usage, brief(whole.Model)
		if a.Text != "" && a.Text == a.streamed() {
			a.Text, a.Streamed = "", true
		}
	}
	m.r.write(line{Kind: ofAnswer, Answer: &a})
	return whole, err
}

// join adds a piece; a great many become fewer.
func join(got []piece, d planner.Delta) []piece {
	p := piece{Text: d.Text, Thinking: d.Thinking, Tool: d.Tool, Args: d.Args}
	if n := len(got); n >= pieces {
		last := &got[n-1]
		if p.Tool == "" || p.Tool == last.Tool {
			last.Text += p.Text
			last.Args += p.Args
			return got
		}
		if n == 2*pieces {
			return got
		}
	}
	return append(got, p)
}

// pieces are those that came, unless a secret is in them: it could lie across several, so they
// are then cut anew from the redacted whole.
func (r *Recorder) pieces(got []piece) []piece {
	var text, args strings.Builder
	same := true
	for _, p := range got {
		text.WriteString(p.Text)
		args.WriteString(p.Args)
		same = same && r.redact(p.Text) == p.Text && r.redact(p.Args) == p.Args // as each is written
	}
	cleanText, cleanArgs := r.redact(text.String()), r.redact(args.String())
	if same && cleanText == text.String() && cleanArgs == args.String() {
		return got
	}
	var out []piece
	if slices.ContainsFunc(got, func(p piece) bool { return p.Thinking }) {
		out = append(out, piece{Thinking: true})
	}
	if cleanText != "" {
		out = append(out, piece{Text: cleanText})
	}
	if i := slices.IndexFunc(got, func(p piece) bool { return p.Tool != "" }); i >= 0 {
		out = append(out, piece{Tool: got[i].Tool, Args: cleanArgs})
	}
	return out
}

// request writes down what of a request is new.
func (r *Recorder) request(req *planner.Request) {
	now := request{System: req.System, MustCall: req.MustCall, Format: req.Format}
	for i := range req.Messages {
		m := &req.Messages[i]
		now.Messages = append(now.Messages, message{Role: m.Role, Text: m.Text, Calls: calls(m.Calls), Results: m.Results})
	}
	for i := range req.Tools {
		now.Tools = append(now.Tools, req.Tools[i].Name)
	}
	r.mu.Lock()
	before := r.before
	r.before = now
	r.mu.Unlock()
	if now.System == before.System {
		now.System = ""
	}
	for now.Same < min(len(now.Messages), len(before.Messages)) && reflect.DeepEqual(now.Messages[now.Same], before.Messages[now.Same]) {
		now.Same++
	}
	now.Messages = now.Messages[now.Same:]
	r.write(line{Kind: ofRequest, Request: &now})
}

func calls(all []planner.ToolCall) []toolCall {
	var out []toolCall
	for _, c := range all {
		out = append(out, toolCall{ID: c.ID, Name: c.Name, Args: string(c.Args)})
	}
	return out
}

// faultOf is an error as it is written down.
func faultOf(err error) *fault {
	var e *planner.Error
	if !errors.As(err, &e) {
		return &fault{Fault: planner.FaultServer, Text: brief(err.Error())}
	}
	return &fault{
		Fault: e.Fault, Feature: e.Feature, Endpoint: brief(e.Endpoint), Status: e.Status, Text: brief(e.Text),
		Again: e.Again, RetryAfterMS: min(max(e.RetryAfter.Milliseconds(), 0), 1e9), Mend: brief(e.Mend),
	}
}

// Tools gives tools that do what t's do, and are written down.
func (r *Recorder) Tools(t planner.Tools) planner.Tools {
	offers := []offer{}
	for _, info := range t.List() {
		for i := range info.Actions {
			offers = append(offers, offer{Name: brief(info.Name), Action: brief(info.Actions[i].Name)})
		}
	}
	r.write(line{Kind: ofTools, Tools: offers})
	return &recordedTools{r, t}
}

type recordedTools struct {
	r     *Recorder
	tools planner.Tools
}

func (t *recordedTools) List() []*tool.Info { return t.tools.List() }

func (t *recordedTools) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	res, err := t.tools.Call(ctx, call)
	u := use{Tool: call.Tool, Action: call.Action, Args: string(call.Args)}
	if err != nil {
		u.Error = brief("it failed: " + err.Error())
	} else {
		u.Result = &result{OK: res.OK, Stdout: t.r.output(res.Stdout), Stderr: t.r.output(res.Stderr), Meta: metaOf(res.Meta)}
	}
	t.r.write(line{Kind: ofCall, Call: &u})
	return res, err
}

// output is as much of a tool's output as is written down: far more than a model gets.
func (r *Recorder) output(text string) string {
	text = r.redact(text) // before it is cut
	if len(text) > maxOutput {
		text = strings.ToValidUTF8(text[:maxOutput], "")
	}
	return text
}

// metaOf is what of a Meta is short.
func metaOf(meta tool.Meta) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range meta {
		raw, err := json.Marshal(value)
		if err == nil && len(raw) <= maxMeta && len(name) <= maxText && len(out) < maxMetas/(maxMeta+maxText) {
			out[name] = raw
		}
	}
	return out
}

// brief is a text as a head or an error may have it.
func brief(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText-len("…")], "") + "…"
	}
	return s
}
