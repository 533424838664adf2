package gate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"airlock/internal/near"
)

// What a policy file may hold. A project's file comes from whoever wrote the project.
const (
	maxFile   = 256 << 10
	maxRules  = 1000
	maxList   = 200
	maxString = 4096
	maxNested = 8   // of [ and {
	maxIndent = 100 // columns before a list's dash
)

// A LoadError is what is wrong with a policy file, and where.
type LoadError struct {
	File         string
	Line, Column int // from 1; 0 where it is about the whole file
	Text         string
}

// Error is "file:line:column: text", as editors know it.
func (e *LoadError) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
		if e.Column > 0 {
			at += ":" + strconv.Itoa(e.Column)
		}
	}
	return at + ": " + e.Text
}

// A document reads one policy file.
type document struct{ file string }

func (d *document) failAt(pos *token.Position, format string, args ...any) error {
	e := &LoadError{File: d.file, Text: show(fmt.Sprintf(format, args...))}
	if pos != nil {
		e.Line, e.Column = pos.Line, pos.Column
	}
	return e
}

func (d *document) fail(n ast.Node, format string, args ...any) error {
	return d.failAt(position(n), format, args...)
}

func position(n ast.Node) *token.Position {
	switch m := n.(type) { // a mapping's own token is its first colon
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if n == nil || n.GetToken() == nil {
		return nil
	}
	return n.GetToken().Position
}

// parse gives the root of a document; nil where there is nothing in it. What nests deeply
// is refused before the parser, which is recursive, sees it.
func (d *document) parse(text []byte) (root ast.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser's: a file from outside must not end the program
			root, err = nil, &LoadError{File: d.file, Text: "this is not YAML that can be read"}
		}
	}()
	if len(text) > maxFile {
		return nil, &LoadError{File: d.file, Text: fmt.Sprintf("larger than %d bytes", maxFile)}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if err := d.plainText(text); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(text))
	if err := d.check(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, d.syntax(err)
	}
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			return nil, d.fail(doc.Body, "a policy is one document; take the --- out")
		}
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

// plainText refuses what no editor shows.
func (d *document) plainText(text []byte) error {
	for n, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return &LoadError{File: d.file, Line: n + 1, Text: "not UTF-8"}
		}
		for col, r := range string(line) {
			if r != '\t' && (r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029) {
				return &LoadError{File: d.file, Line: n + 1, Column: col + 1, Text: fmt.Sprintf("a control character (%U)", r)}
			}
		}
	}
	return nil
}

// check refuses what makes much of little, or goes deep.
func (d *document) check(tokens token.Tokens) error {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return d.failAt(t.Position, "anchors and aliases are not taken; put a word that begins with & or * in quotes")
		case token.TagType:
			return d.failAt(t.Position, "tags are not taken; put a word that begins with ! in quotes")
		case token.MappingKeyType:
			return d.failAt(t.Position, "complex keys are not taken; put a word that begins with ? in quotes")
		case token.DirectiveType:
			return d.failAt(t.Position, "directives are not taken; put a word that begins with %% in quotes")
		case token.InvalidType:
			return d.failAt(t.Position, "%s", t.Error)
		case token.SequenceStartType, token.MappingStartType:
			if depth++; depth > maxNested {
				return d.failAt(t.Position, "nested too deeply")
			}
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			if t.Position.Column > maxIndent {
				return d.failAt(t.Position, "nested too deeply")
			}
		}
	}
	return nil
}

// syntax is the parser's error as one of ours.
func (d *document) syntax(err error) error {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) && at.GetToken() != nil {
		return d.failAt(at.GetToken().Position, "%s", at.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return &LoadError{File: d.file, Text: show(first)}
}

// A member is what a mapping may hold: it is given the value.
type member func(ast.Node) error

// mapping hands the members of n to those who read them. what names the mapping.
func (d *document) mapping(n ast.Node, what string, known map[string]member) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return d.fail(n, "%s must be a mapping of names to values", what)
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		key, err := d.text(it.Key(), "a member's name")
		if err != nil {
			return err
		}
		read, ok := known[key]
		switch {
		case !ok:
			return d.fail(it.Key(), "%s has no member %q%s", what, key, meant(key, known))
		case seen[key]:
			return d.fail(it.Key(), "%s says %q twice", what, key)
		}
		seen[key] = true
		if err := read(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// text is a scalar as it is written.
func (d *document) text(n ast.Node, what string) (string, error) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s = n.GetToken().Value
	case *ast.NullNode:
		return "", d.fail(n, `%s is empty; an empty word is "", a home folder "~"`, what)
	default:
		return "", d.fail(n, "%s must be a word or a sentence", what)
	}
	if len(s) > maxString {
		return "", d.fail(n, "%s is longer than %d bytes", what, maxString)
	}
	return s, nil
}

// items are the elements of a list; a single value is a list of one.
func (d *document) items(n ast.Node, what string, most int) ([]ast.Node, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return []ast.Node{n}, nil
	}
	switch {
	case len(seq.Values) == 0:
		return nil, d.fail(n, "%s is empty; leave it out", what)
	case len(seq.Values) > most:
		return nil, d.fail(n, "%s has more than %d elements", what, most)
	}
	return seq.Values, nil
}

// words are a list of scalars; each passes check, which may be nil.
func (d *document) words(into *[]string, what string, check func(string) (string, error)) member {
	return func(n ast.Node) error {
		nodes, err := d.items(n, what, maxList)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			s, err := d.text(node, what)
			if err != nil {
				return err
			}
			if check != nil {
				if s, err = check(s); err != nil {
					return d.fail(node, "%s: %v", what, err)
				}
			}
			*into = append(*into, s)
		}
		return nil
	}
}

// meant suggests the name that one which is not known may be a slip of.
func meant[V any](word string, known map[string]V) string {
	if name := near.Name(word, slices.Collect(maps.Keys(known))); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}
