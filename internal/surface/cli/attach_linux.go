package cli

import (
	"airlock/internal/executor"
	"airlock/internal/tool"
)

// attach connects a machine on the host to the person's terminal, so that a command can ask
// there, as sudo does. The terminal is given back by detach.
func (p *Program) attach(m *tool.Machine) (detach func(), err error) {
	req := &executor.Request{Env: m.Env}
	s, err := p.connect(&runFlags{}, req)
	if err != nil {
		return nil, err
	}
	m.Stdin, m.TTY, m.Resizes = req.Stdin, req.TTY, req.Resizes
	return s.restore, nil
}
