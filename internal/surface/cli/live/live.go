// Package live draws a few lines at the end of a terminal again and again, and takes them
// away without a trace. It knows nothing of what they say.
package live

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rivo/uniseg"
)

// A Region is the lines. It is safe for concurrent use.
type Region struct {
	w             io.Writer
	width, height int

	mu     sync.Mutex
	drawn  int // lines on the screen
	ended  bool
	ticker *time.Ticker
	done   chan struct{}
	lines  func(frame int) []string
	frame  int
}

// frames are those of a spinner.
var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// Spinner is a spinner's sign at a frame.
func Spinner(frame int) string { return frames[frame%len(frames)] }

// interval is the time between two frames.
const interval = 100 * time.Millisecond

// Start draws what lines gives, now and ten times a second, on a terminal of that size. lines
// is called by one goroutine at a time; what it gives must be printable. End must be called.
func Start(w io.Writer, width, height int, lines func(frame int) []string) *Region {
	r := &Region{w: w, width: max(width, 20), height: max(height, 3), lines: lines, ticker: time.NewTicker(interval), done: make(chan struct{})}
	r.draw()
	go func() {
		defer close(r.done)
		for range r.ticker.C {
			if !r.draw() {
				return
			}
		}
	}()
	return r
}

// draw puts the lines where the last ones stood. It reports whether there is more to come.
func (r *Region) draw() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	lines := r.lines(r.frame)
	r.frame++
	if most := r.height - 1; len(lines) > most {
		lines = lines[len(lines)-most:] // the newest
	}
	var b strings.Builder
	r.back(&b)
	for _, line := range lines {
		b.WriteString(Fit(line, r.width-1))
		b.WriteString("\n")
	}
	r.drawn = len(lines)
	_, _ = io.WriteString(r.w, b.String())
	return true
}

// back goes to where the region begins, and clears all from there on.
func (r *Region) back(b *strings.Builder) {
	if r.drawn > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(r.drawn) + "A\r\x1b[J")
	}
	r.drawn = 0
}

// End takes the lines away. It may be called twice.
func (r *Region) End() {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.ended = true
	var b strings.Builder
	r.back(&b)
	_, _ = io.WriteString(r.w, b.String())
	r.ticker.Reset(time.Nanosecond) // wakes who draws, who sees that it is over
	r.mu.Unlock()
	<-r.done
	r.ticker.Stop()
}

// Fit cuts a line so that it takes no more than width columns.
func Fit(line string, width int) string {
	if len(line) <= width {
		return line // no character is wider than it is long
	}
	if uniseg.StringWidth(line) <= width {
		return line
	}
	var b strings.Builder
	used := 0
	for rest, state := line, -1; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width-1 {
			break
		}
		used += w
		b.WriteString(cluster)
	}
	return b.String() + "…"
}

// Wrap breaks a printable text into lines that take no more than width columns, between words
// where it can. What is shown as one character stays whole, however many columns its marks take.
func Wrap(text string, width int) []string {
	width = max(width, 10)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		used, begin, at := 0, 0, 0
		space := -1 // where the line could be broken
		for rest, state := line, -1; rest != ""; {
			var cluster string
			var w int
			cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
			for used+w > width && at > begin {
				end := at
				if space > begin {
					end = space
				}
				out = append(out, strings.TrimRight(line[begin:end], " "))
				begin = end
				for begin < at && line[begin] == ' ' {
					begin++
				}
				used, space = uniseg.StringWidth(line[begin:at]), -1
			}
			if cluster == " " {
				space = at
			}
			used += w
			at += len(cluster)
		}
		out = append(out, line[begin:])
	}
	return out
}
