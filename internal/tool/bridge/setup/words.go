package setup

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"airlock/internal/yamlfile"
)

const (
	maxTimeout     = 7 * day
	maxDescription = 4096 // bytes
)

// keep leaves a value for later: what it means hangs on others.
func keep(to *yamlfile.Node) yamlfile.Set {
	return func(_ string, n yamlfile.Node) error {
		*to = n
		return nil
	}
}

// boolean is true or false, and what the original's reader took for them: yes, no, on, off.
func boolean(to *bool) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		if old := yamlfile.OldBool(n.Plain()); old != nil {
			*to = *old
			return nil
		}
		return yamlfile.Bool(to)(name, n)
	}
}

// level is how much is logged.
func level(to *string) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		text, err := n.Line(name)
		if err != nil {
			return err
		}
		word, ok := levelOf(text)
		if !ok {
			return n.Fail("%s is %q; write DEBUG, INFO, WARNING or ERROR", name, text)
		}
		*to = word
		return nil
	}
}

func levelOf(text string) (string, bool) {
	switch word := strings.ToUpper(text); word {
	case "DEBUG", "INFO", "WARNING", "ERROR":
		return word, true
	}
	return "", false
}

// rotation is a number of bytes; 0 is none.
func rotation(to *int64) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		if text, err := n.Scalar(name); err == nil && text == "0" {
			*to = 0
			return nil
		}
		return yamlfile.Size(to)(name, n)
	}
}

// sanitizing is one of its kinds, or true or false as the original had it.
func sanitizing(to *Sanitizing) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		on := false
		if boolean(&on)(name, n) != nil {
			return yamlfile.OneOf(to, Strip, Refuse, Off)(name, n)
		}
		*to = Off
		if on {
			*to = Strip
		}
		return nil
	}
}

func days(to *time.Duration) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		number := 0
		if err := yamlfile.Whole(&number, 1, maxDays)(name, n); err != nil {
			return err
		}
		*to = time.Duration(number) * day
		return nil
	}
}

// timeout is a number of seconds, or a time span.
func timeout(to *time.Duration) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		text, err := n.Line(name)
		if err != nil {
			return err
		}
		d, ok := yamlfile.ParseSpan(text)
		if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s <= maxTimeout.Seconds() {
			d, ok = time.Duration(s*float64(time.Second)), true
		}
		switch {
		case !ok:
			return n.Fail("%s is %q; write seconds such as 300, or a time span such as 90s or 5m", name, text)
		case d < time.Millisecond || d > maxTimeout:
			return n.Fail("%s is %q; write a time from 1ms to 7d", name, text)
		}
		*to = d
		return nil
	}
}

// outputSize is how many bytes may be printed.
func outputSize(to *int64) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		if err := yamlfile.Size(to)(name, n); err != nil {
			return err
		}
		if *to > maxOutput {
			return n.Fail("%s is more than %dm, and all of it is held in memory; write less", name, maxOutput>>20)
		}
		return nil
	}
}

// prose is what people and models read: text of some lines.
func prose(to *string) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		text, err := n.Text(name)
		if err != nil {
			return err
		}
		text = strings.TrimSpace(text)
		hidden := func(c rune) bool { return !unicode.IsPrint(c) && c != '\n' && c != '\t' }
		switch {
		case len(text) > maxDescription:
			return n.Fail("%s has more than %d bytes", name, maxDescription)
		case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
			return n.Fail("%s holds a character that cannot be seen", name)
		}
		*to = text
		return nil
	}
}
