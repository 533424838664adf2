package main

import (
	"context"
	"errors"
	"fmt"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox/manager"
	"airlock/internal/surface/cli"
)

// livingSets keeps the change sets of the manager's sandboxes.
type livingSets struct{ *executor.Runner }

var _ manager.Changes = livingSets{}

// Expired keeps what a sandbox changed whose time was over.
func (s livingSets) Expired(ctx context.Context, info *manager.Info, tar string) error {
	_, err := s.Runner.Expired(ctx, tar, cli.LivedOf(info))
	if errors.Is(err, changes.ErrTooLarge) || errors.Is(err, changes.ErrMalformed) {
		return fmt.Errorf("%w: %w", manager.ErrUnreadable, err)
	}
	return err
}
