package main

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// hybrid is where a host with control groups of both versions has the second one. crun does not run where that
// holds controllers, in whatever way it is asked to.
const hybrid = "/sys/fs/cgroup/unified"

// A seclusion runs things on a thread that does not see the second version's control groups, and neither does what
// they start. That costs what is started nothing.
type seclusion struct {
	work chan func()
	over chan struct{}
}

func seclude() (*seclusion, error) {
	s := &seclusion{work: make(chan func()), over: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(s.over)
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others, and ends here
		ready <- errors.Join(
			unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Unmount(hybrid, unix.MNT_DETACH))
		for f := range s.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *seclusion) run(f func() error) error {
	done := make(chan error, 1)
	s.work <- func() { done <- f() }
	return <-done
}

func (s *seclusion) close() {
	close(s.work)
	<-s.over
}
