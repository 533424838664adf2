package tool

import (
	"context"
	"fmt"
	"time"
)

// A Verdict is what the gate says of a call. The zero verdict refuses.
type Verdict int

// The verdicts, the strictest first.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// String is "deny", "ask" or "allow".
func (v Verdict) String() string {
	switch v {
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// MarshalText gives String's word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText takes String's words; another one is an error, and leaves Deny.
func (v *Verdict) UnmarshalText(text []byte) error {
	*v = Deny
	for _, verdict := range []Verdict{Deny, Ask, Allow} {
		if string(text) == verdict.String() {
			*v = verdict
			return nil
		}
	}
	return fmt.Errorf("%q is no verdict: write deny, ask or allow", text)
}

// A Risk is what a call would do at worst: one of the Risk… constants.
type Risk string

// The risks, from the least to the most severe: of several, the last one listed is the
// call's.
const (
	RiskReadOnly      Risk = "read-only"
	RiskWritesInside  Risk = "writes-inside"  // below the working folder
	RiskNetwork       Risk = "network"        // speaks to other machines
	RiskPackage       Risk = "package"        // installs or removes software
	RiskService       Risk = "service"        // starts, stops or sets up services
	RiskWritesOutside Risk = "writes-outside" // elsewhere than the working folder
	RiskUnknown       Risk = "unknown"        // cannot be told
	RiskPrivileged    Risk = "privileged"     // with another's rights, the superuser's as a rule
	RiskDestructive   Risk = "destructive"    // could lose what cannot be brought back
)

// Risks lists the risks in order.
var Risks = []Risk{
	RiskReadOnly, RiskWritesInside, RiskNetwork, RiskPackage, RiskService,
	RiskWritesOutside, RiskUnknown, RiskPrivileged, RiskDestructive,
}

// Where says where a call is made. The zero value is the more dangerous place.
type Where int

// The places.
const (
	OnHost    Where = iota // on the machine itself
	InSandbox              // in a sandbox: what it changes comes out only by a commit
)

// String is "host" or "sandbox".
func (w Where) String() string {
	if w == InSandbox {
		return "sandbox"
	}
	return "host"
}

// MarshalText gives String's word.
func (w Where) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Flags are what a model says of a step. They can make a verdict stricter, never milder.
type Flags struct {
	NeedsConfirmation bool `json:"needs_confirmation,omitempty"`
	Destructive       bool `json:"is_destructive,omitempty"`
	RequiresSudo      bool `json:"requires_sudo,omitempty"`
}

// A Question is what the gate is asked: may this call be made there?
type Question struct {
	Call    Call
	Action  *Action // what the registry knows of the call's action; nil: nothing, and so Deny
	Where   Where
	WorkDir string            // absolute: what "inside" means
	Env     map[string]string // of what is run: HOME, PATH and other words that a line refers to
	Flags   Flags
	Group   string // the plan or run that the call belongs to; "" where it stands alone
	Step    string // the plan's step; may be empty
	Who     string // the surface that asks, such as "cli": for the record

	// Consent says by what a person has already let this tool run where it is to run, such
	// as "--config agents.yaml"; "" is none. It stands for the yes that a default would ask
	// for, and for no rule's.
	Consent string

	// Asked, if not nil, is told of an approval when it is asked for (Approved is nil), and
	// when there is an answer.
	Asked func(Approval)
}

// A Judgement is the gate's answer.
type Judgement struct {
	Verdict  Verdict   `json:"verdict"`
	Risk     Risk      `json:"risk"`
	Rule     string    `json:"rule"` // the name of the rule that decided; never empty
	Why      string    `json:"why"`  // a sentence for a person; made of printable characters
	Needs    []Need    `json:"needs,omitempty"`
	Touches  []string  `json:"touches,omitempty"` // paths and hosts that can be told, for a person
	Parts    []Part    `json:"parts,omitempty"`   // of a compound command line, each judged by itself
	Approval *Approval `json:"approval,omitempty"`
}

// A Part is one simple command of a command line.
type Part struct {
	Text    string  `json:"text"` // normalised, printable
	Verdict Verdict `json:"verdict"`
	Risk    Risk    `json:"risk"`
	Rule    string  `json:"rule"`
	Why     string  `json:"why"`
}

// A Need is something of the host's that a sandbox does not have.
type Need string

// What a call may need of the host.
const (
	NeedServices  Need = "services"  // the service manager, the system bus, a daemon's socket
	NeedPackages  Need = "packages"  // the system's packages, for real
	NeedHardware  Need = "hardware"  // devices, kernel modules, power
	NeedProcesses Need = "processes" // processes outside the sandbox
	NeedNetwork   Need = "network"   // other machines
)

// An Approval is a person's answer to Ask, bound to exactly what was shown.
type Approval struct {
	ID       string    `json:"id"`
	Digest   string    `json:"digest"`             // of the call's exact bytes, where it is made and as whom: "sha256:…"
	Approved *bool     `json:"approved,omitempty"` // nil while there is no answer
	By       string    `json:"by,omitempty"`       // who answered, such as "terminal"; "expiry" where nobody did
	Reason   string    `json:"reason,omitempty"`
	Asked    time.Time `json:"asked"`
	Expires  time.Time `json:"expires"`
}

// A Guard gives verdicts. It is safe for concurrent use.
type Guard interface {
	// Judge gives the verdict and asks nobody.
	Judge(ctx context.Context, q *Question) Judgement

	// Admit lets a call pass or not: it judges, and where that says Ask it waits for an
	// approver. The error is a *RefusedError where the answer is no, or where there is
	// nobody to ask; ctx's when it ends first.
	Admit(ctx context.Context, q *Question) (Judgement, error)
}

// A RefusedError is a call that the gate did not let pass.
type RefusedError struct {
	Judgement Judgement
	Mend      string // what a person can do about it; may be empty
}

// Error says which rule refused, why, and what can be done.
func (e *RefusedError) Error() string {
	text := "refused by " + e.Judgement.Rule + ": " + e.Judgement.Why
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}
