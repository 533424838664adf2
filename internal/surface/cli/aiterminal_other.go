//go:build !linux

package cli

// backToTerminal does nothing here: after a pipe nobody is asked.
func (p *Program) backToTerminal() {}
