package gvisor

import (
	"errors"
	"fmt"

	"airlock/internal/sandbox"
)

// The driver and the keeper of a sandbox speak over a socket pair of packets, each one
// JSON value: a request is answered by one reply; a reply with Ended comes unasked.
const (
	opStart = "start" // Plan, with the log and the lock; answered when the sandbox runs
	opUpper = "upper" // freeze, write the upper layer to the file that comes along
	opRun   = "run"   // of one whose plan said Wait: start it, or have it go on
	opKeep  = "keep"  // of one that lasts: its driver may go from now on
)

type request struct {
	Op   string `json:"op"`
	Plan *plan  `json:"plan,omitempty"`
}

// plan is what the keeper needs to know to start a sandbox.
type plan struct {
	Source    string  `json:"source"` // of the driver: see source
	ID        string  `json:"id"`
	Dir       string  `json:"dir"` // the sandbox's folder
	Filestore string  `json:"filestore"`
	EngineLog string  `json:"engine_log"`
	Cgroup    string  `json:"cgroup"` // path below the cgroup root; empty: none
	CPUs      float64 `json:"cpus"`
	Memory    int64   `json:"memory"`
	Agent     string  `json:"agent"`
	// UpperMemory bounds what reading out takes; 0 is the default.
	UpperMemory int64 `json:"upper_memory"`
	Hidden      bool  `json:"hidden"` // the upper layer starts from Dir/hidden.tar
	HostNetwork bool  `json:"host_network"`

	Disk    int64     `json:"disk"` // bound of the upper layer; 0: none
	Lasting *lastPlan `json:"lasting,omitempty"`
}

type reply struct {
	Error  string   `json:"error,omitempty"`
	Reason string   `json:"reason,omitempty"` // with Mend: the error is an Unavailable
	Mend   string   `json:"mend,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Ended  *ending  `json:"ended,omitempty"`
}

func (r reply) err() error {
	switch {
	case r.Reason != "":
		return &sandbox.Unavailable{Reason: r.Reason, Mend: r.Mend, Err: errors.New(r.Error)}
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// ending says how a sandbox ended by itself.
type ending struct {
	OutOfMemory bool   `json:"out_of_memory"`
	Expired     bool   `json:"expired,omitempty"`
	Removed     bool   `json:"removed,omitempty"` // somebody ended it
	Reason      string `json:"reason,omitempty"`  // where the keeper ended it
}

func (e *ending) err() error {
	if e.OutOfMemory {
		return sandbox.ErrOutOfMemory
	}
	why := sandbox.ErrEnded
	switch {
	case e.Removed:
		why = sandbox.ErrRemoved
	case e.Expired:
		why = sandbox.ErrExpired
	}
	if e.Reason != "" {
		return fmt.Errorf("%w: %s", why, e.Reason)
	}
	return why
}
