package gvisor

import (
	"time"

	"airlock/internal/sandbox"
)

// The keeper of a sandbox that lasts listens on a Unix socket in the sandbox's folder. Whoever
// connects writes one request, a line of JSON, and reads one reply, a line of JSON. After the reply to
// lastConnect the connection is a guest agent's; after that to lastWatch it stays open until the sandbox
// has ended, when one more reply says why. All others close.
const (
	lastConnect    = "connect" // Quiet: it is no call
	lastWatch      = "watch"   // answered with About
	lastStatus     = "status"  // answered with Status
	lastPause      = "pause"
	lastResume     = "resume"
	lastHold       = "hold"       // paused, once it is answered, until the connection ends
	lastTouch      = "touch"      // Times, or nil
	lastUpper      = "upper"      // the file that comes along is written; answered at the end
	lastCheckpoint = "checkpoint" // Dir
	lastGateInput  = "gate_input" // answered with Input
	lastEnd        = "end"        // answered when nothing is left but the keeper itself
)

const (
	sockName     = "sock"
	maxLastLine  = 512 << 10 // bytes of a request or a reply
	lastDeadline = 10 * time.Second
)

type lastRequest struct {
	Op    string         `json:"op"`
	Quiet bool           `json:"quiet,omitempty"`
	Times *sandbox.Times `json:"times,omitempty"`
	Dir   string         `json:"dir,omitempty"`
}

type lastReply struct {
	reply
	Code   string          `json:"code,omitempty"` // which of the package's errors Error is
	About  *about          `json:"about,omitempty"`
	Status *sandbox.Status `json:"status,omitempty"`
	Input  []byte          `json:"input,omitempty"`
}

// Codes of errors that callers tell apart.
const (
	codeNotSaved = "not_saved"
	codePaused   = "paused"
)

// lastPlan is what the keeper of a sandbox that lasts needs beside its plan.
type lastPlan struct {
	Times     sandbox.Times `json:"times"`
	Expired   string        `json:"expired,omitempty"`
	Gate      []string      `json:"gate,omitempty"`
	GateInput []byte        `json:"gate_input,omitempty"`
	Restore   string        `json:"restore,omitempty"`  // a checkpoint's folder; "": start
	Wait      bool          `json:"wait,omitempty"`     // prepare all, and go on at opRun
	SavedBy   string        `json:"saved_by,omitempty"` // the engine's version that did
	Ended     string        `json:"ended"`              // where the keeper writes how it ended
	Agents    string        `json:"agents"`

	About about `json:"about"`
}

// about is what does not change of a sandbox.
type about struct {
	ID       string    `json:"id"`
	Dir      string    `json:"dir"`
	Identity string    `json:"identity"`
	Started  time.Time `json:"started"`
	Notes    []string  `json:"notes,omitempty"`
	Agents   string    `json:"agents"`
	Engine   string    `json:"engine"` // its version: the keeper's own
	Image    bool      `json:"image,omitempty"`
}

// saved is what lies beside a checkpoint's files, in savedName.
type saved struct {
	Engine  string    `json:"engine"`
	Agents  string    `json:"agents"` // the folder of the guest agent that runs in it
	Started time.Time `json:"started"`
}

const savedName = "airlock.json"

// Ending is how a sandbox that lasted ended, as its keeper wrote it down.
type Ending struct {
	Reason string    `json:"reason"` // see EndReasons
	Text   string    `json:"text,omitempty"`
	At     time.Time `json:"at"`
}

// What Ending's Reason can be.
const (
	EndRemoved     = "removed"
	EndExpired     = "expired"
	EndIdle        = "idle"
	EndOutOfMemory = "out_of_memory"
	EndKilled      = "killed" // the engine's processes were ended from outside
)
