package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"airlock/internal/image"
	"airlock/internal/sandbox/manager"
	"airlock/internal/yamlfile"
)

func (p *Program) templateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "What sandboxes can start from: an image with commands already run in it",
		Long: `What sandboxes can start from: the files of an image, or of this machine, with commands
already run over them. airlock sandbox create --template NAME goes on from there.`,
		Example: `  airlock template create py --image python:3.13-slim --net allow=pypi.org,files.pythonhosted.org \
    --run 'pip install numpy'
  airlock sandbox create --template py`,
		Args: noSuchSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.templateCreateCmd(), p.templateListCmd(), p.templateInspectCmd(), p.templateBuildCmd(), p.templateRmCmd())
	return p.family(cmd)
}

func (p *Program) templateCreateCmd() *cobra.Command {
	f := &sandboxFlags{}
	var run []string
	var from string
	cmd := &cobra.Command{
		Use:   "create NAME [flags]",
		Short: "Make a template: run commands in a sandbox, and keep what came of it",
		Long: `Make a template: run commands in a sandbox, one after the other, and keep what came of it.
One that fails ends that. --from reads the same from a YAML file, whose members are named as
the flags are; flags that are given go before it.`,
		Example: `  airlock template create py --image python:3.13-slim --run 'pip install numpy'
  airlock template create py --from py.yaml`,
		Args: takes(1, 1, "say what to call it: airlock template create NAME --image REF --run 'CMD'"),
	}
	fl := cmd.Flags()
	f.addMaking(fl)
	fl.StringArrayVar(&run, "run", nil, "a shell line to run in it; may be repeated")
	fl.StringVar(&from, "from", "", "read what is not given from a YAML file")
	p.completeFlags(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from != "" {
			if err := p.fromFile(cmd.Flags(), from); err != nil {
				return p.ends(cmd.Context(), *asJSON, err)
			}
		}
		req, err := f.request(cmd.Flags(), p.Environ)
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		return p.buildTemplate(cmd.Context(), *asJSON, func(ctx context.Context, m *manager.Manager, out io.Writer, progress func(image.Progress)) (*manager.Template, error) {
			req.Progress = progress
			return m.CreateTemplate(ctx, &manager.TemplateRequest{Name: args[0], Request: *req, Run: run, Output: out})
		})
	}
	return cmd
}

func (p *Program) templateBuildCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "build NAME",
		Short:             "Make a template again from what it was made of",
		Long:              "Make a template again from what it was made of. Until that is done the old one is there, and sandboxes that were made from it go on.",
		Args:              takes(1, 1, "say which: airlock template build NAME"),
		ValidArgsFunction: p.completeTemplates,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.buildTemplate(cmd.Context(), *asJSON, func(ctx context.Context, m *manager.Manager, out io.Writer, _ func(image.Progress)) (*manager.Template, error) {
			return m.BuildTemplate(ctx, args[0], out)
		})
	}
	return cmd
}

// A builder makes a template; out takes what its commands write.
type builder func(ctx context.Context, m *manager.Manager, out io.Writer, progress func(image.Progress)) (*manager.Template, error)

// buildTemplate makes one, and shows meanwhile what its commands write.
func (p *Program) buildTemplate(ctx context.Context, asJSON bool, build builder) error {
	ctx, signals := endOnSignal(ctx)
	defer signals.stop()
	m, err := p.boxes()
	if err != nil {
		return p.ends(ctx, asJSON, err)
	}
	progress := p.pulls(asJSON)
	out := io.Writer(&buildOutput{p.Stderr, progress})
	if asJSON {
		out = io.Discard
	}
	t, err := build(ctx, m, out, progress.take)
	progress.end()
	switch {
	case err != nil:
		return p.interrupted(ctx, signals, asJSON, err)
	case asJSON:
		return p.printJSON(t)
	}
	if t.Note != "" {
		p.say("%s", printable(t.Note))
	}
	return p.writeLine(printable(t.Name))
}

// buildOutput shows what commands write as it comes, once the pull's display is gone.
type buildOutput struct {
	out   io.Writer
	pulls *pulls
}

func (b *buildOutput) Write(text []byte) (int, error) {
	b.pulls.end()
	return b.out.Write(text)
}

