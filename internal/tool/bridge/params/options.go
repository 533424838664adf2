package params

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of a command line. Linux takes 128 KiB in one word and, with the environment and
// a pointer for each word, 2 MiB in all; macOS 1 MiB in all.
const (
	maxWord  = 100 << 10
	maxWords = 512 << 10
	perWord  = 9 // what a word takes beside its bytes
)

// Options are the words of the command line that tell an agent its parameters: those that
// its entry's args name, in that order. No word but a flag begins with "-". prepared is
// what Prepare gave, which has found every error that there can be here.
func (r *Rules) Options(prepared json.RawMessage) ([]string, error) {
	values, err := object(prepared)
	if err != nil {
		return nil, fmt.Errorf("options of %s: the text %w", r.agent.Name, err)
	}
	return r.options(values)
}

func (r *Rules) options(values map[string]any) ([]string, error) {
	var line words
	for _, option := range r.agent.Args {
		value := values[option.Param]
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			if err := line.option(option.Param, option.Flag, v); err != nil {
				return nil, err
			}
		}
	}
	return line.words, nil
}

// words are those of a command line, and what room they take.
type words struct {
	words []string
	size  int
}

// option adds one option: a flag with what stands behind it. A list within a list is told
// as an object is, in JSON: laid out flat, it would read as another value.
func (w *words) option(param, flag string, value any) error {
	var text string
	switch v := value.(type) {
	case nil:
		return nil
	case bool:
		if !v {
			return nil
		}
		return w.add(param, flag)
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		data, err := encode(v)
		if err != nil {
			return fmt.Errorf("write %s: %w", param, err)
		}
		text = string(data)
	}
	if strings.HasPrefix(text, "-") {
		return w.add(param, flag+"="+text)
	}
	return w.add(param, flag, text)
}

func (w *words) add(param string, more ...string) error {
	for _, word := range more {
		if strings.ContainsRune(word, 0) {
			return invalid("Invalid %s: has a NUL character, which cannot be on a command line: leave it out, "+
				"or take %s out of the agent's args and read it from stdin", param, param)
		}
		if len(word) > maxWord {
			return invalid("Invalid %s: has %d bytes, more than the %d that a word of a command line may have: "+
				"take %s out of the agent's args and read it from stdin", param, len(word), maxWord, param)
		}
		w.size += len(word) + perWord
		if w.size > maxWords {
			return invalid("Invalid %s: with it, the options take more than the %d bytes that a command line has room for: "+
				"take %s out of the agent's args and read it from stdin", param, maxWords, param)
		}
		w.words = append(w.words, word)
	}
	return nil
}
