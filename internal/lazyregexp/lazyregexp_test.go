package lazyregexp_test

import (
	"testing"

	"airlock/internal/lazyregexp"
)

func TestRegexp(t *testing.T) {
	re := lazyregexp.New(`^(a+)b$`)
	if !re.MatchString("aab") || re.MatchString("ab ") || re.FindString("aab") != "aab" {
		t.Error("it does not match what it says")
	}
	if m := re.FindStringSubmatch("aab"); len(m) != 2 || m[1] != "aa" {
		t.Errorf("FindStringSubmatch = %q", m)
	}
}

func TestAnExpressionThatIsNoneIsFoundWhenItIsUsed(t *testing.T) {
	re := lazyregexp.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	re.MatchString("x")
}
