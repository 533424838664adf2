package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gvisor.dev/gvisor/runsc/container"
)

// The engine reads each file of the upper layer into the monitor's memory as a whole, holes
// included, before it writes it out. So the guest chooses how much memory that takes, with
// one truncate, and it is the keeper that has to say how much it may be.

// mostUpperMemory is the most that reading out may take unless Options say otherwise; less
// where the machine has less than twice that to spare.
const mostUpperMemory = 8 << 30

// upper freezes the sandbox and writes its upper layer.
func (k *keeper) upper(file *os.File) error {
	if k.c.Status != container.Paused {
		if err := k.c.Pause(); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	// The limit was the command's, which cannot use what it has not got any more: a file
	// larger than the limit is to be had nevertheless.
	if k.plan.Cgroup != "" && k.plan.Memory > 0 {
		setMemory(k.plan.Cgroup, 0)
		if k.last != nil {
			defer func() { go k.last.limitAgain() }()
		}
	}
	room := k.plan.UpperMemory
	if room <= 0 {
		room = mostUpperMemory
	}
	room = min(room, availableMemory()/2)
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { k.watchUpper(room, stop) })
	err := k.c.TarRootfsUpperLayer(file)
	close(stop)
	watching.Wait()
	return err
}

// watchUpper ends the sandbox when its memory grows by more than room.
func (k *keeper) watchUpper(room int64, stop <-chan struct{}) {
	before := anonymousMemory(k.pid)
	tick := time.NewTicker(upperInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if anonymousMemory(k.pid)-before > room {
			k.tooLarge.Store(room)
			k.kill()
			return
		}
	}
}

// tooLargeReason says why the keeper ended the sandbox, if watchUpper did.
func (k *keeper) tooLargeReason() string {
	room := k.tooLarge.Load()
	if room == 0 {
		return ""
	}
	return fmt.Sprintf("a file in it is too large to be read out, which would take over %d MiB of memory", room>>20)
}

// upperInterval is how often watchUpper looks: memory grows by some megabytes a millisecond.
const upperInterval = 10 * time.Millisecond

// setMemory sets the memory limit of the group; 0 takes it off.
func setMemory(path string, limit int64) {
	v1, v2 := "-1", "max"
	if limit > 0 {
		v1 = strconv.FormatInt(limit, 10)
		v2 = v1
	} else {
		holdSwap(path, 0)
	}
	for file, text := range map[string]string{
		filepath.Join("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"): v1,
		filepath.Join("/sys/fs/cgroup", path, "memory.max"):                   v2,
		filepath.Join("/sys/fs/cgroup/unified", path, "memory.max"):           v2,
	} {
		// Where it stays, the limit holds on, and ends the sandbox.
		_ = os.WriteFile(file, []byte(text), 0)
	}
	if limit > 0 {
		holdSwap(path, limit)
	}
}

// usedMemory is what the group takes now; 0 where that is not known.
func usedMemory(path string) int64 {
	for _, file := range []string{
		filepath.Join("/sys/fs/cgroup/memory", path, "memory.usage_in_bytes"),
		filepath.Join("/sys/fs/cgroup", path, "memory.current"),
		filepath.Join("/sys/fs/cgroup/unified", path, "memory.current"),
	} {
		if data, err := os.ReadFile(file); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			return n
		}
	}
	return 0
}

// How often and how long limitAgain waits for what reading out took to be given back.
const (
	limitPause = 500 * time.Millisecond
	limitTries = 240
)

// limitAgain puts the memory limit back once the sandbox is below it: set under what is used, it
// would end a sandbox that has done nothing.
func (l *last) limitAgain() {
	p := l.k.plan
	for range limitTries {
		if usedMemory(p.Cgroup) < p.Memory-p.Memory/8 {
			break
		}
		select {
		case <-l.over:
			return
		case <-time.After(limitPause):
		}
	}
	setMemory(p.Cgroup, p.Memory)
}

// availableMemory is what the machine has to spare.
func availableMemory() int64 { return kilobytes("/proc/meminfo", "MemAvailable:") }

// anonymousMemory is what a process has of its own: not the pages of files, which the
// system takes back when it needs them.
func anonymousMemory(pid int) int64 {
	return kilobytes("/proc/"+strconv.Itoa(pid)+"/status", "RssAnon:")
}

// kilobytes reads a line "NAME   N kB", in bytes; 0 where there is none.
func kilobytes(file, name string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
