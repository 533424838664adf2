package builtin

import (
	"context"
	"fmt"
	"path"
	"strings"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/tool"
)

// maxNames bounds the names of one listing, in bytes.
const maxNames = 256 << 10

// ListDir makes fs.list_dir, which lists a folder. Stdout is for a person: what is not
// printable in a name is escaped, and a folder's name ends with a slash. Meta's entries have the
// names as they are, but for bytes that are not UTF-8: those are U+FFFD.
func ListDir() tool.Tool {
	return &listDir{tool.Info{
		Name:        "fs.list_dir",
		Description: "Lists what is in a folder.",
		Kind:        tool.Builtin,
		Actions: []tool.Action{{
			Name:        "list",
			Description: "Lists names and sizes, sorted by name.",
			Schema:      schemaOf("fs.list_dir", "list"),
			Risk:        tool.RiskReadOnly,
			Paths:       []string{"path"},
		}},
	}}
}

type listDir struct{ info tool.Info }

func (l *listDir) Info() *tool.Info { return &l.info }

type listArgs struct {
	Path       string `json:"path"`
	MaxEntries int    `json:"max_entries"`
}

func (l *listDir) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	args := listArgs{Path: ".", MaxEntries: 1000}
	if failure := decode(call, &args); failure != nil {
		return *failure
	}
	name, err := seen(ctx, m, args.Path)
	if err != nil {
		return unseen(&call, args.Path, err)
	}
	all, err := m.Client.ListDir(ctx, name)
	if err != nil {
		if cause(err) == "not a directory" {
			if info, err := m.Client.Stat(ctx, name, true); err == nil && info.Type != "dir" {
				return failAt(&call, tool.InvalidArgs, args.Path, "is no folder: use fs.read_file")
			}
		}
		return failedAt(&call, args.Path, err)
	}
	return listing(m, name, all, args.MaxEntries)
}

// listing is the result, without what is hidden.
func listing(m *tool.Machine, dir string, all []agent.FileEntry, most int) tool.Result {
	entries := make([]agent.FileEntry, 0, min(len(all), most))
	var (
		b         strings.Builder
		size      int
		truncated bool
	)
	for _, e := range all {
		if hidden(m, path.Join(dir, e.Name)) {
			continue
		}
		if size += len(e.Name); len(entries) == most || size > maxNames {
			truncated = true
			break
		}
		entries = append(entries, e)
		if e.IsDir {
			fmt.Fprintf(&b, "%12s  %s/\n", "-", changes.Printable(e.Name))
		} else {
			fmt.Fprintf(&b, "%12d  %s\n", e.Size, changes.Printable(e.Name))
		}
	}
	return tool.Result{OK: true, Stdout: b.String(), Meta: tool.Meta{"entries": entries, "truncated": truncated}}
}
