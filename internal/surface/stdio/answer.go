package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"
)

// grace is how long, after all is to end, who reads has to take what is being written.
const grace = 2 * time.Second

// An outlet writes, and does not wait for a reader that has stopped reading when all is to end.
type outlet struct {
	texts  chan []byte
	errors chan error
}

func newOutlet(out io.Writer) *outlet {
	o := &outlet{texts: make(chan []byte), errors: make(chan error, 1)}
	go func() {
		for text := range o.texts {
			_, err := out.Write(text)
			o.errors <- err
		}
	}()
	return o
}

// write writes all of text, which is then the outlet's. After an error it must not be
// called again.
func (o *outlet) write(ctx context.Context, text []byte) error {
	o.texts <- text
	select {
	case err := <-o.errors:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-o.errors:
		return err
	case <-time.After(grace):
		return context.Cause(ctx)
	}
}

func (o *outlet) close() { close(o.texts) }

// failure is the answer that says what is wrong.
func failure(text string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // two texts have a JSON
		Status string `json:"status"`
		Error  string `json:"error"`
	}{"error", text})
	line, _ := oneLine(buf.Bytes())
	return line
}

// oneLine is a JSON document without any character that some reader takes for a line's
// end, or some terminal for a command: in a document they stand in texts, where an escape
// means the same. Bytes that are no text become U+FFFD.
func oneLine(document []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Compact(&buf, document); err != nil {
		return nil, err
	}
	text := buf.Bytes()
	at := bytes.IndexFunc(text, unwanted)
	if at < 0 {
		return text, nil
	}
	const hex = "0123456789abcdef"
	line := append(make([]byte, 0, len(text)+64), text[:at]...)
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError:
			line = utf8.AppendRune(line, r)
		case unwanted(r):
			line = append(line, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			line = append(line, text[at:at+size]...)
		}
		at += size
	}
	return line, nil
}

// unwanted are DEL and the controls from U+0080 on, what separates lines and paragraphs,
// and what stands for bytes that are no text.
func unwanted(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}
