package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"airlock/internal/audit"
	"airlock/internal/changes"
)

// logFlags are the flags of airlock log.
type logFlags struct {
	since, until string
	kinds        []string
	id           string
	last         int
	json, follow bool
}

func (p *Program) logCmd() *cobra.Command {
	f := &logFlags{}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read the record of what was run, judged, approved, committed and undone",
		Long: `Read the record: a line for each run, call, verdict, approval, result, commit, discard
and undo, the latest last. Secrets are not in it: [redacted:…] stands in their place.

--since and --until take a time such as 2h or 3d ago, 2026-11-20, "2026-11-20 15:04", or one of
RFC 3339.`,
		Example: `  airlock log --since 2h
  airlock log --kind run --kind commit -n 20
  airlock log -f`,
		Args: noSuchLog,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.showLog(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.since, "since", "", "only rows from this time on")
	fl.StringVar(&f.until, "until", "", "only rows before this time")
	fl.StringArrayVar(&f.kinds, "kind", nil, "only rows of this kind, such as run, call or commit; may be given again")
	fl.StringVar(&f.id, "id", "", "only rows of the run, plan or change set whose ID begins with this")
	fl.IntVarP(&f.last, "lines", "n", 0, "only the last so many rows")
	fl.BoolVar(&f.json, "json", false, "print a JSON object a row")
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with new rows as they are written, until Ctrl-C")
	cmd.AddCommand(p.logShowCmd(), p.logVerifyCmd())
	return cmd
}

// noSuchLog refuses what airlock log does not take.
func noSuchLog(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("airlock log takes no %s; airlock log show ID shows one run, airlock log verify checks the record", changes.Printable(args[0]))
}

// record opens the record.
func (p *Program) record() (*audit.Log, error) {
	log, err := p.Record()
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	return log, nil
}

func (p *Program) showLog(ctx context.Context, f *logFlags) error {
	now := time.Now()
	filter := audit.Filter{Kinds: f.kinds, ID: f.id, Limit: f.last}
	var err error
	if filter.Since, err = parseWhen(f.since, now); err != nil {
		return usage("--since %s: %w", f.since, err)
	}
	if filter.Until, err = parseWhen(f.until, now); err != nil {
		return usage("--until %s: %w", f.until, err)
	}
	if f.last < 0 {
		return usage("-n %d: it is negative", f.last)
	}
	log, err := p.record()
	if err != nil {
		return err
	}
	defer ignoreBrokenPipes()()
	ctx, stop := interruptible(ctx)
	defer stop()
	shown := false
	each := func(r audit.Row) error {
		shown = true
		return p.printRow(&r, f.json)
	}
	if f.follow {
		err = log.Follow(ctx, filter, each)
	} else {
		err = log.Query(ctx, filter, each)
	}
	switch {
	case err != nil:
		return p.logEnd(ctx, err)
	case !shown && !f.json && !f.follow:
		return p.sayEmpty(ctx, log)
	}
	return nil
}

// logEnd is how reading ends with an error: a reader who has seen enough, and Ctrl-C, are
// none.
func (p *Program) logEnd(ctx context.Context, err error) error {
	if errors.Is(err, syscall.EPIPE) || ctx.Err() != nil {
		return nil
	}
	return fail(exitFailed, err)
}

// sayEmpty says why there is nothing to see.
func (p *Program) sayEmpty(ctx context.Context, log *audit.Log) error {
	none := true
	err := log.Query(ctx, audit.Filter{Limit: 1}, func(audit.Row) error { none = false; return nil })
	switch {
	case err != nil:
		return p.logEnd(ctx, err)
	case none:
		fmt.Fprintln(p.Stdout, "Nothing is recorded yet. airlock run -- CMD makes the first rows.")
	default:
		fmt.Fprintln(p.Stdout, "No row of the record is like that. airlock log without options shows all of them.")
	}
	return nil
}

// printRow prints a row: as an object, or as a line.
func (p *Program) printRow(r *audit.Row, asJSON bool) error {
	if asJSON {
		return p.printJSON(r)
	}
	line := fmt.Sprintf("%s  %-14s %-8s  %s", r.Time.Local().Format(time.DateTime),
		changes.Printable(r.Kind), changes.Printable(first(r.ID, 8)), sentence(r))
	return p.printLine("%s\n", strings.TrimRight(line, " "))
}

