package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"airlock/internal/redact"
)

// Bounds of a row's data.
const (
	maxText = 16 << 10  // of each text in it
	maxData = 256 << 10 // of all of it
)

// encode makes of data the JSON that is stored: without secrets, and bounded.
func encode(data any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		return "", err
	}
	raw := redact.JSON(bytes.TrimRight(b.Bytes(), "\n"))
	if len(raw) <= maxText {
		return text(raw), nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return "", err
	}
	b.Reset()
	if err := enc.Encode(shorten(value)); err != nil {
		return "", err
	}
	short := bytes.TrimRight(b.Bytes(), "\n")
	if len(short) <= maxData {
		return text(short), nil
	}
	whole, err := json.Marshal(map[string]any{"cut": cutText(string(raw))})
	return text(whole), err
}

// text is JSON as it is stored: JSON that a caller gave may hold bytes that are not UTF-8.
func text(raw []byte) string { return strings.ToValidUTF8(string(raw), "\ufffd") }

// shorten cuts every large text in a value.
func shorten(value any) any {
	switch v := value.(type) {
	case string:
		return cutText(v)
	case []any:
		for i := range v {
			v[i] = shorten(v[i])
		}
	case map[string]any:
		for name, member := range v {
			if len(name) > maxText {
				delete(v, name)
				name = cutText(name)
			}
			v[name] = shorten(member)
		}
	}
	return value
}

// cutText keeps the beginning of a large text, and of the whole the length and the
// SHA-256: so a text that somebody has can be compared with what was recorded. Both are of
// the redacted text, because the sum of a text with a short secret in it would give that
// away.
func cutText(s string) string {
	if len(s) <= maxText {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	keep := maxText / 2
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return fmt.Sprintf("%s… [cut: %d bytes, sha256 %s]", s[:keep], len(s), hex.EncodeToString(sum[:]))
}
