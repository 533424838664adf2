//go:build !linux

package cli

import "airlock/internal/tool"

// attach leaves a machine without a terminal: nothing can be run here.
func (p *Program) attach(*tool.Machine) (detach func(), err error) { return func() {}, nil }
