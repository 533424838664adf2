package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"airlock/agent"
)

// What is allowed between the model's last byte and the first command, beyond the sandbox's
// own start, and for the help of airlock ai.
const (
	aiBar   = 15 * time.Millisecond
	helpBar = 60 * time.Millisecond
)

// tellTime is the first command of the measured plan: the moment it runs.
const tellTime = "date +%s%N"

// signed is a difference in time.
func signed(d time.Duration) string {
	if d < 0 {
		return "−" + short(-d)
	}
	return "+" + short(d)
}

// aiFigures measure what a person waits for beside the model itself: from the last byte of
// its answer to the first command, and the start of airlock ai.
func aiFigures(ctx context.Context, b *bed) ([]figure, error) {
	m, err := newAnswerer(ctx)
	if err != nil {
		return nil, err
	}
	defer m.close()
	var answer, start []time.Duration
	for i := range b.rounds + 1 {
		whole, err := b.askToCommand(ctx, m)
		if err != nil {
			return nil, err
		}
		alone, err := b.startToCommand(ctx)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			answer, start = append(answer, whole), append(start, alone)
		}
	}
	var help []time.Duration
	for i := range b.rounds + 1 {
		t0 := time.Now()
		if err := exec.CommandContext(ctx, b.airlock, "ai", "--help").Run(); err != nil {
			return nil, err
		}
		if i > 0 {
			help = append(help, time.Since(t0))
		}
	}
	beyond, took := median(answer)-median(start), median(help)
	return []figure{
		{
			name: "from the last byte of a model's answer to the first command's start", ours: short(median(answer)),
			peer: "a sandbox's start to its first command: " + short(median(start)), ratio: signed(beyond),
			bar: "≤ +" + short(aiBar), met: beyond <= aiBar,
		},
		{name: "`airlock ai --help`", ours: short(took), bar: "≤ " + short(helpBar), met: took <= helpBar},
	}, nil
}

// askToCommand runs airlock ai run, and says how long after the model's last byte the
// plan's command ran.
func (b *bed) askToCommand(ctx context.Context, m *answerer) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, b.airlock, "ai", "run", "--json", "--discard", "what time is it")
	cmd.Dir = b.dir
	cmd.Env = append(plainEnv(), "HOME="+b.dir, "AIRLOCK_HOME="+filepath.Join(b.dir, "ai"), "AIRLOCK_PROVIDER=openai", "AIRLOCK_MODEL=bench",
		"AIRLOCK_BASE_URL="+m.url, "OPENAI_API_KEY=none-is-needed")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("airlock ai run: %w: %s", err, said.Bytes())
	}
	var res struct {
		Steps []struct {
			Stdout string `json:"stdout"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(out, &res); err != nil {
		return 0, err
	}
	if len(res.Steps) != 1 {
		return 0, errors.New("the plan did not run")
	}
	return since(time.Unix(0, m.last.Load()), res.Steps[0].Stdout)
}

// startToCommand starts a sandbox and says how long after that began its first command ran.
func (b *bed) startToCommand(ctx context.Context) (time.Duration, error) {
	t0 := time.Now()
	sb, _, err := b.startSandbox(ctx)
	if err != nil {
		return 0, err
	}
	defer sb.Close()
	res, err := sb.Client().Run(ctx, agent.ExecParams{
		Argv:        []string{"bash", "-c", "--", tellTime},
		ExecOptions: agent.ExecOptions{Cwd: b.dir, Env: map[string]string{"PATH": plainPath, "HOME": b.dir}, ClearEnv: true},
	}, nil)
	if err != nil || res.ExitCode != 0 {
		return 0, errors.Join(errExit, err)
	}
	return since(t0, res.Stdout)
}

// plainPath is where both sides look for programs: each folder takes a while to look in.
const plainPath = "/usr/local/bin:/usr/bin:/bin"

// plainEnv is an environment that makes no difference.
func plainEnv() []string { return []string{"PATH=" + plainPath} }

// since is the time from a moment to that which a command has told.
func since(from time.Time, told string) (time.Duration, error) {
	at, err := strconv.ParseInt(strings.TrimSpace(told), 10, 64)
	return time.Unix(0, at).Sub(from.Round(0)), err
}

// thinking is how long the model takes before it answers: less than any real one.
const thinking = 200 * time.Millisecond

// An answerer is a model with one answer, in the wire format of OpenAI's streams.
type answerer struct {
	url  string
	last atomic.Int64 // when the last byte was written, in nanoseconds
	srv  *http.Server
}

func newAnswerer(ctx context.Context) (*answerer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &answerer{url: "http://" + l.Addr().String() + "/v1"}
	m.srv = &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	go func() { _ = m.srv.Serve(l) }() // it ends with close
	return m, nil
}

func (m *answerer) close() { _ = m.srv.Close() }

func (m *answerer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(thinking)
	plan, _ := json.Marshal(`{"kind":"command_sequence","summary":"Tell the time","steps":[{"id":"1","description":"Tell it","shell_command":"` + tellTime + `"}]}`)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`{"delta":{"role":"assistant","content":` + string(plan) + `},"index":0,"finish_reason":null}`, `{"delta":{},"index":0,"finish_reason":"stop"}`} {
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench\",\"choices\":[%s]}\n\n", delta)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	_ = http.NewResponseController(w).Flush()
	m.last.Store(time.Now().UnixNano())
}
