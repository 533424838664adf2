package yamlfile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	maxJSON   = 256 << 10 // bytes of a value as JSON
	maxDepth  = 32        // of lists and mappings within each other
	maxDigits = 64        // characters of a number

	leastExponent = -400 // of a number; ParseFloat has the most
)

// JSON is the value as JSON: mappings in their order, numbers digit by digit as they are
// written. What readers of YAML do not agree on, such as yes, is an error, for a default
// that means something else than it seems to must not reach whom it is for.
func (n Node) JSON(name string) (json.RawMessage, error) {
	w := &jsonWriter{name: name}
	if err := w.value(n, 0); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// A jsonWriter writes one value.
type jsonWriter struct {
	name string
	out  bytes.Buffer
}

func (w *jsonWriter) value(n Node, depth int) error {
	switch {
	case depth > maxDepth:
		return n.Fail("%s: lists and mappings are nested more than %d deep", w.name, maxDepth)
	case w.out.Len() > maxJSON:
		return n.Fail("%s: it has more than %d bytes up to here", w.name, maxJSON)
	}
	switch m := n.node.(type) {
	case nil, *ast.NullNode:
		w.out.WriteString("null")
	case *ast.BoolNode:
		w.out.WriteString(strconv.FormatBool(m.Value))
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return w.number(n, m.GetToken().Value)
	case *ast.StringNode:
		return w.word(n, m)
	case *ast.LiteralNode:
		return w.text(n, m.Value.Value)
	case *ast.SequenceNode:
		return w.list(n, depth)
	case *ast.MappingNode, *ast.MappingValueNode:
		return w.mapping(n, depth)
	default:
		return n.Fail("%s: write text, a number, true, false, null, a list or a mapping here", w.name)
	}
	return nil
}

func (w *jsonWriter) list(n Node, depth int) error {
	entries, _ := n.List()
	w.out.WriteByte('[')
	for i, entry := range entries {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.value(entry, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *jsonWriter) mapping(n Node, depth int) error {
	members, err := n.Free(w.name)
	if err != nil {
		return err
	}
	w.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.text(m.Key, m.Name); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(m.Value, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

// word writes a string. One without quotes may be what another reader takes for something
// else: YAML 1.1 has yes, and a number may be too large for this one.
func (w *jsonWriter) word(n Node, m *ast.StringNode) error {
	if m.Token.Type == token.StringType {
		switch {
		case OldBool(m.Value) != nil:
			return n.Fail("%s: some readers take %s for text and some for a truth value; write true or false, or put it in quotes", w.name, m.Value)
		case isNumber(m.Value):
			return w.number(n, m.Value)
		}
	}
	return w.text(n, m.Value)
}

// OldBool is what YAML 1.1 takes a word without quotes for: yes, no, on and off; nil is no
// truth value.
func OldBool(word string) *bool {
	i := slices.Index([]string{"no", "off", "yes", "on"}, strings.ToLower(word))
	lower, upper := strings.ToLower(word), strings.ToUpper(word)
	if i < 0 || word != lower && word != upper && word != upper[:1]+lower[1:] {
		return nil
	}
	return new(i >= 2)
}

func (w *jsonWriter) text(n Node, text string) error {
	if !utf8.ValidString(text) {
		return n.Fail("%s: this text is not UTF-8", w.name)
	}
	if len(text) > maxJSON {
		return n.Fail("%s: it has more than %d bytes", w.name, maxJSON)
	}
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return n.Fail("%s: %v", w.name, err)
	}
	w.out.Truncate(w.out.Len() - 1) // the encoder's line's end
	return nil
}

// number writes a number as it is written, so that none of its digits is lost.
func (w *jsonWriter) number(n Node, text string) error {
	_, after, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ := strconv.Atoi(after) // one that is too large is the least or the most there is
	switch _, err := strconv.ParseFloat(text, 64); {
	case !isNumber(text):
		return n.Fail("%s: write the number %q as JSON does, such as 8, -0.5 or 1e3, or put it in quotes", w.name, text)
	case len(text) > maxDigits || err != nil || exponent < leastExponent:
		return n.Fail("%s: this number is too long or too large; put it in quotes", w.name)
	}
	w.out.WriteString(text)
	return nil
}

// isNumber reports whether a text is a number of JSON's.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text))
}
