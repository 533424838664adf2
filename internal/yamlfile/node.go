package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"airlock/internal/near"
)

// A Node is a value in a file, and its place. The zero value is empty.
type Node struct {
	file string
	node ast.Node
}

// Members say how each member of a mapping is read.
type Members map[string]Set

// A Set reads a member's value; name is the member's.
type Set func(name string, n Node) error

// A Member is a mapping's member whose name is free.
type Member struct {
	Name  string
	Key   Node // where the name stands
	Value Node // it may be Null
}

// Empty reports whether there is nothing.
func (n Node) Empty() bool { return n.node == nil }

// Null reports whether there is nothing, or null is written.
func (n Node) Null() bool { return n.node == nil || n.node.Type() == ast.NullType }

// Fail makes an *Error of the node's place.
func (n Node) Fail(format string, args ...any) error {
	e := &Error{File: n.file, Text: fmt.Sprintf(format, args...)}
	e.Line, e.Column = n.Place()
	return e
}

// Place is where the node begins, from 1; 0, 0 where that is not known.
func (n Node) Place() (line, column int) {
	if tk := tokenOf(n.node); tk != nil && tk.Position != nil {
		return tk.Position.Line, tk.Position.Column
	}
	return 0, 0
}

// tokenOf is where a node begins: a mapping's own token is its first colon.
func tokenOf(n ast.Node) *token.Token {
	switch m := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			return m.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return m.Key.GetToken()
	}
	return n.GetToken()
}

// Mapping reads a mapping's members. name says whose they are.
func (n Node) Mapping(name string, m Members) error { return n.MappingBut(name, m, nil) }

// MappingBut is Mapping, where but may have a text of its own, not "", for a member that is
// not known.
func (n Node) MappingBut(name string, m Members, but func(member string) string) error {
	values, ok := n.values()
	if !ok {
		return n.Fail("%s: write members, such as %s: …", name, slices.Sorted(maps.Keys(m))[0])
	}
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		at := Node{n.file, v.Key}
		key, err := at.Scalar("a name")
		if err != nil {
			return err
		}
		read, known := m[key]
		switch {
		case !known:
			return unknown(at, name, key, m, but)
		case seen[key]:
			return at.Fail("%s: %s is there twice", name, key)
		}
		seen[key] = true
		value := Node{n.file, v.Value}
		if value.Null() {
			return at.Fail("%s has no value; take it out for the default", key)
		}
		if err := read(key, value); err != nil {
			return err
		}
	}
	return nil
}

// unknown names the member that was probably meant.
func unknown(at Node, name, key string, m Members, but func(string) string) error {
	if but != nil {
		if text := but(key); text != "" {
			return at.Fail("%s: %s", name, text)
		}
	}
	names := slices.Sorted(maps.Keys(m))
	if meant := near.Name(key, names); meant != "" {
		return at.Fail("%s: there is no %q; did you mean %q?", name, key, meant)
	}
	return at.Fail("%s: there is no %q; there is %s", name, key, strings.Join(names, ", "))
}

func (n Node) values() ([]*ast.MappingValueNode, bool) {
	switch m := n.node.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// Free is the members of a mapping whose names the file chooses, in its order; name says
// whose they are. Each is there once, and its name is text that can be seen.
func (n Node) Free(name string) ([]Member, error) {
	values, ok := n.values()
	if !ok {
		return nil, n.Fail("%s is a mapping; write members, such as {a: 1}", name)
	}
	out := make([]Member, 0, len(values))
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		at := Node{n.file, v.Key}
		key, ok := v.Key.(*ast.StringNode)
		switch {
		case !ok:
			return nil, at.Fail("%s: a member's name is text; put this one in quotes", name)
		case key.Value == "":
			return nil, at.Fail("%s: a member's name is empty", name)
		case !Visible(key.Value):
			return nil, at.Fail("%s: %q holds a character that cannot be seen", name, key.Value)
		case len(key.Value) > maxWord:
			return nil, at.Fail("%s: a member's name has more than %d bytes", name, maxWord)
		case seen[key.Value]:
			return nil, at.Fail("%s: %s is there twice", name, key.Value)
		}
		seen[key.Value] = true
		out = append(out, Member{key.Value, at, Node{n.file, v.Value}})
	}
	return out, nil
}

// IsMapping reports whether the value is a mapping.
func (n Node) IsMapping() bool {
	_, ok := n.values()
	return ok
}

// List is the entries of a list; ok is false where the value is none.
func (n Node) List() (entries []Node, ok bool) {
	list, ok := n.node.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	entries = make([]Node, len(list.Values))
	for i, v := range list.Values {
		entries[i] = Node{n.file, v}
	}
	return entries, true
}

// Bool is true or false; ok is false where the value is neither.
func (n Node) Bool() (value, ok bool) {
	b, ok := n.node.(*ast.BoolNode)
	return ok && b.Value, ok
}

// Scalar is the text of a word or a whole number; name says what it is.
func (n Node) Scalar(name string) (string, error) {
	switch m := n.node.(type) {
	case *ast.StringNode:
		return m.Value, nil
	case *ast.IntegerNode:
		return m.GetToken().Value, nil
	}
	return "", n.Fail("%s: write one word here", name)
}

// maxWord is how many bytes one line of text may have.
const maxWord = 4096

// Line is one line of text, with nothing in it that cannot be seen.
func (n Node) Line(name string) (string, error) {
	text := ""
	switch m := n.node.(type) {
	case *ast.StringNode:
		text = m.Value
	case *ast.IntegerNode, *ast.FloatNode:
		text = m.GetToken().Value
	default:
		return "", n.Fail("%s: write one line of text here", name)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", n.Fail("%s is empty; take it out", name)
	case text != strings.TrimSpace(text):
		return "", n.Fail("%s begins or ends with a space", name)
	case len(text) > maxWord:
		return "", n.Fail("%s has more than %d bytes", name, maxWord)
	case !Visible(text):
		return "", n.Fail("%s holds a character that cannot be seen, such as the end of a line", name)
	}
	return text, nil
}

// Text is text of one or more lines, or what a number or a truth value is written as.
func (n Node) Text(name string) (string, error) {
	switch m := n.node.(type) {
	case *ast.StringNode:
		return m.Value, nil
	case *ast.LiteralNode:
		return m.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return m.GetToken().Value, nil
	}
	return "", n.Fail("%s: write text here", name)
}

// Plain is the text of a word that stands without quotes; "" where the value is none.
func (n Node) Plain() string {
	if m, ok := n.node.(*ast.StringNode); ok && m.Token.Type == token.StringType {
		return m.Value
	}
	return ""
}
