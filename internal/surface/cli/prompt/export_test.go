package prompt

import "time"

// Patient makes a prompt wait for other sessions for as long as they may take on a busy machine, disk included.
func Patient(p *Prompt) { p.history.wait = time.Minute }

// What the fuzz targets try.
var (
	Decode = decode
	Encode = encode
)

// Keys reads all keys of some bytes and gives their texts.
func Keys(data []byte) []string {
	src := &bytesSource{data}
	var texts []string
	for {
		b, ok := src.nextByte(false)
		if !ok {
			return texts
		}
		texts = append(texts, readKey(b, src).text)
	}
}

type bytesSource struct{ data []byte }

func (s *bytesSource) nextByte(bool) (byte, bool) {
	if len(s.data) == 0 {
		return 0, false
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b, true
}

// Rows lays a text out.
func Rows(text string, pos, columns int) (rows []string, used []int, row, column int) {
	l := lay("> ", ". ", []rune(text), pos, columns)
	for _, r := range l.rows {
		rows, used = append(rows, r.text), append(used, r.used)
	}
	return rows, used, l.row, l.column
}
