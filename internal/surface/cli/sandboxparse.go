package cli

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

const (
	maxLabel      = 63  // bytes of a label's key, and of a snapshot's or template's name
	maxLabelValue = 256 // bytes
)

// parseLabels reads KEY=VALUE words.
func parseLabels(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return nil, usage("--label %s: write KEY=VALUE", printable(w))
		}
		if len(key) > maxLabel || strings.IndexFunc(key, notInName) >= 0 {
			return nil, usage("--label %s: a key has at most %d letters, digits, and . _ - /", printable(w), maxLabel)
		}
		if len(value) > maxLabelValue {
			return nil, usage("--label %s: a value has at most %d bytes", printable(key), maxLabelValue)
		}
		if printable(value) != value {
			return nil, usage("--label %s: its value holds what cannot be shown: %s", printable(key), printable(value))
		}
		out[key] = value
	}
	return out, nil
}

func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-/", r))
}

// labelsText is labels as they are typed, in order.
func labelsText(labels map[string]string) string {
	words := make([]string, 0, len(labels))
	for k, v := range labels {
		words = append(words, k+"="+v)
	}
	sort.Strings(words)
	return printable(strings.Join(words, " "))
}

// A portPair is a port of a sandbox and the host's that leads to it; 0: any that is free.
type portPair struct{ inside, host int }

// parsePort reads PORT or PORT:HOSTPORT.
func parsePort(word string) (portPair, error) {
	in, out, both := strings.Cut(word, ":")
	inside, err := portNumber(in)
	if err != nil || inside == 0 {
		return portPair{}, fmt.Errorf("%s: write PORT or PORT:HOSTPORT, each from 1 to 65535", printable(word))
	}
	pair := portPair{inside, inside}
	if both {
		if pair.host, err = portNumber(out); err != nil {
			return portPair{}, fmt.Errorf("%s: the host's port is a number to 65535, and 0 takes one that is free", printable(word))
		}
	}
	return pair, nil
}

func portNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && s[0] == '+' {
		err = strconv.ErrSyntax
	}
	return int(n), err
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
