package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"airlock/internal/changes"
	"airlock/internal/image"
	"airlock/internal/surface/cli/live"
)

// pulls shows how the pull of an image goes, while one does: a line a layer on a terminal,
// elsewhere nothing but a line when it begins to take its time.
type pulls struct {
	out  io.Writer // nil: nothing is shown
	tall bool      // out is a terminal

	mu     sync.Mutex
	region *live.Region
	now    image.Progress
	told   bool
}

// pulls makes one. It has to be ended.
func (p *Program) pulls(quiet bool) *pulls {
	s := &pulls{out: p.Stderr, tall: isTerminal(p.Stderr) && os.Getenv("TERM") != "dumb"}
	if quiet && !s.tall {
		s.out = nil
	}
	return s
}

// take is told how it goes. It is safe for concurrent use.
func (s *pulls) take(now image.Progress) {
	if s.out == nil {
		return
	}
	s.mu.Lock()
	s.now = now
	works := slices.ContainsFunc(now.Layers, func(l image.LayerProgress) bool {
		return l.State == image.Downloading || l.State == image.Unpacking
	})
	begin := s.tall && s.region == nil && !now.Done && works
	tell := !s.tall && !s.told && !now.Done && works
	s.told = s.told || tell
	s.mu.Unlock()
	switch {
	case begin:
		region := live.Start(s.out, columns(s.out), rows(s.out), s.lines)
		s.mu.Lock()
		s.region = region
		s.mu.Unlock()
	case tell:
		fmt.Fprintf(s.out, "airlock: pulling %s (%s)\n", changes.Printable(now.Ref), plural(len(now.Layers), "layer"))
	}
}

// end takes what is shown away.
func (s *pulls) end() {
	s.mu.Lock()
	region := s.region
	s.region = nil
	s.mu.Unlock()
	if region != nil {
		region.End()
	}
}

// lines are what stands on the terminal.
func (s *pulls) lines(frame int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{live.Spinner(frame) + " " + changes.Printable(s.now.Ref)}
	for i := range s.now.Layers {
		out = append(out, layerLine(&s.now.Layers[i]))
	}
	return out
}

const barWidth = 24

func layerLine(l *image.LayerProgress) string {
	_, hex, _ := strings.Cut(l.Digest, ":")
	line := fmt.Sprintf("  %-12s %-11s", changes.Printable(hex[:min(len(hex), 12)]), l.State)
	if l.State != image.Downloading && l.State != image.Unpacking {
		return line
	}
	if l.Total <= 0 {
		return line + " " + bytesText(l.Done)
	}
	return line + " " + bar(l.Done, l.Total) + " " + bytesText(l.Done) + " of " + bytesText(l.Total)
}

// bar is how much of something is done.
func bar(done, total int64) string {
	full := int(min(max(done, 0), total) * barWidth / max(total, 1))
	return "[" + strings.Repeat("█", full) + strings.Repeat(" ", barWidth-full) + "]"
}
