package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// bridgeBar is what a call through a running bridge may take beside the agent alone.
const bridgeBar = 1.15

// bridgeAgent is an agent as people write them: parameters on stdin, an answer on stdout.
const bridgeAgent = `import json, sys
params = json.load(sys.stdin)
print(json.dumps({"status": "success", "labels": ["bug"], "n": params.get("n")}))
`

// strays leaves children behind, each in another way, with all that it was given open.
const strays = `#!/bin/sh
sleep 98765 &
setsid sleep 98765 &
nohup sleep 98765 >/dev/null 2>&1 &
(setsid sh -c 'sleep 98765 & sleep 98765' &)
echo x >"${TMPDIR:-/tmp}/stray-$AIRLOCK_CALL"; rm "${TMPDIR:-/tmp}/stray-$AIRLOCK_CALL"
[ "$AIRLOCK_TOOL" = stuck ] && sleep 98765
echo '{"status": "success"}'
`

// A bridgeBed is a workspace with agents, and what an agent alone is started with.
type bridgeBed struct {
	*bed
	work, config, tmp string
	python            string
	env               []string // of the bridge
}

func newBridgeBed(b *bed) (*bridgeBed, error) {
	dir := filepath.Join(b.dir, "bridge")
	bb := &bridgeBed{bed: b, work: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "config.yaml"), tmp: filepath.Join(dir, "tmp")}
	for folder := range strings.SplitSeq(plainPath, ":") {
		if _, err := os.Stat(filepath.Join(folder, "python3")); err == nil && bb.python == "" {
			bb.python = filepath.Join(folder, "python3")
		}
	}
	if bb.python == "" {
		return nil, errors.New("there is no python3 in " + plainPath)
	}
	bb.env = append(plainEnv(), "HOME="+dir, "LANG=C.UTF-8", "TMPDIR="+bb.tmp, "AIRLOCK_HOME="+filepath.Join(dir, "state"), markOf(dir))
	config := fmt.Sprintf(`workspace: {path: %s}
logging: {file: %s}
agents:
  answer: {path: answer.py, python: %s, args: {repo_name: --repo, n: --n}, timeout: 60}
  left: {path: strays.sh, env: [BENCH_MARK], timeout: 60}
  stuck: {path: strays.sh, env: [BENCH_MARK], timeout: 1}
`, bb.work, filepath.Join(dir, "bridge.log"), bb.python)
	return bb, errors.Join(
		os.MkdirAll(bb.work, 0o755), os.MkdirAll(bb.tmp, 0o755),
		os.WriteFile(filepath.Join(bb.work, "answer.py"), []byte(bridgeAgent), 0o644),
		os.WriteFile(filepath.Join(bb.work, "strays.sh"), []byte(strays), 0o755),
		os.WriteFile(bb.config, []byte(config), 0o600),
	)
}

// markOf is a variable that tells whose process one is.
func markOf(dir string) string { return "BENCH_MARK=" + dir }

// bridgeFigures put calls of bridged agents beside the same agents started by themselves.
func bridgeFigures(ctx context.Context, b *bed) ([]figure, error) {
	bb, err := newBridgeBed(b)
	if err != nil {
		return nil, err
	}
	s, err := bb.serve(ctx)
	if err != nil {
		return nil, err
	}
	ours, peer, err := pairs(ctx, max(b.rounds, 5)*4, func() error { return s.call(answerCall(1)) }, func() error { return bb.alone(ctx, 1) })
	if err := errors.Join(err, s.end()); err != nil {
		return nil, err
	}
	one := compare("a call of a running `airlock bridge`", "the agent alone", ours, peer, bridgeBar)
	ours, peer, err = pairs(ctx, b.rounds, func() error { return bb.whole(ctx) }, func() error { return bb.alone(ctx, 1) })
	if err != nil {
		return nil, err
	}
	whole := compare("`airlock bridge TOOL JSON` as a whole", "the agent alone", ours, peer, 0)
	whole.bar = ""
	many, err := bb.atOnce(ctx)
	if err != nil {
		return nil, err
	}
	left, err := bb.leftOver(ctx)
	return []figure{one, whole, many, left}, err
}

func answerCall(n int) string {
	return fmt.Sprintf(`{"tool": "answer", "params": {"repo_name": "me/it", "n": %d}}`, n)
}

