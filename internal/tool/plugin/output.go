package plugin

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"

	"airlock/internal/changes"
)

// An answerBuffer keeps what an executable prints, up to a limit.
type answerBuffer struct {
	most int64
	data []byte
}

// Write fails once there is too much, which ends the executable.
func (b *answerBuffer) Write(data []byte) (int, error) {
	room := b.most - int64(len(b.data))
	if int64(len(data)) > room {
		b.data = append(b.data, data[:room]...)
		return int(room), errTooMuch
	}
	b.data = append(b.data, data...)
	return len(data), nil
}

const (
	maxStderr = 1 << 20 // bytes of stderr; what comes after is dropped
	maxLine   = 4 << 10 // bytes of a line of the log
	lastLines = 5       // that are kept for an error
)

// A stderrLog takes stderr: to the log line by line, and live to who watches. Neither can
// fail the call.
type stderrLog struct {
	ctx  context.Context //nolint:containedctx // it is the call, and ends with it
	log  *slog.Logger
	name string
	live io.Writer // may be nil

	line    []byte // that has no end yet
	lines   []string
	taken   int
	dropped bool
}

func (s *stderrLog) Write(data []byte) (int, error) {
	n := len(data)
	kept := min(n, maxStderr-s.taken)
	if kept < n && !s.dropped {
		s.dropped = true
		defer func() {
			s.flush()
			s.log.WarnContext(s.ctx, "plugin wrote more to stderr than is kept", slog.String("plugin", s.name), slog.Int("kept", maxStderr))
		}()
	}
	if kept == 0 {
		return n, nil
	}
	data = data[:kept]
	s.taken += len(data)
	if s.live != nil {
		if _, err := s.live.Write(data); err != nil {
			s.live = nil // nobody watches any more
		}
	}
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		part := data
		if end >= 0 {
			part = data[:end]
		}
		part = part[:min(len(part), maxLine-len(s.line))]
		s.line = append(s.line, part...)
		data = data[len(part):]
		switch {
		case len(data) > 0 && data[0] == '\n':
			data = data[1:]
			s.say()
		case len(s.line) == maxLine:
			s.say()
		}
	}
	return n, nil
}

// say logs the line.
func (s *stderrLog) say() {
	line := changes.Printable(strings.TrimSuffix(string(s.line), "\r"))
	s.line = s.line[:0]
	s.log.InfoContext(s.ctx, "plugin stderr", slog.String("plugin", s.name), slog.String("line", line))
	if strings.TrimSpace(line) == "" {
		return
	}
	if len(s.lines) == lastLines {
		s.lines = append(s.lines[:0], s.lines[1:]...)
	}
	s.lines = append(s.lines, line)
}

// flush logs a last line that has no end.
func (s *stderrLog) flush() {
	if len(s.line) > 0 {
		s.say()
	}
}

// last are the last lines as one.
func (s *stderrLog) last() string {
	text := strings.Join(s.lines, " | ")
	if len(text) > 1000 {
		text = "…" + text[len(text)-1000:]
	}
	return text
}
