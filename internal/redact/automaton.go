package redact

import (
	"slices"
	"sync"
)

// An automaton finds the words of all rules in one pass, in either case (Aho and Corasick,
// 1975). It does not change once it is made.
type automaton struct {
	class  [256]uint8 // of a byte: bytes that no word holds are class 0
	stride int
	next   []uint16 // next[state*stride+class]
	depth  []uint16 // of a state: how many of the last bytes it stands for
	words  [][]word // that end in a state, the longest first
}

// A word of a rule's.
type word struct {
	text string // lower case
	rule *rule
}

// machine is made when the first text is looked at: the program's start does not pay for it.
var machine = sync.OnceValue(func() *automaton { return newAutomaton(rules) })

func newAutomaton(rules []rule) *automaton {
	a := &automaton{stride: 1}
	for i := range rules {
		for _, text := range rules[i].words {
			for _, c := range []byte(text) {
				if a.class[c] == 0 {
					a.class[c] = uint8(a.stride)
					a.stride++
				}
			}
		}
	}
	for c := byte('a'); c <= 'z'; c++ {
		a.class[c-'a'+'A'] = a.class[c]
	}
	a.grow(0)
	for i := range rules {
		for _, text := range rules[i].words {
			a.add(word{text, &rules[i]})
		}
	}
	a.link()
	return a
}

// grow adds a state.
func (a *automaton) grow(depth uint16) uint16 {
	a.next = append(a.next, make([]uint16, a.stride)...)
	a.depth = append(a.depth, depth)
	a.words = append(a.words, nil)
	return uint16(len(a.depth) - 1)
}

// add enters a word into the tree.
func (a *automaton) add(w word) {
	state := uint16(0)
	for _, c := range []byte(w.text) {
		i := int(state)*a.stride + int(a.class[c])
		if a.next[i] == 0 {
			child := a.grow(a.depth[state] + 1)
			a.next[i] = child
		}
		state = a.next[i]
	}
	a.words[state] = append(a.words[state], w)
}

// link turns the tree into an automaton that never looks at a byte twice.
func (a *automaton) link() {
	fail := make([]uint16, len(a.depth))
	var queue []uint16
	for _, child := range a.next[:a.stride] {
		if child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		a.words[state] = slices.Concat(a.words[state], a.words[fail[state]])
		for c := range a.stride {
			child := &a.next[int(state)*a.stride+c]
			beside := a.next[int(fail[state])*a.stride+c]
			if *child == 0 {
				*child = beside
				continue
			}
			fail[*child] = beside
			queue = append(queue, *child)
		}
	}
}
