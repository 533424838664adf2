package main

import (
	"context"
	"time"

	"airlock/agent"
)

// startFigures take a run apart: what each step of it takes.
func startFigures(ctx context.Context, b *bed) ([]figure, error) {
	var start, exec, upper, end []time.Duration
	for i := range b.rounds + 1 {
		t0 := time.Now()
		sb, _, err := b.startSandbox(ctx)
		if err != nil {
			return nil, err
		}
		t1 := time.Now()
		_, err = sb.Client().Run(ctx, agent.ExecParams{Argv: []string{"/bin/true"}}, nil)
		if err != nil {
			sb.Close()
			return nil, err
		}
		t2 := time.Now()
		if err := sb.Upper(ctx, &counter{}); err != nil {
			sb.Close()
			return nil, err
		}
		t3 := time.Now()
		if err := sb.Close(); err != nil {
			return nil, err
		}
		t4 := time.Now()
		if i > 0 {
			start, exec = append(start, t1.Sub(t0)), append(exec, t2.Sub(t1))
			upper, end = append(upper, t3.Sub(t2)), append(end, t4.Sub(t3))
		}
	}
	line := func(name string, d []time.Duration) figure { return figure{name: name, ours: short(median(d))} }
	return []figure{
		line("of a run: start, until the agent has said hello", start), line("of a run: `true`", exec),
		line("of a run: reading an empty upper layer", upper), line("of a run: ending the sandbox", end),
	}, nil
}

// breakdown says what the time of a start is made of. It was read off a trace; the
// figures above are measured anew each time.
const breakdown = `## What the time of a run is made of

Read off timestamps in a build made for it, on the same kind of machine when it was quiet
(about 85 ms in all; ranges of several runs):

| step | ms | whose |
| --- | --- | --- |
| airlock comes up (an empty Go program: 1.0) | 5–6 | package initialisation, nearly all the engine's |
| flags, hidden paths, folder, lock | 1 | ours |
| the keeper comes up; specification and hidden.tar are written meanwhile | 4.5–5.5 | the engine's initialisation once more, but our process |
| the engine creates a sandbox: file server, monitor | 27–37 | gVisor's |
| the engine starts it: file systems, first process | 18–21 | gVisor's |
| the agent comes up in the sandbox and says hello | 8–10 | ours, at gVisor's speed of starting a Go program |
| the first true: fork, exec, loading | 7–8 | gVisor's |
| reading an empty upper layer | 2 | half ours |
| ending: monitor, file server, keeper | 6–7 | gVisor's, but for 1 |

What was taken out on the way: the engine's command line as a process of its own (it is
called as packages), mounts for hidden paths (whiteouts in the upper layer cost nothing), the big
program as PID 1 (13 ms more than the small agent), a second connection into the sandbox (the
agent speaks over PID 1's own streams), and waiting for the keeper before its work is written down.
What was tried and changed nothing that could be measured: one processor for the agent's runtime, no
garbage collection in it, collecting children by a blocking wait, leaving its pipes more time to end.
What could still go is the keeper's own start; it is what cleans up when airlock is killed.

Plans, the gate and the record came later, and with them airlock comes up in 10.8 ms instead of 5.9 (the
schema library's own initialisation is 3.4 of that), and a run takes 6 % longer than before (137 ms beside
128, in turn, on a busy machine). Without what was done about it, it was 30 %: the engine's processes are a
program of their own, which brings up none of it; expressions, policies and tools are made when they are first
used; a policy is read only where there is one; and a run's rows are written while its sandbox starts
and ends. Since then a keeper is started first of all, where the command line says that one will be needed, before
airlock's own packages are initialised: the engine is there 6 ms after the start instead of 22, and waits for its plan. That
took 2 to 7 % off a run, measured in turn with the build before (three times 30 pairs). The engine by itself
forks its file server 9 ms after its start, airlock's keeper does 27 ms after airlock's: the difference is mostly airlock's own
initialisation, 5 ms of it the schema library's, and could still go.

## What a plan's step costs beyond its command

The 50 steps take 1.1 to 1.2 times as long as the same commands through a bare agent. Most of what a step adds is
waiting for the disk, once: its call, its verdict and the result of the step before are one transaction. As three
transactions they made it 1.4 to 1.5. The verdict itself takes 17 µs, twice: for the person, and for the call.

## What stands between a model's answer and its first command

Read off timestamps of such runs, in ms: the end of the stream, parsing and checking 0.2; the plan's review and the request 0.4;
hidden paths 0.8; **the sandbox's start 61**; guarded paths 0.9; the record and the journal of the plan 1.6; verdict and
record of the step 0.7; **the first bash and its command in a fresh sandbox 14**. What is not in bold is ours. The schema, the
policy's tables, the record and the store are made ready while the model writes: that was 3.6 more. So is the sandbox's
keeper, which is why a run can come out below a sandbox's start from nothing. Both sides run the same line with
the same PATH: with a person's PATH of a dozen folders bash takes 6 to 8 ms longer to find a program in a fresh sandbox, on either
side. The imitated model thinks for 200 ms, which is less than any real one takes. Before the keeper was started ahead, six runs
on a quiet machine gave +4.7 to +16.5 ms and a seventh +22.9; after, three gave −4.5, +2.4 and +6.0. It is the difference of two starts that
vary by as much.

## What a bridged call costs beyond its agent

About 2 ms of 17, beside an agent whose process is Python. Of airlock's own processor time (1.0 ms a call, read off a profile of 6,000 calls of
` + "`/bin/true`" + `) a third is the record's one transaction, which has to be on the disk before the agent starts; the guest agent on the host takes 0.5 ms, most of it for
starting and waking. What was taken out on the way: a second transaction for the result (it waits 50 ms for the next call's), one for each sample of the metrics
(they come together for 100 ms), and three looks through all of /proc for what an agent left (one look, at processes younger than the agent, and another only where some came or went): 32 calls at once
took 1.28 times as long as their agents before that. What is left and could go is the question whether the host's agent is still there (a ping).

The agent's memory grows until about the 300th command, while its heap and the runtime's own tables take
their size, and not after: 7.8 MB after 1,000 commands and 7.7 MB after 3,000, on the host, before memory
was given back at rest; 4.8 MB at rest after 10, 5.8 after 1,000, 6.2 after 3,000 with it. Inside a sandbox the engine counts in
steps of 2 MB, so that the same agent shows between -0.2 and +1.9 MB.
`
