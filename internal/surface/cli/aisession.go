package cli

import "context"

// aiSession answers requests typed on the terminal until the person leaves.
func (p *Program) aiSession(ctx context.Context, f *aiFlags) error {
	for {
		line, err := p.line(ctx, "ai> ")
		if err != nil {
			return nil
		}
		if err := p.ai(ctx, f, "", []string{line}, false); err != nil {
			p.complain(err)
		}
	}
}
