package gvisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// How often a sandbox with an idle limit is asked whether a command runs: its limit's quarter,
// within these.
const (
	fastestLook = 200 * time.Millisecond
	slowestLook = 10 * time.Second
	askTime     = 2 * time.Second // for the guest agent's answer
)

// started is since when the sandbox has looked at the host's files, for comparisons now.
func (l *last) started() time.Time {
	return sandbox.SteadyStart(l.plan.About.Started, l.began, time.Now(), time.Since(l.began))
}

// watchTimes ends or pauses the sandbox when a time is over. Its clock is the monotonic
// one: setting the system's time changes nothing.
func (l *last) watchTimes() {
	for {
		l.mu.Lock()
		times := l.times
		l.mu.Unlock()
		wait := slowestLook
		if times.Life > 0 {
			left := times.Life - time.Since(l.began)
			if left <= 0 && l.timeOver(times.LifeThen, EndExpired) {
				return
			}
			if left > 0 {
				wait = min(wait, left)
			}
		}
		if times.Idle > 0 {
			busy := l.busySince()
			left := times.Idle - time.Since(busy)
			if left <= 0 && l.timeOver(times.IdleThen, EndIdle) {
				return
			}
			wait = min(wait, max(left, fastestLook), max(times.Idle/4, fastestLook))
		}
		if times.Life <= 0 && times.Idle <= 0 {
			wait = time.Hour
		}
		select {
		case <-l.over:
			return
		case <-l.timesSet:
		case <-time.After(wait):
		}
	}
}

// busySince is when there was last a call or a command: now, if there is one.
func (l *last) busySince() time.Time {
	l.mu.Lock()
	calls := l.calls
	l.mu.Unlock()
	if calls > 0 || l.isPaused() {
		return time.Now()
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	running, quiet, err := l.commands(ctx)
	if err != nil || running > 0 {
		return time.Now() // one that does not answer is busy with something
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastCall = quietSince(l.lastCall, quiet)
	return l.lastCall
}

// quietSince is when a sandbox was last busy whose last call was then, and whose last command in the
// background ended so long ago.
func quietSince(lastCall time.Time, ended time.Duration) time.Time {
	if ended < 0 || ended >= time.Since(lastCall) {
		return lastCall
	}
	return time.Now().Add(-ended)
}

func (l *last) isPaused() bool {
	if !l.ops.TryLock() {
		return true // something is being done with it: that is not idle either
	}
	defer l.ops.Unlock()
	return l.paused.Load()
}

// commands asks the guest how many commands run, and how long ago the last one in the background
// ended; negative: none has.
func (l *last) commands(ctx context.Context) (running int, ended time.Duration, err error) {
	c, err := l.guest(ctx)
	if err != nil {
		return 0, -1, err
	}
	defer c.Close()
	var list agent.ProcessesResult
	if err := c.Call(ctx, agent.MethodProcesses, agent.Empty{}, &list); err != nil {
		return 0, -1, err
	}
	running, ended = tellsOf(&list)
	return running, ended, nil
}

// tellsOf is what commands makes of what the guest answered. When a process ended is by a clock that can be set, and is
// taken only from an agent of before, in a snapshot, that says no more.
func tellsOf(list *agent.ProcessesResult) (running int, ended time.Duration) {
	ended = -1
	for _, p := range list.Processes {
		if p.Running {
			running++
		} else if p.Ended != nil {
			if ago := time.Since(*p.Ended); ago >= 0 && (ended < 0 || ago < ended) {
				ended = ago
			}
		}
	}
	if list.EndedMS != nil {
		ended = time.Duration(*list.EndedMS) * time.Millisecond
	}
	return running, ended
}

// timeOver does what is to happen when a time is over, and reports whether that was the end.
func (l *last) timeOver(then, reason string) bool {
	if then == sandbox.ThenPause {
		if err := l.pause(); err != nil {
			fmt.Fprintln(l.k.log, "pause, as its time was over:", err)
		}
		l.mu.Lock()
		// Once: who resumes it wants it to run.
		if reason == EndExpired {
			l.times.Life = 0
		}
		l.lastCall = time.Now()
		l.mu.Unlock()
		return false
	}
	l.endKeeping(&Ending{Reason: reason, At: time.Now()})
	return true
}

// endKeeping ends a sandbox that nobody has asked to end: what it changed is kept.
func (l *last) endKeeping(e *Ending) {
	if l.plan.Expired != "" {
		if err := l.saveUpper(l.plan.Expired); err != nil {
			e.Text = strings.TrimPrefix(e.Text+"; what it changed could not be kept: "+err.Error(), "; ")
		}
	}
	l.end(e)
}
