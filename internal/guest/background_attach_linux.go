package guest

import (
	"context"
	"time"

	"airlock/agent"
	"airlock/internal/rpc"
)

func (s *session) processes(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	if err := decode(req, &agent.Empty{}); err != nil {
		return nil, err
	}
	js := s.a.jobs
	js.mu.Lock()
	list := append([]*job(nil), js.list...)
	js.mu.Unlock()
	res := agent.ProcessesResult{Processes: make([]agent.ProcessInfo, 0, len(list))}
	for _, j := range list {
		one := j.tell()
		res.Processes = append(res.Processes, one)
		if one.Ended == nil {
			continue
		}
		if ago := time.Since(*one.Ended).Milliseconds(); res.EndedMS == nil || ago < *res.EndedMS {
			res.EndedMS = &ago
		}
	}
	return res, nil
}

// named decodes params that name a process in their member process.
func (s *session) named(name *string) (*job, error) {
	if name == nil {
		return nil, missing("process")
	}
	return s.a.jobs.find(*name)
}

func (s *session) attach(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.AttachParams
		Process *string `json:"process"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	j, err := s.named(p.Process)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	proc, output, detached := j.proc, j.output, j.detached
	j.mu.Unlock()
	switch {
	case !detached:
		return nil, invalid("process: %s is not in the background: its output goes to the request that waits for it", *p.Process)
	case p.TTY != nil && (proc == nil || proc.master == nil):
		return nil, invalid("tty: %s has no terminal", *p.Process)
	case p.TTY != nil:
		_ = resize(proc.master, *p.TTY) // it may have ended: its output is there all the same
	}
	s.begin(req.ID)
	defer s.end(req.ID)
	if proc != nil {
		s.add(req.ID, running{proc, p.Input})
	}
	f := follower{a: s.a, peer: peer, id: req.ID, job: j, output: output}
	return f.follow(ctx, output.place(p.From), p.NoWait), nil
}

// A follower sends a job's output to a client, at the client's pace. The job does not wait for it:
// what is forgotten before its turn comes is skipped, as the offsets tell.
type follower struct {
	a      *Agent
	peer   rpc.Peer
	id     uint64
	job    *job
	output *keep
}

func (f *follower) follow(ctx context.Context, at int64, noWait bool) *agent.ExecResult {
	over := false
	for {
		next, changed, ok := f.send(ctx, at)
		switch {
		case !ok || ctx.Err() != nil:
			return &agent.ExecResult{ExitCode: -1, Canceled: true, Process: f.job.info.Process}
		case next > at:
			at = next
			continue
		case over:
			res := *f.job.res
			res.Process = f.job.info.Process
			return &res
		}
		select {
		case <-f.job.over:
			over = true // its output is complete by now
			continue
		default:
		}
		if noWait {
			return &agent.ExecResult{ExitCode: -1, Process: f.job.info.Process}
		}
		select {
		case <-changed:
		case <-f.job.over:
		case <-ctx.Done():
		}
	}
}

// send sends one piece of output, and says where the next begins.
func (f *follower) send(ctx context.Context, at int64) (next int64, changed <-chan struct{}, ok bool) {
	chunk := f.a.chunks.Get().(*[chunkSize]byte)
	defer f.a.chunks.Put(chunk)
	n, from, which, changed := f.output.read(chunk[:], at)
	if n == 0 {
		return at, changed, true
	}
	params := agent.OutputParams{ID: f.id, Stream: streamNames[which], Offset: from}
	var raw []byte
	if f.peer.RawAllowed() {
		raw = chunk[:n]
	} else {
		params.Data = chunk[:n]
	}
	err := f.peer.Notify(ctx, agent.NotifyOutput, params, raw)
	return from + int64(n), changed, err == nil
}

func (s *session) endProcess(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.EndParams
		Process *string `json:"process"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	j, err := s.named(p.Process)
	if err != nil {
		return nil, err
	}
	grace := time.Duration(stopsAtOnce)
	switch {
	case p.GraceMS == 0:
		grace = defaultEnd * time.Millisecond
	case p.GraceMS > 0:
		grace = min(time.Duration(p.GraceMS), longestEnd/time.Millisecond) * time.Millisecond
	}
	if _, running := j.state(); running {
		j.terminate(grace)
	}
	select {
	case <-j.over:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.Forget {
		s.a.jobs.forget(j)
	}
	return agent.Empty{}, nil
}
