package prompt

import (
	"slices"
	"unicode"
)

// Bounds of what can be taken back.
const (
	maxUndo     = 200     // steps
	maxUndoText = 1 << 20 // characters of all of them together
)

// A line is the text that is edited, and the place in it.
type line struct {
	text   []rune
	pos    int
	killed []rune // what was cut last

	undo   []state
	typing bool // the last change typed a letter: the next one belongs to it
}

type state struct {
	text []rune
	pos  int
}

func (l *line) string() string { return string(l.text) }

// offset is the place in bytes.
func (l *line) offset() int { return len(string(l.text[:l.pos])) }

// set makes text the line's, with the place at its end.
func (l *line) set(text string) {
	l.save()
	l.text = []rune(text)
	l.pos = len(l.text)
}

// save keeps the line to come back to.
func (l *line) save() {
	l.typing = false
	l.undo = append(l.undo, state{slices.Clone(l.text), l.pos})
	first, size := len(l.undo), 0
	for first > 0 && len(l.undo)-first < maxUndo {
		if size += len(l.undo[first-1].text); size > maxUndoText {
			break
		}
		first--
	}
	l.undo = slices.Delete(l.undo, 0, first)
}

// back takes the last change back.
func (l *line) back() bool {
	n := len(l.undo)
	if n == 0 {
		return false
	}
	l.text, l.pos = l.undo[n-1].text, l.undo[n-1].pos
	l.undo = l.undo[:n-1]
	l.typing = false
	return true
}

// insert puts text at the place, as far as it fits.
func (l *line) insert(s string, typed bool) bool {
	if len(l.string())+len(s) > maxText {
		return false
	}
	if !typed || !l.typing || s == " " {
		l.save()
	}
	l.typing = typed
	add := []rune(s)
	l.text = slices.Insert(l.text, l.pos, add...)
	l.pos += len(add)
	return true
}

// remove takes the text between two places away.
func (l *line) remove(from, to int, keep bool) bool {
	if from >= to {
		return false
	}
	l.save()
	if keep {
		l.killed = slices.Clone(l.text[from:to])
	}
	l.text = slices.Delete(l.text, from, to)
	l.pos = from
	return true
}

// left is the place before the character before the place, with what combines with it.
func (l *line) left() int {
	i := l.pos
	for i > 0 {
		i--
		if !combines(l.text[i]) {
			break
		}
	}
	return i
}

func (l *line) right() int {
	i := min(l.pos+1, len(l.text))
	for i < len(l.text) && combines(l.text[i]) {
		i++
	}
	return i
}

func (l *line) wordLeft() int {
	i := l.pos
	for i > 0 && !wordly(l.text[i-1]) {
		i--
	}
	for i > 0 && wordly(l.text[i-1]) {
		i--
	}
	return i
}

// argLeft is wordLeft where a word is whatever has no space in it.
func (l *line) argLeft() int {
	i := l.pos
	for i > 0 && unicode.IsSpace(l.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(l.text[i-1]) {
		i--
	}
	return i
}

func (l *line) wordRight() int {
	i := l.pos
	for i < len(l.text) && !wordly(l.text[i]) {
		i++
	}
	for i < len(l.text) && wordly(l.text[i]) {
		i++
	}
	return i
}

func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || combines(r) || r == '_' }

// start and end are those of the line of the text that the place is in.
func (l *line) start() int {
	i := l.pos
	for i > 0 && l.text[i-1] != '\n' {
		i--
	}
	return i
}

func (l *line) end() int {
	i := l.pos
	for i < len(l.text) && l.text[i] != '\n' {
		i++
	}
	return i
}

// up goes to the line above, if there is one.
func (l *line) up() bool {
	start := l.start()
	if start == 0 {
		return false
	}
	column := l.pos - start
	l.pos = start - 1
	l.pos = min(l.start()+column, start-1)
	return true
}

func (l *line) down() bool {
	end := l.end()
	if end == len(l.text) {
		return false
	}
	column := l.pos - l.start()
	l.pos = end + 1
	l.pos = min(end+1+column, l.end())
	return true
}
