package pkgs

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/program"
)

const (
	defaultFound = 100  // packages that a search lists
	defaultList  = 1000 // packages that packages lists
)

// List is the tool packages.
type List struct{ opts *Options }

// NewList makes the tool; nil options are the default.
func NewList(opts *Options) *List { return &List{opts: opts} }

// Info describes the tool.
func (t *List) Info() *tool.Info { return &listInfo }

// Invoke lists the packages that are installed.
func (t *List) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	var a struct {
		Filter string `json:"filter"`
		Max    int    `json:"max"`
	}
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return tool.Fail(tool.ParseError, "packages: args: "+err.Error())
	}
	if _, err := path.Match(a.Filter, ""); err != nil {
		return tool.Fail(tool.InvalidArgs, "packages: the filter "+shown(a.Filter)+" is no pattern: a [ in it has no ]")
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.maxTime())
	defer cancel()
	l, failure := locate(ctx, m, "packages")
	if failure != nil {
		return *failure
	}
	installed, err := l.packages(ctx)
	if err != nil {
		return program.Failure(err, "packages", "")
	}
	installed = whole(installed)
	slices.SortStableFunc(installed, func(a, b Package) int { return cmp.Compare(a.Name, b.Name) })
	var rows [][]string
	for _, p := range installed {
		if is, _ := path.Match(a.Filter, p.Name); is || a.Filter == "" {
			rows = append(rows, []string{p.Name, p.Version})
		}
	}
	result := tool.Result{OK: true, Meta: tool.Meta{MetaManager: l.name}}
	result.Stdout = table(result.Meta, rows, a.Max, defaultList)
	return result
}

// table writes rows with tabs between their columns, and how many there are into meta.
func table(meta tool.Meta, rows [][]string, most, standard int) string {
	if most <= 0 {
		most = standard
	}
	meta[MetaTotal], meta[MetaTruncated] = len(rows), len(rows) > most
	rows = rows[:min(len(rows), most)]
	meta[MetaCount] = len(rows)
	var b strings.Builder
	for _, row := range rows {
		for i, column := range row {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(changes.Printable(column))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
