package shellrisk

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func hasBrace(word *syntax.Word) bool {
	for _, part := range word.Parts {
		if lit, ok := part.(*syntax.Lit); ok && strings.Contains(lit.Value, "{") {
			return true
		}
	}
	return false
}

// braces multiplies brace expansions out; false where that makes too many words.
func braces(parts []syntax.WordPart, depth int) ([][]syntax.WordPart, bool) {
	out := [][]syntax.WordPart{nil}
	for _, part := range parts {
		var choices [][]syntax.WordPart
		if b, ok := part.(*syntax.BraceExp); ok {
			if choices, ok = braceChoices(b, depth); !ok {
				return nil, false
			}
		} else {
			choices = [][]syntax.WordPart{{part}}
		}
		if len(out)*len(choices) > maxFields {
			return nil, false
		}
		next := make([][]syntax.WordPart, 0, len(out)*len(choices))
		for _, head := range out {
			for _, tail := range choices {
				next = append(next, append(slices.Clip(head), tail...))
			}
		}
		out = next
	}
	return out, true
}

func braceChoices(b *syntax.BraceExp, depth int) (choices [][]syntax.WordPart, ok bool) {
	if depth > 8 {
		return nil, false
	}
	if b.Sequence {
		return sequence(b)
	}
	for _, elem := range b.Elems {
		inner, ok := braces(elem.Parts, depth+1)
		if !ok || len(choices)+len(inner) > maxFields {
			return nil, false
		}
		choices = append(choices, inner...)
	}
	return choices, true
}

// sequence counts {1..9} and {a..e}.
func sequence(b *syntax.BraceExp) (choices [][]syntax.WordPart, ok bool) {
	step := 1
	if len(b.Elems) == 3 {
		var err error
		if step, err = strconv.Atoi(b.Elems[2].Lit()); err != nil || step == 0 {
			return nil, false
		}
		step = max(step, -step)
	}
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	a, errA := strconv.Atoi(from)
	z, errZ := strconv.Atoi(to)
	letters := errA != nil || errZ != nil
	if letters {
		if len(from) != 1 || len(to) != 1 {
			return nil, false
		}
		a, z = int(from[0]), int(to[0])
	}
	if step < 0 || max(a, z)-min(a, z) > maxFields*64 || (max(a, z)-min(a, z))/step >= maxFields {
		return nil, false
	}
	if a > z {
		step = -step
	}
	for n := a; step > 0 && n <= z || step < 0 && n >= z; n += step {
		text := strconv.Itoa(n)
		if letters {
			text = string(rune(n))
		} else if len(from) > 1 && from[0] == '0' && len(text) < len(from) {
			text = strings.Repeat("0", len(from)-len(text)) + text
		}
		choices = append(choices, []syntax.WordPart{&syntax.Lit{Value: text}})
	}
	return choices, true
}
