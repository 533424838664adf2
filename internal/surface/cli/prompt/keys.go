package prompt

import (
	"strings"
	"unicode/utf8"
)

// An action is what a key means.
type action int

const (
	actNone action = iota
	actInsert
	actPaste
	actEnter
	actNewline
	actInterrupt
	actEndOfInput
	actDelete
	actBackspace
	actLeft
	actRight
	actUp
	actDown
	actHome
	actEnd
	actWordLeft
	actWordRight
	actKillEnd
	actKillStart
	actKillWord
	actKillWordRight
	actYank
	actUndo
	actPrevious
	actNext
	actOldest
	actNewest
	actSearch
	actSearchForward
	actComplete
	actClear
	actEdit
	actSuspend
	actAbort
	actEscape
)

// A key is what the person did, and the text that came of it.
type key struct {
	do   action
	text string
}

var controls = [32]action{
	0x01: actHome, 0x02: actLeft, 0x03: actInterrupt, 0x04: actEndOfInput, 0x05: actEnd, 0x06: actRight, 0x07: actAbort,
	0x08: actBackspace, 0x09: actComplete, 0x0a: actNewline, 0x0b: actKillEnd, 0x0c: actClear, 0x0d: actEnter,
	0x0e: actNext, 0x10: actPrevious, 0x12: actSearch, 0x13: actSearchForward, 0x15: actKillStart, 0x17: actKillWord,
	0x19: actYank, 0x1a: actSuspend, 0x1f: actUndo,
}

// A source gives the bytes of keys. next's second result is false where none came in time,
// soon being true, or where none will.
type source interface {
	nextByte(soon bool) (byte, bool)
}

// readKey reads a key that begins with b. Whatever comes, it takes no more than that key.
func readKey(b byte, src source) key {
	switch {
	case b == 0x1b:
		return readEscape(src)
	case b == 0x18: // Ctrl-X and another
		if c, ok := src.nextByte(false); ok && c == 0x05 {
			return key{do: actEdit}
		}
		return key{}
	case b == 0x7f:
		return key{do: actBackspace}
	case b < 0x20:
		return key{do: controls[b]}
	case b < utf8.RuneSelf:
		return key{actInsert, string(rune(b))}
	}
	return key{do: actInsert, text: readRune(b, src)}
}

// readRune reads the rest of a character.
func readRune(b byte, src source) string {
	buf := []byte{b}
	for n := runeLen(b); len(buf) < n; {
		c, ok := src.nextByte(true)
		if !ok {
			break
		}
		buf = append(buf, c)
	}
	return clean(string(buf))
}

func runeLen(b byte) int {
	switch {
	case b >= 0xf8:
		return 1
	case b >= 0xf0:
		return 4
	case b >= 0xe0:
		return 3
	case b >= 0xc0:
		return 2
	}
	return 1
}

// readEscape reads what follows an escape character: nothing, a letter with Alt, or a
// sequence of the terminal's.
func readEscape(src source) key {
	b, ok := src.nextByte(true)
	if !ok {
		return key{do: actEscape}
	}
	switch b {
	case '[':
		return readSequence(src)
	case 'O':
		if b, ok := src.nextByte(true); ok {
			return key{do: letters[b]}
		}
		return key{}
	case '\r', '\n':
		return key{do: actNewline}
	case 0x7f, 0x08:
		return key{do: actKillWord}
	}
	return key{do: alts[b]}
}

var alts = map[byte]action{
	'b': actWordLeft, 'f': actWordRight, 'd': actKillWordRight, '<': actOldest, '>': actNewest, 0x1b: actEscape,
}

var letters = map[byte]action{
	'A': actUp, 'B': actDown, 'C': actRight, 'D': actLeft, 'H': actHome, 'F': actEnd,
}

// readSequence reads a control sequence: parameters and one letter at its end.
func readSequence(src source) key {
	var params []byte
	for {
		b, ok := src.nextByte(true)
		if !ok {
			return key{}
		}
		if b >= 0x40 && b <= 0x7e {
			return sequence(string(params), b, src)
		}
		if b < 0x20 || len(params) > 32 {
			return key{}
		}
		params = append(params, b)
	}
}

func sequence(params string, end byte, src source) key {
	first, rest, modified := strings.Cut(params, ";")
	if end == '~' {
		switch first {
		case "1", "7":
			return key{do: actHome}
		case "4", "8":
			return key{do: actEnd}
		case "3":
			return key{do: actDelete}
		case "27": // 27;modifiers;character
			if strings.HasSuffix(rest, ";13") {
				return key{do: actNewline}
			}
		case "200":
			return key{actPaste, readPaste(src)}
		}
		return key{}
	}
	if end == 'u' { // character;modifiers
		if first == "13" && modified {
			return key{do: actNewline}
		}
		return key{}
	}
	do := letters[end]
	if modified {
		switch do {
		case actLeft:
			do = actWordLeft
		case actRight:
			do = actWordRight
		}
	}
	return key{do: do}
}

const pasteEnd = "\x1b[201~"

// readPaste reads what is pasted, to its end mark. What is more than a request may have
// is read and dropped.
func readPaste(src source) string {
	var b []byte
	var tail string
	for {
		c, ok := src.nextByte(false)
		if !ok {
			return clean(string(b))
		}
		if len(b) < maxText {
			b = append(b, c)
		}
		if tail += string([]byte{c}); len(tail) > len(pasteEnd) {
			tail = tail[1:]
		}
		if tail == pasteEnd {
			return clean(strings.TrimSuffix(string(b), pasteEnd))
		}
	}
}