// first are the first n characters of s: as much of an ID as tells it from others.
func first(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

func (p *Program) printLine(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.Stdout, format, args...); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func (p *Program) logShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is recorded of one run, plan or change set",
		Args:  takes(1, 1, "say of which run, plan or change set: airlock log show ID; airlock log lists them"),

		ValidArgsFunction: p.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := p.record()
			if err != nil {
				return err
			}
			defer ignoreBrokenPipes()()
			return p.showOne(cmd.Context(), log, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a row")
	return cmd
}

// someIDs is how many IDs are named where more than one is meant.
const someIDs = 6

// showOne shows the rows of the one ID that begins with prefix.
func (p *Program) showOne(ctx context.Context, log *audit.Log, prefix string, asJSON bool) error {
	ids, err := log.IDs(ctx, prefix, someIDs)
	if err != nil {
		return fail(exitFailed, err)
	}
	switch {
	case prefix == "" || len(ids) == 0:
		return fail(exitGeneral, fmt.Errorf("nothing is recorded of %q; airlock log lists what is", prefix))
	case len(ids) > 1 && ids[0] != prefix:
		names := changes.Printable(strings.Join(ids[:min(len(ids), someIDs-1)], ", "))
		if len(ids) == someIDs {
			names += ", …"
		}
		return fail(exitGeneral, fmt.Errorf("several IDs begin with %s: %s; give more of it", changes.Printable(prefix), names))
	}
	err = log.Query(ctx, audit.Filter{ID: ids[0]}, func(r audit.Row) error {
		switch {
		case r.ID != ids[0]: // a longer one that begins with it
			return nil
		case asJSON:
			return p.printJSON(&r)
		}
		return p.printWhole(&r)
	})
	if err != nil {
		return p.logEnd(ctx, err)
	}
	return nil
}

// printWhole prints all of a row.
func (p *Program) printWhole(r *audit.Row) error {
	who := r.User
	if who == "" {
		who = "user " + strconv.FormatInt(r.UID, 10)
	}
	err := p.printLine("%d  %s  %s  %s\n    by %s, process %d\n", r.Seq, r.Time.Local().Format("2006-01-02 15:04:05.000"),
		changes.Printable(r.Kind), changes.Printable(r.ID), changes.Printable(who), r.PID)
	for _, l := range members(r.Data) {
		if err == nil {
			err = p.printLine("    %s\n", l)
		}
	}
	return err
}

func (p *Program) logVerifyCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody has changed the record",
		Long: `Check that every row of the record is as it was written, that none is missing and none was
put in. The exit code is 1 where that is not so; the first row that is wrong is named.

Whoever can write the record's file can write it anew from the first row to the last. The last
row's hash, which is printed, tells: if you keep it elsewhere, the row of that number must
still have it.`,
		Args: takes(0, 0, "airlock log verify checks the whole record and takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := p.record()
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			rep, err := log.Verify(ctx)
			if tampered, ok := errors.AsType[*audit.TamperError](err); ok {
				return fail(exitGeneral, fmt.Errorf("%w (the record is %s)", tampered, log.Path()))
			}
			if err != nil {
				return fail(exitFailed, err)
			}
			if asJSON {
				return p.printJSON(rep)
			}
			return p.tellVerified(&rep)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (p *Program) tellVerified(rep *audit.Report) error {
	if rep.Rows == 0 {
		return p.printLine("OK: nothing is recorded yet\n")
	}
	text := fmt.Sprintf("OK: %s, from %s to %s", plural(int(rep.Rows), "row"),
		rep.First.Local().Format(time.DateTime), rep.Last.Local().Format(time.DateTime))
	if rep.Removed > 0 {
		text += fmt.Sprintf("; %s before them removed for age or room", plural(int(rep.Removed), "row"))
	}
	return p.printLine("%s\nThe last one is row %d, %s\n", text, rep.Seq, rep.Hash)
}

// parseWhen reads a time: how long ago it was, a day, or a time of that day.
func parseWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, ok := parseAgo(s); ok {
		return now.Add(-ago), nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, errors.New(`write how long ago, as in 90m, 2h or 3d, or a time, as in 2026-11-20 or "2026-11-20 15:04"`)
	}
	return t, nil
}

// parseAgo reads a duration, in which days may stand.
func parseAgo(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		ago := n * 24 * float64(time.Hour)
		return time.Duration(ago), err == nil && ago >= 0 && ago < math.MaxInt64
	}
	ago, err := time.ParseDuration(s)
	return ago, err == nil && ago >= 0
}
