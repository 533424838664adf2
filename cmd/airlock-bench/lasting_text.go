package main

// lastingBreakdown says what the time of a sandbox that lasts is made of.
const lastingBreakdown = `
## What a sandbox that lasts costs

All sides run the same static busybox in the same root file system. The engine by itself has the quickest of its overlays (in memory). crun makes control
groups unless told not to, which under version 1 of them waits for the kernel; it is given both ways, and where a host has both versions mounted, which crun refuses to run on,
it runs without a view of the second.

**Cold.** In processor time, which a busy machine changes little (medians of 12, in ms): the engine by itself, ` + "`runsc run --detach`" + `, takes 86: its command 18, its file
server 20, its monitor 48. A sandbox of ours takes 115: the keeper 23, the file server 20, the monitor 67, since the guest agent starts in it, the caller 2, and a few for the
processes that stand for the guest's. The first command is 15 more, each later one 5 to 7; of these ` + "`true`" + ` itself, as a program in C starts it, is 2.5.
A command makes some 220 system calls in the guest: 56 are Go's at a fork, 50 hand work from thread to thread, 34 are the clock of Go's scheduler.
Tried without any gain: one processor for the agent's runtime (once more), and restoring a checkpoint of a fresh sandbox instead of starting one (20 % slower).

**Warm.** The pool has each sandbox run two commands before it is ready: the first command of a sandbox took 15 ms, the second 11, each later one 6. The take is one ping, from
the client by way of the keeper to the agent: 0.6 to 0.8 ms on a quiet machine, of which the keeper and the multiplexer are half.

**Memory.** Ten seconds after its last call a sandbox has given back what its processes needed to start, the pages of their program above all: alone it was 50 MB two seconds after
its start, and 35 MB then. What is of files is shared by all sandboxes of one engine.
`