// alone runs the agent as the bridge does, without one.
func (bb *bridgeBed) alone(ctx context.Context, n int) error {
	cmd := exec.CommandContext(ctx, bb.python, filepath.Join(bb.work, "answer.py"), "--repo", "me/it", "--n", fmt.Sprint(n))
	cmd.Dir = bb.work
	cmd.Env = append(bb.env[:3:3], "TMPDIR="+bb.tmp, "PYTHONPATH="+bb.work, "AIRLOCK_TOOL=answer", "AIRLOCK_CALL=abcdefghijklmnop", "AIRLOCK_ATTEMPT=1")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"repo_name":"me/it","n":%d}`, n) + "\n")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the agent alone: %w: %s", err, said.Bytes())
	}
	return answered(out, n)
}

// answered reports an answer that is not the agent's.
func answered(line []byte, n int) error {
	var got struct {
		Status string
		N      int
	}
	if err := json.Unmarshal(line, &got); err != nil || got.Status != "success" || got.N != n {
		return fmt.Errorf("the agent answered %.300q", line)
	}
	return nil
}

// whole is one call as one command.
func (bb *bridgeBed) whole(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, bb.airlock, "bridge", "--config", bb.config, "answer", `{"repo_name": "me/it", "n": 2}`)
	cmd.Env = bb.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("airlock bridge: %w: %s%s", err, out, said.Bytes())
	}
	return answered(out, 2)
}

// A bridgeServer is a running airlock bridge.
type bridgeServer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer
}

func (bb *bridgeBed) serve(ctx context.Context, args ...string) (*bridgeServer, error) {
	s := &bridgeServer{cmd: exec.CommandContext(ctx, bb.airlock, append([]string{"bridge", "--config", bb.config}, args...)...)}
	s.cmd.Env, s.cmd.Stderr = bb.env, &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(out, 1<<20)
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return s, s.cmd.Start()
}

// ask gives the answer to a line.
func (s *bridgeServer) ask(line string) ([]byte, error) {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return nil, err
	}
	answer, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("airlock bridge: %w: %s", err, s.said.Bytes())
	}
	return answer, nil
}

func (s *bridgeServer) call(line string) error {
	answer, err := s.ask(line)
	if err != nil {
		return err
	}
	return answered(answer, 1)
}

// end ends the bridge as the end of its input does. Answers that were errors are expected.
func (s *bridgeServer) end() error {
	s.in.Close()
	err := s.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

// atOnce puts a batch of calls beside as many agents alone, until the last has answered.
func (bb *bridgeBed) atOnce(ctx context.Context) (figure, error) {
	const calls = 32
	s, err := bb.serve(ctx, "--jobs", fmt.Sprint(calls))
	if err != nil {
		return figure{}, err
	}
	var batch []string
	for n := range calls {
		batch = append(batch, answerCall(n))
	}
	ours, peer, err := pairs(ctx, max(bb.rounds/2, 3), func() error {
		answer, err := s.ask("[" + strings.Join(batch, ",") + "]")
		if err != nil {
			return err
		}
		var all []json.RawMessage
		if err := json.Unmarshal(answer, &all); err != nil || len(all) != calls {
			return fmt.Errorf("%d answers, want %d: %.300q", len(all), calls, answer)
		}
		for n, one := range all {
			err = errors.Join(err, answered(one, n))
		}
		return err
	}, func() error {
		var wg sync.WaitGroup
		errs := make([]error, calls)
		for n := range calls {
			wg.Go(func() { errs[n] = bb.alone(ctx, n) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if err := errors.Join(err, s.end()); err != nil {
		return figure{}, err
	}
	f := compare(fmt.Sprintf("%d calls at once, to the last answer", calls), "as many agents alone", ours, peer, bridgeBar)
	f.note = fmt.Sprintf("one batch with `--jobs %d`, on %d cores.", calls, runtime.NumCPU())
	return f, nil
}

// leftOver makes 1,000 calls of agents that leave processes behind, of which a third are
// ended for their time, and counts what is there afterwards that was not before.
func (bb *bridgeBed) leftOver(ctx context.Context) (figure, error) {
	const calls = 1000
	s, err := bb.serve(ctx, "--jobs", "32")
	if err != nil {
		return figure{}, err
	}
	if _, err := s.ask(`[{"tool":"left"},{"tool":"stuck"}]`); err != nil { // it opens what it keeps
		return figure{}, errors.Join(err, s.end())
	}
	before, err := bb.settled(ctx, s, nil)
	if err != nil {
		return figure{}, errors.Join(err, s.end())
	}
	var batch []string
	for i := range calls {
		batch = append(batch, fmt.Sprintf(`{"tool": "%s"}`, []string{"left", "left", "stuck"}[i%3]))
	}
	start := time.Now()
	answer, err := s.ask("[" + strings.Join(batch, ",") + "]")
	if err != nil {
		return figure{}, errors.Join(err, s.end())
	}
	took := time.Since(start)
	if ok, late := bytes.Count(answer, []byte(`"success"`)), bytes.Count(answer, []byte("timed out after")); ok != calls-calls/3 || late != calls/3 {
		return figure{}, errors.Join(fmt.Errorf("%d calls were answered and %d timed out: %.300s", ok, late, answer), s.end())
	}
	after, err := bb.settled(ctx, s, &before)
	if err := errors.Join(err, s.end()); err != nil {
		return figure{}, err
	}
	more := after.minus(before)
	return figure{
		name: "1,000 calls of agents that leave processes, a third of which time out", ours: more.String(), peer: "took " + short(took),
		ratio: "", bar: "none left", met: more.none(),
		note: fmt.Sprintf("what is there afterwards and was not before; with %s.", before),
	}, nil
}
