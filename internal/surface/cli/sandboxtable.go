package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"airlock/internal/surface/cli/live"
)

// A table is rows of printable cells below their titles. A title that begins with a space
// has its column's cells on the right.
type table struct {
	titles []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// lines are the table's, none wider than width columns; 0: they are as wide as they need to
// be. The last column gives way first, then the widest one.
func (t *table) lines(width int) []string {
	widths := make([]int, len(t.titles))
	all := append([][]string{nil}, t.rows...)
	for _, title := range t.titles {
		all[0] = append(all[0], strings.TrimPrefix(title, " "))
	}
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	narrow(widths, width)
	out := make([]string, 0, len(all))
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			if uniseg.StringWidth(cell) > widths[i] {
				cell = live.Fit(cell, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell))
			if strings.HasPrefix(t.titles[i], " ") {
				cell, pad = pad+cell, ""
			}
			b.WriteString(cell + pad + "  ")
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

const (
	gap       = 2  // columns between two cells
	leastCell = 10 // columns that a cell keeps where it has to give way
)

// narrow makes columns fit into width.
func narrow(widths []int, width int) {
	if width <= 0 || len(widths) == 0 {
		return
	}
	over := gap * (len(widths) - 1)
	for _, w := range widths {
		over += w
	}
	over -= width
	last := len(widths) - 1
	if less := min(over, widths[last]-leastCell); less > 0 {
		widths[last] -= less
		over -= less
	}
	for over > 0 {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastCell {
			return // it cannot be shown so narrow; the terminal wraps it
		}
		widths[widest]--
		over--
	}
}

// show writes the table to stdout, as wide as the terminal is where it is one.
func (p *Program) show(t *table) error {
	return p.writeLine(strings.Join(t.lines(columns(p.Stdout)), "\n"))
}

// write writes an answer, or a part of it, to stdout.
func (p *Program) write(text string) error {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		return unwritten(err)
	}
	return nil
}

func (p *Program) writeLine(text string) error { return p.write(text + "\n") }

// columns is how wide the terminal is that v is; 0: it is none.
func columns(v any) int {
	f, ok := v.(*os.File)
	if !ok || !isTerminal(v) {
		return 0
	}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
		return n
	}
	return 80
}

// rows is how high it is.
func rows(v any) int {
	if f, ok := v.(*os.File); ok {
		if _, n, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 24
}

// span is how long something took or has been, in its largest units: "45s", "3m", "2h", "4d".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// since is how long ago t was; "-" for the zero time.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(now.Sub(t))
}

// bytesText is a number of bytes in the unit that --memory and --disk take: "512M", "1.5G";
// "-" for one that is not known.
func bytesText(n int64) string {
	switch {
	case n < 0:
		return "-"
	case n < 1<<10:
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n)/(1<<10), 0
	for ; v >= 999.95 && unit < len("KMGT")-1; unit++ {
		v /= 1 << 10
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0") + "KMGT"[unit:unit+1]
}

// countText is a number; "-" for one that is not known.
func countText(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// unwritten is an answer that nobody took.
func unwritten(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fail(exitSignalBase+signalPipe, nil)
	}
	return fail(exitFailed, fmt.Errorf("write the answer: %w", err))
}
