package main

import (
	"context"
	"errors"
	"os"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
	"airlock/internal/planner/endpoint"
	"airlock/internal/surface/cli"
)

// models chooses language models, by the settings in a file and what is beside them.
func models(settings string) func(context.Context, *cli.ModelOptions) (*cli.ChosenModel, error) {
	return func(ctx context.Context, o *cli.ModelOptions) (*cli.ChosenModel, error) {
		c, err := config.Load(settings)
		if err != nil {
			return nil, err
		}
		opts := &choice.Options{
			AI: c.AI, Settings: settings, Environ: os.Getenv, Provider: o.Provider, Model: o.Model, BaseURL: o.BaseURL,
			Stdin: os.Stdin, Stderr: os.Stderr,
		}
		if o.Show != nil {
			opts.Show = func(s endpoint.Shown) { o.Show(s.Method, s.URL, s.Body) }
		}
		chosen, err := choice.Choose(ctx, opts)
		if nothing, ok := errors.AsType[*choice.NothingError](err); ok {
			return nil, errors.Join(cli.ErrNoModel, nothing)
		}
		if err != nil {
			return nil, err
		}
		return &cli.ChosenModel{Model: chosen.Model, Key: chosen.Key, Why: chosen.Why, Notes: chosen.Notes}, nil
	}
}
