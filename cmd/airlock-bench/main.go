// Command airlock-bench measures Airlock beside its engine, in one run, and prints a
// table of medians and ratios. `make bench` runs it with -write, which puts the table into
// docs/benchmarks.md. What counts is the ratio: machines differ, and a loaded machine
// slows both sides.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == echoMode {
		fmt.Fprintln(os.Stderr, "airlock-bench:", echoServer(context.Background(), os.Args[2]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "airlock-bench:", err)
		os.Exit(1)
	}
}

// A figure is one line of the table.
type figure struct {
	name  string
	ours  string
	peer  string // what it is put beside
	ratio string
	bar   string
	met   bool
	note  string
}

// A bench measures one or more figures.
type bench struct {
	name string
	run  func(ctx context.Context, b *bed) ([]figure, error)
}

var benches = []bench{
	{"ping", pingFigures},
	{"run", runFigures},
	{"exec", execFigures},
	{"copy", copyFigures},
	{"agent", agentFigures},
	{"start", startFigures},
	{"plan", planFigures},
	{"gate", gateFigures},
	{"record", recordFigures},
	{"hook", hookFigures},
	{"ai", aiFigures},
	{"bridge", bridgeFigures},
	{"warm", warmFigures},
	{"cold", coldFigures},
	{"fork", forkFigures},
	{"many", manyFigures},
	{"idle", idleFigures},
	{"bulk", bulkFigures},
}

// bed is what the measurements stand on: programs built from this source.
type bed struct {
	dir     string
	airlock string
	engine  string
	agent   string
	rounds  int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("airlock-bench", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated figures to measure: ping, run, exec, copy, agent, start, plan, gate, record, hook, ai, bridge, warm, cold, fork, many, idle, bulk")
	write := flags.Bool("write", false, "write the table to docs/benchmarks.md, if it is whole: without -only")
	rounds := flags.Int("rounds", 15, "runs of each side of a comparison")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := newBed(ctx, *rounds)
	if err != nil {
		return err
	}
	defer b.remove()
	var figures []figure
	for _, m := range benches {
		if *only != "" && !strings.Contains(","+*only+",", ","+m.name+",") {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s…\n", m.name)
		got, err := m.run(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		figures = append(figures, got...)
	}
	text := table(figures)
	fmt.Fprint(out, text)
	if *write && *only == "" {
		return os.WriteFile(filepath.Join("docs", "benchmarks.md"), []byte(page(text)), 0o644)
	}
	return nil
}

// remove leaves nothing of the bed.
func (b *bed) remove() {
	unmountNet(filepath.Join(b.dir, "runsc"))
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(os.Stderr, "airlock-bench:", err)
	}
}

// newBed builds the programs as `make build` does, into a folder of its own.
func newBed(ctx context.Context, rounds int) (*bed, error) {
	dir, err := os.MkdirTemp("", "airlock-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir, airlock: filepath.Join(dir, "airlock"), engine: filepath.Join(dir, "airlock-engine"), agent: filepath.Join(dir, "airlock-agent"), rounds: rounds}
	for path, pkg := range map[string]string{b.airlock: "./cmd/airlock", b.engine: "./cmd/airlock-engine", b.agent: "./cmd/airlock-agent"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("build %s: %w\n%s", pkg, err, text), os.RemoveAll(dir))
		}
	}
	return b, nil
}

// table lays the figures out as Markdown.
func table(figures []figure) string {
	var t strings.Builder
	t.WriteString("| figure | airlock | beside it | ratio | bar | |\n| --- | --- | --- | --- | --- | --- |\n")
	var notes []string
	for _, f := range figures {
		verdict := "met"
		switch {
		case f.bar == "":
			verdict = ""
		case !f.met:
			verdict = "**missed**"
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s |\n", f.name, f.ours, f.peer, f.ratio, f.bar, verdict)
		if f.note != "" {
			notes = append(notes, "- "+f.name+": "+f.note)
		}
	}
	if len(notes) > 0 {
		t.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
	return t.String()
}

func page(table string) string {
	return fmt.Sprintf(`# Benchmarks

Made by `+"`make bench`"+` on %s: %s, %d cores, %s, %s. Each
figure is the median of its runs, the two sides taken in turn in one run; the ratio is
the median of the ratios of the pairs. Machines differ and are noisy: repeat it on yours.

%s
%s`, time.Now().Format(time.DateOnly), cpuName(), runtime.NumCPU(), kernel(), runtime.Version(), table, breakdown+lastingBreakdown)
}

func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(data))
}

func cpuName() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}
