package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"airlock/internal/audit"
	"airlock/internal/gate"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
)

// gateFigures are the verdicts that one gate gives in a second, on one goroutine, on the
// command lines that its own tests are made of, each judged as on the host.
func gateFigures(ctx context.Context, b *bed) ([]figure, error) {
	lines, err := corpus("internal/gate/shellrisk/testdata")
	if err != nil {
		return nil, err
	}
	guard, err := gate.New(&gate.Options{Homes: []string{b.dir}, State: []string{filepath.Join(b.dir, "state")}})
	if err != nil {
		return nil, err
	}
	questions, err := asked(lines, b.dir)
	if err != nil {
		return nil, err
	}
	var rates []float64
	for range b.rounds {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start := time.Now()
		n := 0
		for time.Since(start) < time.Second/2 {
			for i := range questions {
				guard.Judge(ctx, &questions[i])
			}
			n += len(questions)
		}
		rates = append(rates, float64(n)/time.Since(start).Seconds())
	}
	const bar = 50_000
	r := median(rates)
	return []figure{{
		name: fmt.Sprintf("verdicts on %d command lines, one goroutine", len(lines)), ours: fmt.Sprintf("%.0f/s", r),
		bar: "≥ 50,000/s", met: r >= bar,
	}}, nil
}

// corpus reads the command lines of the text files in a folder.
func corpus(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no command lines in %s", dir), err)
	}
	var lines []string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		scan := bufio.NewScanner(f)
		for scan.Scan() {
			if line := strings.TrimSpace(scan.Text()); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		f.Close()
		if err := scan.Err(); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// asked are the questions that the gate is asked about lines on the host.
func asked(lines []string, dir string) ([]tool.Question, error) {
	reg, err := tool.NewRegistry(builtin.Tools()...)
	if err != nil {
		return nil, err
	}
	var out []tool.Question
	for _, line := range lines {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			return nil, err
		}
		call := tool.Call{Tool: "cmd.run", Action: "execute", Args: args}
		_, action, err := reg.Resolve(call)
		if err != nil {
			return nil, err
		}
		out = append(out, tool.Question{
			Call: call, Action: action, Where: tool.OnHost, WorkDir: dir,
			Env: map[string]string{"HOME": dir, "PATH": "/usr/local/bin:/usr/bin:/bin"},
		})
	}
	return out, nil
}

// recordFigures are the rows that are on the disk after a second, chain and redaction
// included: one writer, and eight at once.
func recordFigures(ctx context.Context, b *bed) ([]figure, error) {
	log, err := audit.Open(filepath.Join(b.dir, "bench-record", "record.db"), nil)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	row := map[string]any{
		"call": "abcdefghijklmnop", "tool": "cmd.run", "action": "execute", "where": "sandbox",
		"args": map[string]string{"command": "grep -rn 'func main' --include='*.go' . | head -20"},
	}
	rate := func(writers int) (float64, error) {
		const rows = 400
		var wg sync.WaitGroup
		errs := make(chan error, writers)
		start := time.Now()
		for range writers {
			wg.Go(func() {
				for range rows {
					if err := log.Record(ctx, "call", "abcdefghijklmnop", row); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		return float64(rows*writers) / time.Since(start).Seconds(), <-errs
	}
	var figures []figure
	for _, writers := range []int{1, 8} {
		var rates []float64
		for range b.rounds {
			r, err := rate(writers)
			if err != nil {
				return nil, err
			}
			rates = append(rates, r)
		}
		name := "record writes, chained, one writer"
		if writers > 1 {
			name = fmt.Sprintf("record writes, chained, %d writers at once", writers)
		}
		figures = append(figures, figure{name: name, ours: fmt.Sprintf("%.0f/s", median(rates)), met: true})
	}
	if rep, err := log.Verify(ctx); err != nil || rep.Rows == 0 {
		return nil, fmt.Errorf("the record that was measured is not whole: %w", err)
	}
	return figures, nil
}
