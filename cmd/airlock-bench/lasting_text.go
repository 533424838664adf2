package main

// lastingBreakdown says what the time of a sandbox that lasts is made of.
const lastingBreakdown = `
## What a sandbox that lasts costs

All sides run the same static busybox in the same root file system. The engine by itself has the quickest of its overlays (in memory). crun makes control
groups unless told not to, which under version 1 of them waits for the kernel; it is given both ways, and where a host has both versions mounted, which crun refuses to run on,
it runs without a view of the second.

**Cold.** In processor time, which a busy machine changes little (medians of 12, in ms): the engine by itself, ` + "`runsc run --detach`" + `, takes 86: its command 18, its file
server 20, its monitor 48. A sandbox of ours takes about 113: the keeper 23, the file server 20, the monitor with what stands for the guest's processes 67, since the guest agent
starts in it, the caller 2. The first command is 15 more, each later one 5 to 7; of these ` + "`true`" + ` itself, as a program in C starts it, is 2.5.
A command makes some 220 system calls in the guest: 56 are Go's at a fork, 50 hand work from thread to thread, 34 are the clock of Go's scheduler.
Tried without any gain: one processor for the agent's runtime (once more), and restoring a checkpoint of a fresh sandbox instead of starting one (20 % more processor time).

**Warm.** The pool has each sandbox run two commands before it is ready: a sandbox's first command took 15 ms, its second 11, its third 6. The take is one ping, from
the client by way of the keeper to the agent: 0.8 ms after a rest, on a machine where the same took 0.7 over the pipes of a sandbox that does not last, and up to 3 where
others have the processors.

**Fork.** What is measured is what ` + "`airlock sandbox fork`" + ` does: the processes of the copy start while the parent is saved. One after the other, saved and then
restored, it takes 1.6 times as long as the engine's own two steps, on two processors, because what is started is more than the engine's.

**Small files.** A file is five system calls in the guest. gVisor's platform catches a call by a signal, 4 µs on the quiet machine and far more where others have the processors, unless its number is a constant right before the
instruction, as in C libraries: then 1 µs. Go's are not of that form; those of a tree's files are made so now (ADR 17). In turn with the same agent before, on a busy machine: 0.62 s instead of 1.68 for 10,000
files; on a quieter one 0.68 instead of 0.91.

**Exec.** With a limit of processes a command has a control group of its own, which was 38 system calls and is six: 5.6 ms instead of 7.0 for ` + "`true`" + `, in turn. Of 6.6 ms, read off timestamps, ` + "`true`" + ` itself is 3.7, Go's
fork 1.5, the request's way in 1.0 and the answer's out 0.4. Tried without a clear gain: one processor for the agent's runtime (2 %).

**Memory.** Ten seconds after its last call a sandbox has given back what its processes needed to start, the pages of their program above all: alone it was 50 MB two seconds after
its start, and 35 to 40 MB then. What is of files is shared by all sandboxes of one engine.
`
