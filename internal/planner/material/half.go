package material

import "strings"

// withoutHalfKey takes out what is left of a private key whose beginning is not there, as on a
// screen that has scrolled: lines of base64 up to the line that ends a key.
func withoutHalfKey(text string) string {
	const end, begin = "-----END ", "-----BEGIN "
	at := strings.Index(text, end)
	if at < 0 {
		return text
	}
	line, _, _ := strings.Cut(text[at:], "\n")
	if !strings.Contains(line, "PRIVATE KEY-----") || strings.Contains(text[:at], begin) {
		return text
	}
	first := strings.LastIndexByte(text[:at], '\n') + 1
	for first > 0 {
		before := strings.LastIndexByte(text[:first-1], '\n') + 1
		if !base64Line(text[before : first-1]) {
			break
		}
		first = before
	}
	return text[:first] + "[redacted:private-key]" + text[at+len(strings.TrimRight(line, "\r")):]
}

// base64Line reports whether a line could be one of a key: long, and of nothing but base64.
func base64Line(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= 4 && strings.Trim(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == ""
}
