package manifest

import (
	"strings"

	"airlock/internal/near"
)

// instead says which of the known names was meant, or lists them.
func instead(name string, known []string) string {
	if meant := near.Name(name, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}
