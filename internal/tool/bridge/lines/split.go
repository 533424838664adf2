package lines

import "bytes"

// A splitter cuts what an agent prints into lines. It keeps the one that has no end yet,
// and no more than it is told to.
type splitter struct {
	line []byte
	most int // bytes of a line, its end not counted
}

const keptLine = 64 << 10 // bytes of room that are kept for the next line

// next takes from data up to the end of a line. whole says that line is one, with its end;
// it is only good until the next call. long says that it has more than most bytes already:
// line is what there is of it then, and goes on in rest.
func (s *splitter) next(data []byte) (line, rest []byte, whole, long bool) {
	part, rest := data, []byte(nil)
	end := bytes.IndexByte(data, '\n')
	if end >= 0 {
		part, rest = data[:end+1], data[end+1:]
	}
	size := len(s.line) + len(part)
	if end >= 0 {
		size--
	}
	if size > s.most {
		return s.cut(), data, false, true
	}
	if end >= 0 && len(s.line) == 0 {
		return part, rest, true, false
	}
	s.line = append(s.line, part...)
	if end < 0 {
		return nil, nil, false, false
	}
	return s.cut(), rest, true, false
}

// cut is what there is of a line, as though it ended here.
func (s *splitter) cut() []byte {
	line := s.line
	s.line = nil
	if cap(line) <= keptLine {
		s.line = line[:0]
	}
	return line
}
