package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/image"
)

func (p *Program) imageCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "The images that sandboxes can be laid over",
		Long: `The images that sandboxes can be laid over, with airlock sandbox create --image. They come
from registries, OCI layouts, archives of docker save and folders, and are kept once for all
sandboxes, which never write to them.`,
		Example: `  airlock image pull alpine:3.20
  airlock image list
  airlock image prune`,
		Args: noSuchSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.imageListCmd(), p.imageInspectCmd(), p.imagePullCmd(), p.imageRmCmd(), p.imagePruneCmd())
	return p.family(cmd)
}

// images gives the store of images.
func (p *Program) images() (*image.Store, error) {
	s, err := p.Images()
	if err != nil {
		return nil, fail(exitFailed, explainStore(err))
	}
	return s, nil
}

func (p *Program) imageListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the images there are",
		Args:              takes(0, 0, "airlock image list takes no arguments; airlock image inspect REF shows one"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	images := listing[*image.Image]{
		none:   "No images. airlock image pull REF fetches one.",
		name:   func(i **image.Image) string { return (*i).ID },
		titles: []string{"IMAGE", "ID", " SIZE", " PULLED", " USED BY"},
		row: func(one **image.Image, now time.Time) []string {
			i := *one
			refs := firstOf(strings.Join(i.Refs, " "), "-")
			return []string{printable(refs), shortImage(i.ID), bytesText(i.Size), since(i.Pulled, now), countText(int64(len(i.Holders)))}
		},
	}
	images.of(p, cmd, "IDs alone, one a line", p.listImages)
	return cmd
}

func (p *Program) listImages(ctx context.Context) ([]*image.Image, error) {
	store, err := p.images()
	if err != nil {
		return nil, err
	}
	return store.List(ctx)
}

// shortImage is an image's ID as people are shown it.
func shortImage(id string) string {
	_, hex, _ := strings.Cut(id, ":")
	return printable(hex[:min(len(hex), 12)])
}

func (p *Program) imageInspectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect REF…",
		Short:             "Show everything known of images, as JSON",
		Args:              takes(1, anyNumber, "say which: airlock image inspect REF…; airlock image list shows those there are"),
		ValidArgsFunction: p.completeImages,
	}
	_ = jsonFlag(cmd) // it is JSON with and without it
	cmd.RunE = eachIn(p, p.images, new(true), func(ctx context.Context, store *image.Store, ref string) (any, error) {
		img, err := store.Inspect(ctx, ref)
		return img, explainImage(err)
	})
	return cmd
}

func (p *Program) imagePullCmd() *cobra.Command {
	var insecure bool
	cmd := &cobra.Command{
		Use:   "pull REF…",
		Short: "Fetch images, or look whether they have changed",
		Long: `Fetch images, or look whether they have changed. REF is a registry's, as in alpine:3.20, or
oci:DIR[:TAG], docker-archive:FILE[:TAG] or dir:PATH. What was fetched of a pull that was
interrupted is not fetched again.`,
		Args: takes(1, anyNumber, "say which: airlock image pull REF…, as in alpine:3.20"),
	}
	cmd.Flags().BoolVar(&insecure, "insecure", false, "ask a registry without TLS, which on this machine's loopback is allowed anyway")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		store, err := p.images()
		if err != nil {
			return p.ends(ctx, *asJSON, err)
		}
		err = p.eachID(ctx, args, *asJSON, func(ctx context.Context, ref string) (any, error) {
			progress := p.pulls(*asJSON)
			img, err := store.Pull(ctx, ref, &image.PullOptions{Policy: image.Always, Insecure: insecure, Progress: progress.take})
			progress.end()
			if err == nil && !*asJSON {
				_, err = fmt.Fprintln(p.Stdout, img.ID)
			}
			return img, err
		})
		if code := signals.code(); code != 0 {
			return fail(code, nil)
		}
		return err
	}
	return cmd
}

func (p *Program) imageRmCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rm REF…",
		Short:             "Remove images that nobody uses",
		Args:              takes(1, anyNumber, "say which: airlock image rm REF…; airlock image list shows those there are"),
		ValidArgsFunction: p.completeImages,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = eachIn(p, p.images, asJSON, func(ctx context.Context, store *image.Store, ref string) (any, error) {
		if err := store.Remove(ctx, ref); err != nil {
			return nil, explainImage(err)
		}
		if *asJSON {
			return &struct {
				Ref     string `json:"ref"`
				Removed bool   `json:"removed"`
			}{ref, true}, nil
		}
		_, err := fmt.Fprintln(p.Stdout, printable(ref))
		return nil, err
	})
	return cmd
}

// explainImage adds to an error what to do about it.
func explainImage(err error) error {
	if errors.Is(err, image.ErrNotFound) {
		return fmt.Errorf("%w; airlock image list shows those there are", err)
	}
	return err
}

func (p *Program) imagePruneCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the images that nobody uses, and what is left of pulls",
		Long: `Remove the images that nobody uses, and what is left of pulls. A download that broke off is kept
for a day, for a pull to go on with.`,
		Args:              takes(0, 0, "airlock image prune takes no arguments; airlock image rm REF removes one"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		store, err := p.images()
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		pruned, err := store.Prune(cmd.Context())
		if err != nil {
			return p.ends(cmd.Context(), *asJSON, err)
		}
		if *asJSON {
			return p.printJSON(pruned)
		}
		return p.tellRemoved(prunedTexts(pruned), pruned.Bytes)
	}
	return cmd
}

// prunedTexts says what was removed.
func prunedTexts(pruned *image.Pruned) []string {
	out := []string{}
	for _, i := range pruned.Images {
		out = append(out, strings.TrimSpace("image "+shortImage(i.ID)+" "+strings.Join(i.Refs, " ")))
	}
	return append(out, pruned.Others...)
}

// completeImages completes references of images that are there.
func (p *Program) completeImages(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(cmd, p.listImages, func(one **image.Image) (words []string) {
		for _, ref := range (*one).Refs {
			words = append(words, printable(ref)+"\t"+shortImage((*one).ID)+", "+bytesText((*one).Size))
		}
		return words
	})
}
