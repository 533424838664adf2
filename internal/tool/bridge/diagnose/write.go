package diagnose

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Colours of a terminal.
const (
	plain  = "0"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// Write shows findings to a person, section by section, and sums them up. Without verbose a
// section in which all is well is one line. color is for a terminal.
func Write(w io.Writer, findings []Finding, verbose, color bool) {
	paint := func(how, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + how + "m" + text + "\x1b[" + plain + "m"
	}
	var errs, warnings, fixed int
	for _, section := range sections(findings) {
		well, shown := 0, 0
		var b strings.Builder
		for i := range findings {
			f := &findings[i]
			if f.Section != section {
				continue
			}
			mark, how := "error  ", red
			switch {
			case f.Fixed:
				mark, how = "mended ", cyan
				fixed++
			case f.Level == OK:
				mark, how = "ok     ", green
				well++
			case f.Level == Info:
				mark, how = "note   ", plain
			case f.Level == Warning:
				mark, how = "warning", yellow
				warnings++
			default:
				errs++
			}
			if !verbose && !f.Fixed && (f.Level == OK || f.Level == Info) {
				continue
			}
			shown++
			fmt.Fprintf(&b, "  %s  %s: %s\n", paint(how, mark), f.Name, f.Text)
			if f.Mend != "" {
				fmt.Fprintf(&b, "           → %s\n", f.Mend)
			}
		}
		switch {
		case shown > 0:
			fmt.Fprintf(w, "%s\n%s", paint(bold, section), b.String())
		case well > 0:
			fmt.Fprintf(w, "%s  %s\n", paint(bold, section), paint(green, "ok"))
		default:
			fmt.Fprintf(w, "%s  only notes, which --verbose shows\n", paint(bold, section))
		}
	}
	fmt.Fprintf(w, "\n%s, %s", count(errs, "error"), count(warnings, "warning"))
	if fixed > 0 {
		fmt.Fprintf(w, ", %d mended", fixed)
	}
	fmt.Fprintln(w)
}

// sections are those of findings, in the order in which they come.
func sections(findings []Finding) []string {
	var all []string
	seen := map[string]bool{}
	for i := range findings {
		if s := findings[i].Section; !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	return all
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// WriteJSON writes findings as one JSON object.
func WriteJSON(w io.Writer, findings []Finding) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{!Failed(findings), append([]Finding{}, findings...)})
}
