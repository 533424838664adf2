package rpc

// str passes a string token.
func (s *scanner) str() error {
	s.i++ // the opening quote
	for i := s.i; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return nil
		case c < ' ':
			return errSyntax
		case c == '\\':
			n, err := s.escape(i)
			if err != nil {
				return err
			}
			i += n - 1
		}
	}
	return errSyntax
}

// escape returns the length of the escape sequence at i.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.b) {
		return 0, errSyntax
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, errSyntax
	}
	u, ok := s.hex4(i)
	switch {
	case !ok:
		return 0, errSyntax
	case u < 0xD800 || u > 0xDFFF:
		return 6, nil
	case u >= 0xDC00:
		return 0, errSurrogate
	}
	if low, ok := s.hex4(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
		return 0, errSurrogate
	}
	return 12, nil
}

// hex4 reads \uXXXX at i.
func (s *scanner) hex4(i int) (rune, bool) {
	if i+6 > len(s.b) || s.b[i] != '\\' || s.b[i+1] != 'u' {
		return 0, false
	}
	var u rune
	for _, c := range s.b[i+2 : i+6] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return u, true
}
