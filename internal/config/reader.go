package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"airlock/internal/near"
)

// An Error is what is wrong with the file, and where.
type Error struct {
	File         string
	Line, Column int // from 1; 0 where it is about the whole file
	Text         string
}

// Error is "file:line:column: text", as editors know it.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	return at + ": " + e.Text
}

// A reader reads one file.
type reader struct{ file string }

func (r *reader) fail(n ast.Node, format string, args ...any) error {
	e := &Error{File: r.file, Text: fmt.Sprintf(format, args...)}
	if tk := tokenOf(n); tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
	}
	return e
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

// maxCollections is how many lists, entries of lists and mappings in braces there may be, and
// so how deep they can nest: the parser is recursive.
const maxCollections = 1000

// parse gives the document; nil where the file holds none.
func (r *reader) parse(text []byte) (root ast.Node, err error) {
	defer func() {
		if recover() != nil { // the parser's: a file must not end the program
			root, err = nil, &Error{File: r.file, Text: "this is not YAML that can be read"}
		}
	}()
	switch {
	case len(text) > maxFile:
		return nil, &Error{File: r.file, Text: fmt.Sprintf("it has more than %d bytes", maxFile)}
	case !utf8.Valid(text):
		return nil, &Error{File: r.file, Text: "it is not UTF-8"}
	}
	tokens := lexer.Tokenize(strings.ReplaceAll(string(text), "\r\n", "\n"))
	if err := r.check(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, r.syntax(err)
	}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case i > 0:
			return nil, r.fail(doc.Body, "there is a second document; take the --- out")
		default:
			root = doc.Body
		}
	}
	return root, nil
}

// check refuses what settings do not need and what could make little text mean much.
func (r *reader) check(tokens token.Tokens) error {
	count := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.AliasType:
			return r.at(tk, "settings have no anchors, aliases, tags or merges; what begins with * is written in quotes")
		case token.AnchorType, token.TagType, token.MergeKeyType, token.DirectiveType:
			return r.at(tk, "settings have no anchors, aliases, tags or merges")
		case token.MappingStartType, token.SequenceStartType, token.SequenceEntryType, token.MappingKeyType:
			if count++; count > maxCollections {
				return r.at(tk, "there are too many lists and mappings up to here")
			}
		}
	}
	return nil
}

func (r *reader) at(tk *token.Token, text string) error {
	e := &Error{File: r.file, Text: text}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
	}
	return e
}

// syntax is the parser's error as ours.
func (r *reader) syntax(err error) error {
	if wrong, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		return r.at(wrong.Token, wrong.Message)
	}
	if twice, ok := errors.AsType[*yaml.DuplicateKeyError](err); ok {
		return r.at(twice.Token, twice.Message)
	}
	return &Error{File: r.file, Text: err.Error()}
}

// mapping reads a mapping's members. name says whose they are.
func (r *reader) mapping(n ast.Node, name string, m members) error {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return r.fail(n, "%s: write members, such as %s: …", name, slices.Sorted(maps.Keys(m))[0])
	}
	seen := map[string]bool{}
	for _, v := range values {
		key, err := r.scalar(v.Key, "a name")
		if err != nil {
			return err
		}
		read, known := m[key]
		switch {
		case !known && name == "ai" && secret(key):
			return r.fail(v.Key, "ai: a key does not belong in a file; set key_command to a command that prints it, such as pass show openai, or set the provider's own variable")
		case !known:
			return r.fail(v.Key, "%s: there is no %q%s", name, key, suggest(key, m))
		case seen[key]:
			return r.fail(v.Key, "%s: %s is there twice", name, key)
		}
		seen[key] = true
		if v.Value == nil || v.Value.Type() == ast.NullType {
			return r.fail(v.Key, "%s has no value; take it out for the default", key)
		}
		if err := read(r, key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// scalar is the text of a value that is no collection.
func (r *reader) scalar(n ast.Node, name string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode:
		return n.GetToken().Value, nil
	}
	return "", r.fail(n, "%s: write one word here", name)
}

// suggest names the member that was probably meant.
func suggest(key string, m members) string {
	names := slices.Sorted(maps.Keys(m))
	if meant := near.Name(key, names); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return "; there is " + strings.Join(names, ", ")
}
