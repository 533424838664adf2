package gvisor

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A sandbox that lasts waits most of its life, and so do its three processes. What they needed to
// start is given back then: freed memory, and the pages of their program, which are read again from
// the page cache where they are needed. In two steps, since some are still at work a second after the start.
var restTimes = [...]time.Duration{time.Second, 4 * time.Second}

// restLater gives back after a while what this process does not need any more. It reads which
// mappings are the program's now: later it may be in a root folder without /proc.
func restLater() {
	program := programMappings()
	go func() {
		for _, after := range restTimes {
			time.Sleep(after)
			debug.FreeOSMemory()
			for _, m := range program {
				// Private and never written to: what is dropped is read again.
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
			}
		}
	}()
}

type mapping struct{ start, end uintptr }

// programMappings are the mappings of this program's file that cannot be written to.
func programMappings() []mapping {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var found []mapping
	for line := range strings.Lines(string(data)) {
		// START-END PERMISSIONS OFFSET DEVICE INODE PATH
		f := strings.Fields(line)
		if len(f) < 6 || strings.Contains(f[1], "w") || strings.Join(f[5:], " ") != exe {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && end > start {
			found = append(found, mapping{uintptr(start), uintptr(end)})
		}
	}
	return found
}
