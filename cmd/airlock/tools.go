package main

import (
	"log/slog"
	"slices"

	"airlock/internal/config"
	"airlock/internal/surface/cli"
	"airlock/internal/tool"
	"airlock/internal/tool/plugin"
)

// A toolbox puts together the tools that there are.
type toolbox struct {
	dirs     *dirs
	builtins []tool.Tool
	log      *slog.Logger
	ends     []func()
}

// end lets go of what tools hold.
func (b *toolbox) end() {
	for _, end := range slices.Backward(b.ends) {
		end()
	}
	b.ends = nil
}

// registry holds the built-in tools, the plugins of the usual folder, of those that the
// settings name and of folders, and the agents of the settings' configurations. What
// could not be loaded is said.
func (b *toolbox) registry(folders []string) (*tool.Registry, []string, error) {
	c, err := config.Load(b.dirs.setting("config.yaml"))
	if err != nil {
		return nil, nil, err
	}
	tools, said := b.withPlugins(slices.Concat(folders, c.Plugins))
	tools, more, end := withBridges(b.dirs, c.Bridges, tools)
	b.ends = append(b.ends, end)
	reg, err := tool.NewRegistry(tools...)
	return reg, append(said, more...), err
}

// bridge reads a configuration of agents, which are tools beside the others but for those
// of other configurations.
func (b *toolbox) bridge(path string) (*cli.Bridge, error) {
	c, err := config.Load(b.dirs.setting("config.yaml"))
	if err != nil {
		return nil, err
	}
	tools, said := b.withPlugins(c.Plugins)
	bridge, err := openBridge(b.dirs, path, tools)
	if err != nil {
		return nil, err
	}
	bridge.Problems = said
	return bridge, nil
}

// withPlugins adds to the built-in tools the plugins of the usual folder, if there is one,
// and of others. What could not be loaded is said.
func (b *toolbox) withPlugins(folders []string) (tools []tool.Tool, said []string) {
	opts := &plugin.Options{Logger: b.log}
	for _, t := range b.builtins {
		opts.Taken = append(opts.Taken, t.Info().Name)
	}
	if usual := b.dirs.setting("plugins"); usual != "" {
		folders = append(slices.Clone(folders), usual)
		opts.Optional = []string{usual}
	}
	plugins, problems := plugin.Load(folders, opts)
	for i := range problems {
		said = append(said, problems[i].Error())
	}
	return slices.Concat(b.builtins, plugins), said
}
