package bridge

import (
	"context"
	"time"
)

// A Metrics keeps what came of calls. It is safe for concurrent use.
type Metrics interface {
	// Add keeps a call. It returns soon, whatever becomes of its store: a failure there is
	// its own to log, and never a call's.
	Add(sample Sample)

	// Health sums up what is kept: every sample that was added before, by this process or by
	// another with the same store, and that is not too old. The error is ctx's, or says what
	// is wrong with the store and how it is mended.
	Health(ctx context.Context) (Health, error)
}

// A Sample is one call of an agent, with all its attempts.
type Sample struct {
	At      time.Time // when the call came
	Agent   string
	Outcome string // one of the Outcome… constants
	OK      bool
	Took    time.Duration
}

// Health is how calls went, as health_check gives it.
type Health struct {
	Status      string                 `json:"status"` // Healthy or Degraded
	TotalCalls  int64                  `json:"total_calls"`
	TotalErrors int64                  `json:"total_errors"`
	ErrorRate   float64                `json:"error_rate"` // of 1; 0 where there was no call
	Agents      map[string]AgentHealth `json:"agents"`     // those that were called; never nil
}

// AgentHealth is how one agent's calls went.
type AgentHealth struct {
	Calls       int64   `json:"calls"`
	SuccessRate float64 `json:"success_rate"` // of 1
	AvgDuration float64 `json:"avg_duration"` // seconds, of those calls that reached the agent
}

// What a Health's status is.
const (
	Healthy  = "healthy"
	Degraded = "degraded" // DegradedFrom of all calls, or more, were errors
)

// DegradedFrom is the part of all calls from which on errors are too many.
const DegradedFrom = 0.1

// How a call came out: Meta["outcome"] of its Result, and Sample.Outcome.
const (
	OutcomeOK         = "ok"          // the agent's answer, which is no error
	OutcomeAnswer     = "error"       // the agent's answer, whose status is "error"
	OutcomeExit       = "exit"        // another exit code than 0
	OutcomeSignal     = "signal"      // ended by a signal
	OutcomeNotJSON    = "not-json"    // exit code 0, and no JSON
	OutcomeProtocol   = "protocol"    // it did not keep to the protocol it speaks
	OutcomeTimeout    = "timeout"     // it took too long
	OutcomeTooMuch    = "too-much"    // it printed too much
	OutcomeNotStarted = "not-started" // no script, no interpreter, or neither to be run
	OutcomeInvalid    = "invalid"     // parameters that do not hold
	OutcomeRefused    = "refused"     // by the gate
	OutcomeCanceled   = "canceled"    // by who called
	OutcomeLost       = "lost"        // what became of it is not known
)

// NewHealth is a Health with no call in it.
func NewHealth() Health { return Health{Status: Healthy, Agents: map[string]AgentHealth{}} }
