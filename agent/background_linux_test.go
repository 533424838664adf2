package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/agent"
)

// seen is a writer that tells when something was written.
type seen struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func newSeen() *seen { return &seen{changed: make(chan struct{}, 1)} }

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *seen) until(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		got := s.buf.String()
		s.mu.Unlock()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-s.changed:
		case <-timeout:
			t.Fatalf("waited in vain for %q; there is %q", text, got)
		}
	}
}

func TestAListOfProcessesIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name, list string
		count      int // -1: it is an error
	}{
		{"none", `[]`, 0},
		{"one", `[{"process":"p1"}]`, 1},
		{"as many as there may be", "[" + strings.Repeat(`{},`, 16<<10-1) + "{}]", 16 << 10},
		{"one more", "[" + strings.Repeat(`{},`, 16<<10) + "{}]", -1},
		{"a million", "[" + strings.Repeat(`{},`, 1_000_000) + "{}]", -1},
		{"no list", `{}`, -1},
		{"nothing", `null`, -1},
		{"a list of something else", `[1]`, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := against(t, nil, func(method string, _ json.RawMessage) string {
				res := `{"processes":` + tc.list + `}`
				if method == agent.MethodHello {
					res = `{"protocol":"1.1","agent":"airlock-agent","version":"1","capabilities":["processes"],"max_frame":1048576}`
				}
				return `{"jsonrpc":"2.0","id":%d,"result":` + res + "}\n"
			})
			list, err := c.Processes(t.Context())
			if tc.count < 0 && !errors.Is(err, agent.ErrJSON) || tc.count >= 0 && (err != nil || len(list) != tc.count) {
				t.Errorf("Processes gives %d, %v, want %d", len(list), err, tc.count)
			}
		})
	}
}

