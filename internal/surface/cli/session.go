package cli

import (
	"io"
	"os"

	"airlock/internal/executor"
)

// session is how a run is connected to the person.
type session struct {
	interactive bool      // there is somebody to ask
	screen      *screen   // where the command writes to the terminal; nil: nowhere
	captured    *captured // what --json keeps; nil otherwise
	restore     func()    // gives the terminal and its input back; may be called twice
}

// outputs gives the request its outputs.
func (p *Program) outputs(f *runFlags, req *executor.Request, s *session) {
	if f.json {
		s.captured = &captured{}
		req.Stdout, req.Stderr = &s.captured.stdout, &s.captured.stderr
		return
	}
	req.Stdout, req.Stderr = p.Stdout, p.Stderr
	if f.heard != nil {
		defer func() {
			req.Stdout = io.MultiWriter(req.Stdout, &heardStream{h: f.heard})
			req.Stderr = io.MultiWriter(req.Stderr, &heardStream{h: f.heard, err: true})
		}()
	}
	if !isTerminal(p.Stderr) || os.Getenv("TERM") == "dumb" {
		return
	}
	s.screen = &screen{}
	req.Stderr = s.screen.writer(p.Stderr)
	if isTerminal(p.Stdout) {
		req.Stdout = s.screen.writer(p.Stdout)
	}
}

// isTerminal reports whether v is a terminal.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && terminal(f)
}
