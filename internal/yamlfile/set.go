package yamlfile

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/internal/near"
)

// Section is a mapping within one.
func Section(m Members) Set {
	return func(name string, n Node) error { return n.Mapping(name, m) }
}

// Bool is true or false.
func Bool(to *bool) Set {
	return func(name string, n Node) error {
		b, ok := n.Bool()
		if !ok {
			return n.Fail("%s: write true or false", name)
		}
		*to = b
		return nil
	}
}

// Whole is a whole number from least to most.
func Whole[T int | int64](to *T, least, most T) Set {
	return func(name string, n Node) error {
		text, err := n.Scalar(name)
		if err != nil {
			return err
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < int64(least) || v > int64(most) {
			return n.Fail("%s is %q; write a whole number from %d to %d", name, text, least, most)
		}
		*to = T(v)
		return nil
	}
}

// Span is a time span above nothing: 90d, 12h, 5m.
func Span(to *time.Duration) Set {
	return func(name string, n Node) error {
		text, err := n.Scalar(name)
		if err != nil {
			return err
		}
		d, ok := ParseSpan(text)
		if !ok {
			return n.Fail("%s is %q; write a time span such as 90d, 12h or 5m", name, text)
		}
		*to = d
		return nil
	}
}

// ParseSpan reads a time span above nothing.
func ParseSpan(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		ok = err == nil && n > 0 && n <= uint64(math.MaxInt64/(24*time.Hour))
		return time.Duration(n) * 24 * time.Hour, ok
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

// Size is a number of bytes above nothing: 256m, 1g.
func Size(to *int64) Set {
	return func(name string, n Node) error {
		text, err := n.Scalar(name)
		if err != nil {
			return err
		}
		bytes, ok := ParseSize(text)
		if !ok {
			return n.Fail("%s is %q; write a number of bytes such as 512k, 256m or 1g", name, text)
		}
		*to = bytes
		return nil
	}
}

// ParseSize reads a number of bytes above nothing.
func ParseSize(text string) (int64, bool) {
	text = strings.ToLower(text)
	shift := 0
	if text != "" {
		if i := strings.IndexByte("kmgt", text[len(text)-1]); i >= 0 {
			shift, text = 10*(i+1), text[:len(text)-1]
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n) << shift, err == nil && n > 0 && n <= math.MaxInt64>>shift
}

// OneOf is one of a few words.
func OneOf[T ~string](to *T, all ...T) Set {
	return func(name string, n Node) error {
		text, err := n.Line(name)
		if err != nil {
			return err
		}
		if slices.Contains(all, T(text)) {
			*to = T(text)
			return nil
		}
		words := make([]string, len(all))
		for i, word := range all {
			words[i] = string(word)
		}
		if meant := near.Name(text, words); meant != "" {
			return n.Fail("%s: there is no %q; did you mean %q?", name, text, meant)
		}
		return n.Fail("%s: there is no %q; there is %s", name, text, strings.Join(words, ", "))
	}
}

// Line is one line of text.
func Line(to *string) Set {
	return func(name string, n Node) (err error) {
		*to, err = n.Line(name)
		return err
	}
}

// Lines is a list of at most so many lines; example is how one looks, for errors.
func Lines(to *[]string, most int, example string) Set {
	return func(name string, n Node) error {
		list, ok := n.List()
		switch {
		case !ok:
			return n.Fail("%s is a list, such as %s", name, example)
		case len(list) > most:
			return n.Fail("%s has more than %d entries", name, most)
		}
		out := make([]string, 0, len(list))
		for _, item := range list {
			text, err := item.Line(name)
			if err != nil {
				return err
			}
			out = append(out, text)
		}
		*to = out
		return nil
	}
}
