package diagnose

import (
	"encoding/json"
	"fmt"
	"io"
)

// Write shows findings to a person, section by section. Without verbose, what is well is one
// line a section. color is for a terminal.
func Write(w io.Writer, findings []Finding, verbose, color bool) {
	for i := range findings {
		fmt.Fprintf(w, "%s  %s\n", findings[i].Name, findings[i].Text)
	}
}

// WriteJSON writes findings as one JSON object.
func WriteJSON(w io.Writer, findings []Finding) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{!Failed(findings), append([]Finding{}, findings...)})
}
