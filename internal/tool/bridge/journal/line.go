package journal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"airlock/internal/changes"
	"airlock/internal/redact"
)

const (
	maxLine = 64 << 10  // bytes of a line, its end included
	maxRaw  = 192 << 10 // bytes of a message and its attributes that are looked at
	// secretEnd is how far behind its beginning a rule of redact may decide what a secret is:
	// what stands nearer to a cut may be half of one.
	secretEnd = 80 << 10
	maxName   = 64
	timeForm  = "2006-01-02 15:04:05"
)

func show(s string) string { return changes.Printable(s) }

// A handler writes records as lines. It is safe for concurrent use.
type handler struct {
	out   *file
	level slog.Level
	name  string
	group string // "a.b." before the keys to come
	attrs string // those of the logger, as they are written
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	var b strings.Builder
	for _, a := range attrs {
		next.attr(&b, h.group, a)
	}
	next.attrs += b.String()
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.group += name + "."
	}
	return &next
}

// Handle implements slog.Handler. Its error is nil: who logs has nobody to tell, and the
// file keeps the first one.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	line := *h // the record may name another logger
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		line.attr(&b, h.group, a)
		return b.Len() <= maxRaw
	})
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	head := "[" + at.Local().Format(timeForm) + "] " + levelName(r.Level) + " [" + line.name + "]: "
	h.out.write([]byte(head + harmless(b.String(), maxLine-len(head)-1) + "\n"))
	return nil
}

// attr appends " key=value", or names the logger.
func (h *handler) attr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case a.Key == "" && v.Kind() != slog.KindGroup:
	case a.Key == Name && group == "":
		h.name = harmless(v.String(), maxName)
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			h.attr(b, group, member)
		}
	case b.Len() <= maxRaw:
		// The value alone, before it is quoted: a secret of several lines is found only so.
		text := harmless(v.String(), maxLine)
		if text == "" || strings.ContainsAny(text, " =\"") {
			// A backslash is one that was there, or was put there to make it harmless.
			text = `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
		}
		b.WriteString(" " + group + a.Key + "=" + text)
	}
}

// levelName is the original's word for a level.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARNING"
	}
	return "ERROR"
}

// harmless is text on one line, without secrets, of at most n bytes.
func harmless(s string, n int) string {
	cut := len(s) > maxRaw
	left := 0
	if cut {
		left, s = len(s)-maxRaw, s[:maxRaw]
	}
	s = redact.Text(s)
	if cut {
		gone := min(len(s), secretEnd)
		left, s = left+gone, s[:len(s)-gone]
	}
	s = show(s)
	if len(s) <= n && !cut {
		return s
	}
	note := fmt.Sprintf(" … (%d bytes more)", max(0, len(s)-n)+left)
	if len(note) > n {
		note = ""
	}
	s = s[:max(0, min(len(s), n-len(note)))]
	for !utf8.ValidString(s) { // a character of several bytes was cut
		s = s[:len(s)-1]
	}
	return s + note
}
