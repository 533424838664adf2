package cli

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"airlock/agent"
)

// captured is what --json keeps of the command's output.
type captured struct{ stdout, stderr capture }

// capture keeps the beginning of a stream, as much as the protocol's results do.
type capture struct {
	mu   sync.Mutex
	most int64 // bytes that are kept; 0: agent.MaxOutput
	buf  bytes.Buffer
	cut  bool
}

// Write takes everything and keeps what there is room for.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.most
	if most == 0 {
		most = agent.MaxOutput
	}
	room := int(most) - c.buf.Len()
	if len(p) > room {
		c.cut = true
		c.buf.Write(p[:room])
		return len(p), nil
	}
	return c.buf.Write(p)
}

// String is the text, cut at a whole character and marked where it was cut.
func (c *capture) String() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buf.Bytes()
	if !c.cut {
		return string(b)
	}
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				b = b[:i]
			}
			break
		}
	}
	return string(b) + agent.TruncatedMarker
}
