package proc

import (
	"io"
	"strings"
	"unicode/utf8"
)

// A bounded keeps what a process prints, up to a limit.
type bounded struct {
	most int64
	data []byte
}

// Write fails once there is too much, which ends the process.
func (b *bounded) Write(data []byte) (int, error) {
	room := b.most - int64(len(b.data))
	if int64(len(data)) > room {
		b.data = append(b.data, data[:room]...)
		return int(room), ErrTooMuch
	}
	b.data = append(b.data, data...)
	return len(data), nil
}

// A tail keeps the last part of what it is given, and hands all of it on.
type tail struct {
	most int
	live io.Writer // nil: nobody, or nobody any more
	data []byte
}

// Write does not fail: a watcher who does is not asked again.
func (t *tail) Write(data []byte) (int, error) {
	if t.live != nil {
		if _, err := t.live.Write(data); err != nil {
			t.live = nil
		}
	}
	t.data = append(t.data, data...)
	if len(t.data) > 2*t.most { // so that each byte is moved once at most
		t.data = append(t.data[:0], t.data[len(t.data)-t.most:]...)
	}
	return len(data), nil
}

// text is what was kept, as text: it does not begin within a character.
func (t *tail) text() string {
	data := t.data
	if len(data) > t.most {
		data = data[len(data)-t.most:]
		for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
			data = data[1:]
		}
	}
	return strings.ToValidUTF8(string(data), "�")
}