const (
	maxTemplateFile = 256 << 10 // bytes
	maxMember       = 1000      // entries of a list
)

// fromFile sets the flags that were not given to what a file says.
func (p *Program) fromFile(fl *pflag.FlagSet, path string) error {
	text, err := readTemplate(p.Stdin, path)
	if err != nil {
		return usage("--from: %w", err)
	}
	root, err := yamlfile.Parse(path, text, yamlfile.Bounds{Bytes: maxTemplateFile, Collections: maxMember, What: "templates"})
	if err != nil {
		return usage("%w", err)
	}
	members := yamlfile.Members{}
	fl.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "json", "from", "help", "publish", "secret": // a file says nothing of the host's ports and secrets
		default:
			members[f.Name] = setFlag(fl, f)
		}
	})
	if root.Empty() {
		return usage("%s: it is empty; write image: REF and run: [CMD, …]", printable(path))
	}
	if err := root.Mapping("", members); err != nil {
		return usage("%w", err)
	}
	return nil
}

// setFlag takes a flag's value, or its values, from a file.
func setFlag(fl *pflag.FlagSet, f *pflag.Flag) yamlfile.Set {
	given := f.Changed
	_, many := f.Value.(pflag.SliceValue)
	return func(name string, n yamlfile.Node) error {
		values := []yamlfile.Node{n}
		if list, ok := n.List(); ok && many {
			values = list
		}
		if len(values) > maxMember {
			return n.Fail("%s has more than %d entries", name, maxMember)
		}
		for _, v := range values {
			text, err := v.Text(name)
			if err != nil {
				return err
			}
			if given {
				continue
			}
			if err := fl.Set(f.Name, text); err != nil {
				return v.Fail("%s: %v", name, err)
			}
		}
		return nil
	}
}

func readTemplate(stdin io.Reader, path string) ([]byte, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	if in == nil {
		return nil, errors.New("there is no standard input")
	}
	return io.ReadAll(io.LimitReader(in, maxTemplateFile+1))
}

func (p *Program) templateListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the templates there are",
		Args:              takes(0, 0, "airlock template list takes no arguments; airlock template inspect NAME shows one"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	templates := listing[manager.Template]{
		none:   "No templates. airlock template create NAME --image REF --run 'CMD' makes one.",
		name:   func(t *manager.Template) string { return printable(t.Name) },
		titles: []string{"NAME", " BUILT", " SIZE", "STARTS", "OVER", "RUN"},
		row: func(t *manager.Template, now time.Time) []string {
			starts := "from its state"
			if !t.Saved {
				starts = "anew"
			}
			over := firstOf(t.Request.Image, t.Request.WorkDir)
			return []string{printable(t.Name), since(t.Created, now), bytesText(t.Size), starts, printable(over), printable(strings.Join(t.Run, "; "))}
		},
	}
	templates.of(p, cmd, "names alone, one a line", p.templates)
	return cmd
}

func (p *Program) templates(ctx context.Context) ([]manager.Template, error) {
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	return m.Templates(ctx)
}

func (p *Program) templateInspectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect NAME",
		Short:             "Show what is known of one, as JSON",
		Args:              takes(1, 1, "say which: airlock template inspect NAME"),
		ValidArgsFunction: p.completeTemplates,
	}
	p.inspects(cmd, func(ctx context.Context, m *manager.Manager, name string) (any, error) {
		return m.InspectTemplate(ctx, name)
	})
	return cmd
}

func (p *Program) templateRmCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rm NAME…",
		Short:             "Remove templates; sandboxes that were made from them go on",
		Args:              takes(1, anyNumber, "say which: airlock template rm NAME…; airlock template list shows those there are"),
		ValidArgsFunction: p.completeTemplates,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = eachIn(p, p.boxes, asJSON, func(ctx context.Context, m *manager.Manager, name string) (any, error) {
		if err := m.RemoveTemplate(ctx, name); err != nil {
			return nil, err
		}
		return p.removed(name, *asJSON)
	})
	return cmd
}

// completeTemplates completes templates' names.
func (p *Program) completeTemplates(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(cmd, p.templates, func(t *manager.Template) []string {
		return []string{printable(t.Name) + "\t" + printable(firstOf(t.Request.Image, t.Request.WorkDir))}
	})
}
