package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/redact"
	"airlock/internal/tool/bridge/setup"
)

const (
	logger    = "logger" // the attribute that says who logs
	maxLine   = 8 << 10  // bytes of a line of stderr in the log
	maxLogged = 1 << 20  // bytes of stderr of one attempt in the log
	maxParams = 32 << 10 // bytes of parameters in the log
	maxText   = 2 << 10  // bytes of an error in the log
)

// A journal logs in the words of the original bridge, whose readers look for them: so its
// messages are not constant, and none of them is said anywhere else.
type journal struct {
	log   *slog.Logger
	known *strings.Replacer // takes out the secrets that agents are given; nil: none are known
}

// shortSecret is how short a variable's value is that is not taken for a secret: it would be
// found in words.
const shortSecret = 8

// secrets take out the values of variables that agents are handed on and whose names say
// that they are secret; whatever form they have.
func secrets(agents []setup.Agent, environ map[string]string) *strings.Replacer {
	var pairs []string
	add := func(name, value string) {
		if len(value) >= shortSecret && redact.Name(name) {
			pairs = append(pairs, value, "[redacted:"+name+"]")
		}
	}
	for i := range agents {
		for _, name := range agents[i].Pass {
			add(name, environ[name])
		}
		for name, value := range agents[i].Set {
			add(name, value)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}

// say logs one line.
func (j journal) say(level slog.Level, format string, args ...any) {
	ctx := context.Background()
	h := j.log.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if j.known != nil {
		text = j.known.Replace(text)
	}
	// A log that fails is its handler's to tell of.
	_ = h.Handle(ctx, slog.NewRecord(time.Now(), level, text, 0))
}

func (j journal) dispatching(agent string, args json.RawMessage) {
	if j.log.Enabled(context.Background(), slog.LevelInfo) {
		j.say(slog.LevelInfo, "Dispatching tool: %s with params: %s", agent, clip(string(redact.JSON(args)), maxParams))
	}
}

func (j journal) succeeded(agent string, took time.Duration) {
	j.say(slog.LevelInfo, "Agent %s completed successfully in %.1fs", agent, took.Seconds())
}

func (j journal) failed(agent string, took time.Duration, a answer) {
	j.say(slog.LevelError, "Agent %s failed in %.1fs: %s", agent, took.Seconds(), shown(a.text))
}

func (j journal) again(agent string, attempt, attempts int, a answer, wait time.Duration) {
	j.say(slog.LevelWarn, "Agent %s failed at attempt %d of %d, and is tried again in %s: %s", agent, attempt, attempts, wait, shown(a.text))
}

func (j journal) cut(agent, param string) {
	j.say(slog.LevelWarn, "Parameter %s of %s was sanitized: shell metacharacters or control characters were taken out", shown(param), agent)
}

func (j journal) kept(agent string, names []string) {
	j.say(slog.LevelWarn, "Agent %s was called by another one in its sandbox, and is not handed on what that has not: %s", agent, strings.Join(names, ", "))
}

func (j journal) mixed(agent string, before int) {
	j.say(slog.LevelWarn, "Agent %s printed %d bytes before its JSON; debug output belongs to stderr", agent, before)
}

// shown is text of others on one bounded line.
func shown(text string) string { return clip(changes.Printable(text), maxText) }

// clip cuts text to about n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// stderrLog logs what an agent writes to its stderr line by line, and hands it on to
// who watches. Neither can fail the call.
type stderrLog struct {
	log   journal // whose name is the agent's
	agent string
	live  io.Writer // nil: nobody watches, or nobody does any more

	line   []byte // that has no end yet
	logged int
}

func (j journal) stderr(agent string, live io.Writer) *stderrLog {
	return &stderrLog{log: journal{j.log.With(slog.String(logger, agent)), j.known}, agent: agent, live: live}
}

// Write implements io.Writer.
func (s *stderrLog) Write(data []byte) (int, error) {
	n := len(data)
	if s.live != nil {
		if _, err := s.live.Write(data); err != nil {
			s.live = nil
		}
	}
	if s.logged > maxLogged {
		return n, nil
	}
	for len(data) > 0 {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		if room := maxLine - len(s.line); len(part) > room {
			part, rest, ended = data[:room], data[room:], true
		}
		s.line = append(s.line, part...)
		if data = rest; ended {
			s.flush()
		}
	}
	return n, nil
}

// flush logs the line there is, though it may have no end.
func (s *stderrLog) flush() {
	line := strings.TrimSuffix(string(s.line), "\r")
	s.line = s.line[:0]
	if s.logged > maxLogged || strings.TrimSpace(line) == "" {
		return
	}
	if s.logged += len(line); s.logged > maxLogged {
		s.log.say(slog.LevelWarn, "Agent %s wrote more than %d bytes to stderr; the rest is not logged", s.agent, maxLogged)
		return
	}
	s.log.say(slog.LevelInfo, "%s", changes.Printable(line))
}
