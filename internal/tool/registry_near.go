package tool

import (
	"strings"

	"airlock/internal/near"
)

// maxListed is how many names an error lists.
const maxListed = 30

// instead says what could have been meant, or what there is.
func instead(name string, names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	if meant := near.Name(name, names); meant != "" {
		return "did you mean " + meant + "?"
	}
	if len(names) > maxListed {
		return "there are " + strings.Join(names[:maxListed], ", ") + ", …"
	}
	return "there are " + strings.Join(names, ", ")
}