func TestBackgroundCommands(t *testing.T) {
	each(t, func(t *testing.T, c *agent.Client) {
		ctx := t.Context()
		started, err := c.Spawn(ctx, agent.ExecParams{
			Cmd: "echo ready; read a; echo got $a; read b; echo bad $b >&2; exit 6", ExecOptions: agent.ExecOptions{Input: true, Label: "talker"},
		})
		if err != nil || started.Process == "" {
			t.Fatalf("Spawn = %+v, %v", started, err)
		}
		out := newSeen()
		p, err := c.Attach(ctx, agent.AttachParams{Process: started.Process, Input: true}, &agent.Streams{Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		out.until(t, "ready")
		if err := p.Input(ctx, []byte("one\n")); err != nil {
			t.Error(err)
		}
		out.until(t, "got one")
		p.Cancel()
		if res, err := p.Wait(); err != nil || !res.Canceled || res.Process != started.Process {
			t.Errorf("Wait of what was let go = %+v, %v", res, err)
		}
		list, err := c.Processes(ctx)
		if err != nil || len(list) != 1 || !list[0].Running || list[0].Label != "talker" || !list[0].Input {
			t.Errorf("Processes = %+v, %v", list, err)
		}
		var stdout, stderr bytes.Buffer
		p, err = c.Attach(ctx, agent.AttachParams{Process: started.Process, From: -4}, &agent.Streams{Stdin: strings.NewReader("two\n"), Stdout: &stdout, Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(); err != nil || res.ExitCode != 6 || stdout.String() != "one\n" || stderr.String() != "bad two\n" || p.Skipped() != 0 {
			t.Errorf("Wait = %+v, %v; %q, %q", res, err, &stdout, &stderr)
		}
		if err := c.EndProcess(ctx, agent.EndParams{Process: started.Process, Forget: true}); err != nil {
			t.Error(err)
		}
		var failed *agent.RPCError
		if err := c.EndProcess(ctx, agent.EndParams{Process: started.Process}); !errors.As(err, &failed) {
			t.Errorf("EndProcess of what is forgotten: %v", err)
		}
	})
}

func TestAContextOnlyLetsGo(t *testing.T) {
	c := guestClient(t, nil)
	started, err := c.SpawnCode(t.Context(), agent.ExecCodeParams{Lang: "sh", Code: "echo ready; read x", ExecOptions: agent.ExecOptions{Input: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, feeder := io.Pipe()
	defer feeder.Close()
	out := newSeen()
	p, err := c.Attach(ctx, agent.AttachParams{Process: started.Process}, &agent.Streams{Stdin: in, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.until(t, "ready")
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if list, err := c.Processes(t.Context()); err != nil || len(list) != 1 || !list[0].Running || !list[0].Input {
		t.Errorf("Processes = %+v, %v", list, err)
	}
}

func TestInputEndsWhenItsReaderDoesUnlessItWasLetGo(t *testing.T) {
	c := guestClient(t, nil)
	started, err := c.Spawn(t.Context(), agent.ExecParams{Cmd: "echo ready; cat; echo end", ExecOptions: agent.ExecOptions{Input: true}})
	if err != nil {
		t.Fatal(err)
	}
	in, feeder := io.Pipe()
	p, err := c.Attach(t.Context(), agent.AttachParams{Process: started.Process}, &agent.Streams{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	p.Cancel()
	feeder.Close()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if list, err := c.Processes(t.Context()); err != nil || !list[0].Running || !list[0].Input {
		t.Errorf("Processes = %+v, %v", list, err)
	}
	var out bytes.Buffer
	p, err = c.Attach(t.Context(), agent.AttachParams{Process: started.Process}, &agent.Streams{Stdin: strings.NewReader("text\n"), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := p.Wait(); err != nil || res.ExitCode != 0 || out.String() != "ready\ntext\nend\n" {
		t.Errorf("Wait = %+v, %v; %q", res, err, &out)
	}
}

func TestSkippedOutputIsCounted(t *testing.T) {
	c := guestClient(t, nil)
	started, err := c.Spawn(t.Context(), agent.ExecParams{Cmd: "seq 1000", ExecOptions: agent.ExecOptions{KeepOutput: 100}})
	if err != nil {
		t.Fatal(err)
	}
	var first, late bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &late} {
		p, err := c.Attach(t.Context(), agent.AttachParams{Process: started.Process}, &agent.Streams{Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(); err != nil || res.ExitCode != 0 || p.Skipped()+int64(out.Len()) != 3893 {
			t.Errorf("Wait = %+v, %v; %d bytes and %d skipped", res, err, out.Len(), p.Skipped())
		}
	}
	if late.Len() != 100 || !strings.HasSuffix(late.String(), "\n999\n1000\n") {
		t.Errorf("what was kept is %q", &late)
	}
}

func TestWhatIsNotStartedInTheBackgroundIsAResult(t *testing.T) {
	res, err := guestClient(t, nil).Spawn(t.Context(), agent.ExecParams{Argv: []string{"no-such-program"}})
	if err != nil || res.NotStarted != "not_found" || res.Process != "" || res.ExitCode != -1 {
		t.Errorf("Spawn = %+v, %v", res, err)
	}
}

func TestAGuestThatKnowsNoBackground(t *testing.T) {
	c := against(t, nil, func(method string, _ json.RawMessage) string {
		if method != agent.MethodHello {
			t.Errorf("it was asked for %s", method)
		}
		return `{"jsonrpc":"2.0","id":%d,"result":{"protocol":"1.1","capabilities":["exec","stream","input"]}}` + "\n"
	})
	_, spawned := c.Spawn(t.Context(), agent.ExecParams{Cmd: ":"})
	_, listed := c.Processes(t.Context())
	_, attached := c.Attach(t.Context(), agent.AttachParams{Process: "p1"}, nil)
	_, labeled := c.Run(t.Context(), agent.ExecParams{Cmd: ":", ExecOptions: agent.ExecOptions{Label: "x"}}, nil)
	for _, err := range []error{spawned, listed, attached, labeled, c.EndProcess(t.Context(), agent.EndParams{Process: "p1"})} {
		if !errors.Is(err, agent.ErrUnsupported) {
			t.Errorf("err = %v, want %v", err, agent.ErrUnsupported)
		}
	}
}

func TestAGuestThatAnswersBackgroundWrongly(t *testing.T) {
	for name, result := range map[string]string{
		"no process": `{"exit_code":0,"stdout":"","stderr":""}`,
		"no list":    `{}`,
		"a word":     `"x"`,
	} {
		t.Run(name, func(t *testing.T) {
			c := against(t, nil, func(method string, _ json.RawMessage) string {
				if method == agent.MethodHello {
					return `{"jsonrpc":"2.0","id":%d,"result":{"protocol":"1.1","capabilities":["exec","processes"]}}` + "\n"
				}
				return `{"jsonrpc":"2.0","id":%d,"result":` + result + "}\n"
			})
			_, spawned := c.Spawn(t.Context(), agent.ExecParams{Cmd: ":"})
			_, listed := c.Processes(t.Context())
			for _, err := range []error{spawned, listed} {
				if !errors.Is(err, agent.ErrJSON) {
					t.Errorf("err = %v, want %v", err, agent.ErrJSON)
				}
			}
		})
	}
}
