package manifest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxBytes is how long a manifest can be.
	MaxBytes  = 64 << 10
	maxDepth  = 32 // of objects and lists within each other
	maxTokens = 20_000
)

// A node is a YAML value with its place. Of YAML's means to say things twice there are
// none: no anchors, aliases, tags, merges or second documents.
type node struct {
	line, col int
	value     any // nil, bool, int64, uint64, float64, string, []*node or []member
	text      string
}

// A member is one key of a mapping and its value.
type member struct {
	name      string
	line, col int
	value     *node
}

// at makes a Problem of the node's place.
func (n *node) at(format string, args ...any) *Problem {
	return &Problem{Line: n.line, Column: n.col, Text: fmt.Sprintf(format, args...)}
}

func (m *member) at(format string, args ...any) *Problem {
	return &Problem{Line: m.line, Column: m.col, Text: fmt.Sprintf(format, args...)}
}

// kind names what the node is, for a person.
func (n *node) kind() string {
	switch n.value.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case int64, uint64, float64:
		return "a number"
	case string:
		return "text"
	case []*node:
		return "a list"
	}
	return "an object"
}

// parseYAML reads one document.
func parseYAML(data []byte) (root *node, problem *Problem) {
	if problem := plainText(data); problem != nil {
		return nil, problem
	}
	// The library reads what others wrote; should it fail at that, this manifest is the
	// one that is lost.
	defer func() {
		if r := recover(); r != nil {
			root, problem = nil, &Problem{Line: 1, Column: 1, Text: "the YAML cannot be read", Mend: "write it more plainly"}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if problem := checkTokens(tokens); problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxProblem(err)
	}
	var doc *ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if doc != nil {
			return nil, problemAt(d.Body.GetToken(), "a second document: a manifest is one")
		}
		doc = d
	}
	if doc == nil {
		return nil, &Problem{Line: 1, Column: 1, Text: "there is nothing in it", Mend: "see docs/plugins.md for a manifest to start from"}
	}
	return convert(doc.Body, 0)
}

// plainText refuses what no manifest needs, before a parser sees it.
func plainText(data []byte) *Problem {
	if len(data) > MaxBytes {
		return &Problem{Text: fmt.Sprintf("more than %d KiB", MaxBytes>>10), Mend: "move large schemas to files of their own"}
	}
	line, col := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return &Problem{Line: line, Column: col, Text: "not UTF-8"}
		case r == '\n':
			line, col = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &Problem{Line: line, Column: col, Text: fmt.Sprintf("a control character (%U)", r)}
		}
		i += size
		col++
	}
	return nil
}

// checkTokens refuses what repeats and what is nested too deeply for a parser that calls
// itself.
func checkTokens(tokens token.Tokens) *Problem {
	if len(tokens) > maxTokens {
		return &Problem{Text: fmt.Sprintf("more than %d words and signs", maxTokens)}
	}
	depth, line, compact := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, compact = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return problemAt(t, "anchors, aliases and merges are not taken: write it out")
		case token.TagType:
			return problemAt(t, "tags are not taken")
		case token.DirectiveType:
			return problemAt(t, "directives are not taken")
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if depth == 0 { // inside brackets a comma may follow
				compact++
			}
		}
		if depth > maxDepth || compact > maxDepth {
			return problemAt(t, fmt.Sprintf("nested more than %d deep", maxDepth))
		}
	}
	return nil
}

func problemAt(t *token.Token, text string) *Problem {
	p := &Problem{Line: 1, Column: 1, Text: text}
	if t != nil && t.Position != nil {
		p.Line, p.Column = max(t.Position.Line, 1), max(t.Position.Column, 1)
	}
	return p
}

func syntaxProblem(err error) *Problem {
	var known yaml.Error
	if !errors.As(err, &known) {
		return &Problem{Line: 1, Column: 1, Text: "not YAML: " + err.Error()}
	}
	return problemAt(known.GetToken(), "not YAML: "+known.GetMessage())
}

// convert makes a node of what the parser made.
func convert(from ast.Node, depth int) (*node, *Problem) {
	if from == nil {
		return nil, &Problem{Line: 1, Column: 1, Text: "a value is missing"}
	}
	t := from.GetToken()
	if depth > maxDepth {
		return nil, problemAt(t, fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	place := problemAt(t, "")
	n := &node{line: place.Line, col: place.Column}
	if t != nil {
		n.text = t.Value
	}
	switch v := from.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.value = v.Value
	case *ast.IntegerNode:
		n.value = v.Value
	case *ast.FloatNode:
		if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			return nil, n.at("a number that is too large")
		}
		n.value = v.Value
	case *ast.StringNode:
		n.value = v.Value
	case *ast.LiteralNode:
		n.value = v.Value.Value
	case *ast.SequenceNode:
		items := make([]*node, 0, len(v.Values))
		for _, item := range v.Values {
			child, problem := convert(item, depth+1)
			if problem != nil {
				return nil, problem
			}
			items = append(items, child)
		}
		n.value = items
	case *ast.MappingNode:
		return n.mapping(v.Values, depth)
	case *ast.MappingValueNode:
		return n.mapping([]*ast.MappingValueNode{v}, depth)
	default:
		return nil, n.at("%s is not taken here", strings.ToLower(from.Type().String()))
	}
	return n, nil
}

// mapping fills n with members, each of a name of its own.
func (n *node) mapping(values []*ast.MappingValueNode, depth int) (*node, *Problem) {
	members := make([]member, 0, len(values))
	seen := map[string]bool{}
	for _, v := range values {
		key, problem := convert(v.Key, depth+1)
		if problem != nil {
			return nil, problem
		}
		name, ok := key.value.(string)
		if !ok {
			return nil, key.at("a key must be text, and this is %s", key.kind())
		}
		if seen[name] {
			return nil, key.at("%q is there twice", name)
		}
		seen[name] = true
		value, problem := convert(v.Value, depth+1)
		if problem != nil {
			return nil, problem
		}
		members = append(members, member{name: name, line: key.line, col: key.col, value: value})
	}
	if len(members) > 0 {
		n.line, n.col = members[0].line, members[0].col
	}
	n.value = members
	return n, nil
}

// plain is the value as encoding/json has it.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case []*node:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item.plain()
		}
		return list
	case []member:
		object := make(map[string]any, len(v))
		for _, m := range v {
			object[m.name] = m.value.plain()
		}
		return object
	}
	return n.value
}
