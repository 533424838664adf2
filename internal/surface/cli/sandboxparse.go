package cli

import (
	"math"
	"sort"
	"strings"
)

// labelsText is labels as they are typed, in order.
func labelsText(labels map[string]string) string {
	words := make([]string, 0, len(labels))
	for k, v := range labels {
		words = append(words, k+"="+v)
	}
	sort.Strings(words)
	return printable(strings.Join(words, " "))
}

// An operand is one side of a copy: a path here, one in a sandbox, or a tar on a stream.
type operand struct {
	id   string // of the sandbox, or its beginning; "": here
	path string
	tar  bool // "-": standard input or output
}

// parseOperand reads PATH, ID:PATH or -. A path here whose name holds a colon is told from
// an ID by a slash before the colon, as in ./a:b.
func parseOperand(word string) (operand, error) {
	if word == "-" {
		return operand{tar: true}, nil
	}
	id, path, ok := strings.Cut(word, ":")
	if !ok || id == "" || strings.ContainsAny(id, "/\\.") {
		if word == "" {
			return operand{}, usage("a path is empty; write PATH, ID:PATH, or - for a tar")
		}
		return operand{path: word}, nil
	}
	if !looksLikeID(id) {
		return operand{}, usage("%s is neither the ID of a sandbox nor a path; a file whose name has a colon is written ./%s", printable(id), printable(word))
	}
	if path == "" {
		return operand{}, usage("%s: say where in the sandbox: %s:PATH", printable(word), id)
	}
	return operand{id: id, path: path}, nil
}

// looksLikeID reports whether s could be the ID of a sandbox, or the beginning of one.
func looksLikeID(s string) bool {
	if s == "" || len(s) > 16 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }) < 0
}

// anyNumber of arguments.
const anyNumber = math.MaxInt
