package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
	"airlock/internal/planner/endpoint"
	"airlock/internal/surface/cli"
)

// models chooses the model that is asked, by the command line, the environment and the
// settings, each time anew: a session can go on after the settings were mended.
func models(settings string) func(context.Context, *cli.ModelOptions) (*cli.ChosenModel, error) {
	return func(ctx context.Context, o *cli.ModelOptions) (*cli.ChosenModel, error) {
		c, err := config.Load(settings)
		if err != nil {
			return nil, err
		}
		opts := &choice.Options{
			AI: c.AI, Settings: settings, Environ: os.Getenv,
			Provider: o.Provider, Model: o.Model, BaseURL: o.BaseURL,
			Stdin: os.Stdin, Stderr: os.Stderr,
		}
		if o.Show != nil {
			opts.Show = func(s endpoint.Shown) { o.Show(s.Method, s.URL, s.Body) }
		}
		chosen, err := choice.Choose(ctx, opts)
		if nothing, ok := errors.AsType[*choice.NothingError](err); ok {
			return nil, fmt.Errorf("%w: %s", cli.ErrNoModel, nothing.Mend)
		}
		if err != nil {
			return nil, err
		}
		return &cli.ChosenModel{Model: chosen.Model, Key: chosen.Key, Why: chosen.Why, Notes: chosen.Notes}, nil
	}
}
