// Package yamlfile reads a strict part of YAML: one document of mappings, lists and plain
// values, in which nothing is said twice and what is not known is an error with its place.
// There are no anchors, aliases, tags and merges, with which little text could mean much.
// The package knows nothing of what a file is for.
package yamlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// An Error is what is wrong with a file, and where.
type Error struct {
	File         string
	Line, Column int // from 1; 0 where it is about the whole file
	Text         string
}

// Error is "file:line:column: text", as editors know it, on one line on which everything
// can be seen.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	return visible(at + ": " + e.Text)
}

// Bounds are what a file may hold at most.
type Bounds struct {
	Bytes int

	// Collections is how many lists, entries of lists and mappings in braces there may be,
	// and so how deep they can nest: the parser is recursive.
	Collections int

	// Depth is how deep brackets, and dashes on one line, may nest; 0: as Collections says.
	Depth int

	// Words is how many words and signs there may be, and so how many members: the parser
	// compares each with those before it. 0: as many as Bytes leaves room for.
	Words int

	// What the file is, in the plural, for errors: "settings".
	What string
}

// Parse reads the text of a file; path is its name in errors, which are an *Error. Of a
// file that holds nothing the Node is empty.
func Parse(path string, text []byte, b Bounds) (root Node, err error) {
	r := &reader{path, b}
	defer func() {
		if recover() != nil { // the parser's: a file must not end the program
			root, err = Node{}, r.whole("this is not YAML that can be read")
		}
	}()
	switch {
	case len(text) > b.Bytes:
		return Node{}, r.whole(fmt.Sprintf("it has more than %d bytes", b.Bytes))
	case !utf8.Valid(text):
		return Node{}, r.whole("it is not UTF-8")
	}
	// Some editors begin a file with a mark of its encoding, and end lines in two signs.
	plain := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	tokens := lexer.Tokenize(plain)
	if err := r.check(tokens); err != nil {
		return Node{}, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return Node{}, r.syntax(err)
	}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case i > 0:
			return Node{}, Node{path, doc.Body}.Fail("there is a second document; take the --- out")
		default:
			root = Node{path, doc.Body}
		}
	}
	return root, nil
}

// A reader reads one file.
type reader struct {
	file   string
	bounds Bounds
}

// check refuses what such files do not need and what could make little text mean much.
func (r *reader) check(tokens token.Tokens) error {
	if r.bounds.Words > 0 && len(tokens) > r.bounds.Words {
		return r.whole(fmt.Sprintf("it has more than %d words and signs", r.bounds.Words))
	}
	count, depth, dashes, line := 0, 0, 0, 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.AliasType:
			return r.at(tk, r.bounds.What+" have no anchors, aliases, tags or merges; what begins with * is written in quotes")
		case token.AnchorType, token.TagType, token.MergeKeyType, token.DirectiveType:
			return r.at(tk, r.bounds.What+" have no anchors, aliases, tags or merges")
		case token.MappingStartType, token.SequenceStartType:
			count, depth = count+1, depth+1
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			if tk.Position.Line != line {
				line, dashes = tk.Position.Line, 0
			}
			count, dashes = count+1, dashes+1
		}
		switch {
		case count > r.bounds.Collections:
			return r.at(tk, "there are too many lists and mappings up to here")
		case r.bounds.Depth > 0 && max(depth, dashes) > r.bounds.Depth:
			return r.at(tk, fmt.Sprintf("lists and mappings are nested more than %d deep", r.bounds.Depth))
		}
	}
	return nil
}

func (r *reader) whole(text string) error { return &Error{File: r.file, Text: text} }

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
	return r.whole(err.Error())
}

// Visible reports whether all of a text can be seen: it has no line's end, nothing that
// controls a terminal, and nothing that turns its surroundings around.
func Visible(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// visible writes what cannot be seen as a Go string does.
func visible(text string) string {
	if Visible(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
		i += size
	}
	return b.String()
}
