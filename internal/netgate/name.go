package netgate

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxName  = 253 // bytes of a name, its last dot not counted
	maxLabel = 63
)

// canonicalName is the one spelling of a host name: ASCII, lower case, without the last dot. An IPv4
// address comes out as it is; any other spelling of a number is refused, since what
// it stands for depends on who reads it.
func canonicalName(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("the host is missing")
	case len(name) > 4*maxName:
		return "", errors.New("the host's name is too long")
	case !utf8.ValidString(name):
		return "", errors.New("the host's name is no text")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", fmt.Errorf("%s is no name of a host", quote(name))
		}
		name = ascii
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if len(name) > maxName {
		return "", fmt.Errorf("the host's name is too long: %d bytes, at most %d", len(name), maxName)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", fmt.Errorf("%s is no name of a host: %w", quote(name), err)
		}
		last = label
	}
	if isNumber(last) {
		if _, err := netip.ParseAddr(name); err != nil {
			return "", fmt.Errorf("%s is a number: write an address as four decimal numbers", quote(name))
		}
	}
	return name, nil
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("a part of it is empty")
	case len(label) > maxLabel:
		return fmt.Errorf("a part of it has more than %d bytes", maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("a part of it begins or ends with -")
	}
	for i := range len(label) {
		if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("%s does not belong there", quote(label[i:i+1]))
		}
	}
	return nil
}

// isNumber reports whether a name that ends in this label is taken for an address by
// some resolvers: all digits, or hexadecimal.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
