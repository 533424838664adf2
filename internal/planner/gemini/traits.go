package gemini

import (
	"strconv"
	"strings"

	"airlock/internal/planner"
)

// Traits are what differs between the models.
type traits struct {
	formats []planner.Format

	// isSigned: calls of functions come with signatures and are refused without one.
	isSigned bool

	// hasThoughts: thoughts can be asked for. Those that do not think refuse such a request.
	hasThoughts bool
}

// traitsOf tells a model's traits by its name. One that is not known is taken for a new one.
func traitsOf(path string) traits {
	name := strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
	major, minor, ok := generation(name)
	if ok && major < 3 {
		return traits{
			// Tools, which are always offered, exclude a format of the answer's text.
			formats:     []planner.Format{planner.FormatTool, planner.FormatSchema, planner.FormatJSON, planner.FormatText},
			hasThoughts: major == 2 && minor >= 5 && !strings.Contains(name, "lite"),
		}
	}
	isNew := ok || strings.HasPrefix(name, "gemini-") && strings.HasSuffix(name, "-latest") // a name for the newest
	return traits{
		formats:     []planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatJSON, planner.FormatText},
		isSigned:    isNew,
		hasThoughts: isNew,
	}
}

// generation reads 2 and 5 from gemini-2.5-flash.
func generation(name string) (major, minor int, ok bool) {
	rest, ok := strings.CutPrefix(name, "gemini-")
	if !ok {
		return 0, 0, false
	}
	number, _, _ := strings.Cut(rest, "-")
	whole, part, hasPart := strings.Cut(number, ".")
	major, err := strconv.Atoi(whole)
	if err != nil {
		return 0, 0, false
	}
	if hasPart {
		if minor, err = strconv.Atoi(part); err != nil {
			return 0, 0, false
		}
	}
	return major, minor, true
}
