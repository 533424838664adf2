package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"airlock/internal/rpc"
)

// Spawn starts a command in the background and returns when it has started. It goes on without the
// connection, until it ends or EndProcess ends it, and its newest output is kept for Attach. The
// result holds its name, in Process, or why it was not started. With params.Input its stdin
// stays open for those that attach.
func (c *Client) Spawn(ctx context.Context, params ExecParams) (ExecResult, error) {
	params.Detach = true
	c.op(ctx, MethodExec, slog.Int("command_bytes", params.size()))
	return c.spawn(ctx, MethodExec, params, params.needs())
}

// SpawnCode is Spawn for code in a language; see ExecCode.
func (c *Client) SpawnCode(ctx context.Context, params ExecCodeParams) (ExecResult, error) {
	params.Detach = true
	c.op(ctx, MethodExecCode, slog.String("lang", params.Lang), slog.Int("code_bytes", len(params.Code)))
	return c.spawn(ctx, MethodExecCode, params, params.needs())
}

func (c *Client) spawn(ctx context.Context, method string, params any, needs []string) (ExecResult, error) {
	if err := c.allow(ctx, method, needs); err != nil {
		return ExecResult{}, err
	}
	res, err := c.exec(ctx, rpc.Call{Method: method, Params: params})
	if err == nil && res.Process == "" && res.ExitCode == 0 {
		return ExecResult{}, malformed(method, "no process")
	}
	return res, err
}

// Processes lists the commands that the guest runs, of any connection or of none, and those
// without a connection that have ended lately; the oldest first.
func (c *Client) Processes(ctx context.Context) ([]ProcessInfo, error) {
	if _, err := c.need(ctx, MethodProcesses, CapProcesses); err != nil {
		return nil, err
	}
	var res ProcessesResult
	if err := c.Call(ctx, MethodProcesses, Empty{}, &res); err != nil {
		return nil, err
	}
	if res.Processes == nil {
		return nil, malformed(MethodProcesses, "no processes")
	}
	return res.Processes, nil
}

// maxListed is how many processes are taken of a list: more than a guest could run for all its connections. Some bytes
// of an answer are a hundred times as many in memory, so it is not only the frame that has a limit.
const maxListed = 16 << 10

// UnmarshalJSON takes a list of a bounded length. One that is not there is nil.
func (r *ProcessesResult) UnmarshalJSON(data []byte) error {
	var raw struct {
		Processes json.RawMessage `json:"processes"`
		EndedMS   *int64          `json:"ended_ms"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	r.Processes, r.EndedMS = nil, raw.EndedMS
	if len(raw.Processes) == 0 || string(raw.Processes) == "null" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(raw.Processes))
	if open, err := in.Token(); err != nil || open != json.Delim('[') {
		return errors.Join(errors.New("the processes are no list"), err)
	}
	list := []ProcessInfo{}
	for in.More() {
		if len(list) == maxListed {
			return fmt.Errorf("there are more than %d processes", maxListed)
		}
		var one ProcessInfo
		if err := in.Decode(&one); err != nil {
			return err
		}
		list = append(list, one)
	}
	r.Processes = list
	return nil
}

// Attach has the output of a background command written to streams, from params.From on, and
// then as it comes. The Process is not the command: when ctx ends, or Cancel is called, or the
// connection goes, the command goes on. Wait returns when it ends, with its result; with NoWait,
// when all is written that is kept, and the exit code is -1 while it runs. What Streams.Stdin
// brings is given to the command, whose stdin is closed at its end; without a Stdin, params.Input
// allows Input.
func (c *Client) Attach(ctx context.Context, params AttachParams, streams *Streams) (*Process, error) {
	var o ExecOptions
	s := o.live(streams)
	params.Input = params.Input || o.Input
	needs := []string{CapProcesses, CapStream}
	if params.Input {
		needs = append(needs, CapInput)
	}
	if _, err := c.need(ctx, MethodAttach, needs...); err != nil {
		return nil, err
	}
	c.op(ctx, MethodAttach, slog.String("process", params.Process))
	p := &Process{c: c, done: make(chan struct{}), follow: &follow{next: params.From}}
	return c.begin(ctx, p, MethodAttach, params, s)
}

// EndProcess ends a command, of any connection or of none, with all that it left running, and
// returns when it is gone. It has no limit but ctx.
func (c *Client) EndProcess(ctx context.Context, params EndParams) error {
	if _, err := c.need(ctx, MethodEnd, CapProcesses); err != nil {
		return err
	}
	c.op(ctx, MethodEnd, slog.String("process", params.Process))
	res, err := c.do(ctx, rpc.Call{Method: MethodEnd, Params: params})
	if err != nil {
		return err
	}
	return decode(MethodEnd, res.Result, &Empty{})
}

// Skipped is how many bytes of output an attached Process was not given, because they were no
// longer kept when their turn came. It counts as far as output was written.
func (p *Process) Skipped() int64 {
	if p.follow == nil {
		return 0
	}
	return p.follow.skipped.Load()
}

// A follow is what is known of the output that is attached to.
type follow struct {
	next    int64 // the offset that should come; negative: any
	skipped atomic.Int64
	gone    atomic.Bool // Cancel was called
}

func (f *follow) take(out *OutputParams) {
	if f == nil {
		return
	}
	if f.next >= 0 && out.Offset > f.next {
		f.skipped.Add(out.Offset - f.next)
	}
	f.next = out.Offset + int64(len(out.Data))
}

func (f *follow) letGo() {
	if f != nil {
		f.gone.Store(true)
	}
}

func (f *follow) isLetGo() bool { return f != nil && f.gone.Load() }
