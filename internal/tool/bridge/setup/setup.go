// Package setup reads a bridge's config.yaml: which agents there are, how each is run, and
// what holds for all of them. The file is that of the original bridge, with more members.
// Reading is strict: what is not known is an error with its line, and nothing is run. The
// package knows neither the gate nor how an agent is run.
package setup

import (
	"encoding/json"
	"time"
)

// A File is a bridge's setup, with defaults in place of what it does not say, and the
// environment's ADK_WORKSPACE, BRIDGE_LOG_LEVEL and BRIDGE_LOG_FILE over what it does.
type File struct {
	Path      string // of the file: absolute, links resolved
	Workspace string // absolute, links resolved; an existing folder
	Logging   Logging
	Security  Security
	Metrics   Metrics
	Parallel  int     // calls of a batch that run at once; at least 1
	Agents    []Agent // in the order of the file
}

// Logging is where the bridge's log goes.
type Logging struct {
	File     string // absolute
	Level    string // "DEBUG", "INFO", "WARNING" or "ERROR"
	Rotate   bool
	MaxBytes int64 // of a file before it is put aside
	Backups  int   // files that are put aside and kept
}

// A Sanitizing is what becomes of shell metacharacters in strings that are not raw.
type Sanitizing string

// The kinds of sanitizing. The zero value is none of them.
const (
	Strip  Sanitizing = "strip"  // they are taken out
	Refuse Sanitizing = "refuse" // the call is refused
	Off    Sanitizing = "off"
)

// Security is what holds for the parameters of every call.
type Security struct {
	Validate  bool       // check repo_name, issue_number, sources and generic strings
	Sanitize  Sanitizing // where Validate is set
	MaxParam  int        // characters of one string
	MaxParams int        // bytes of all parameters as JSON
}

// Metrics is what is kept about calls.
type Metrics struct {
	Collect   bool
	Retention time.Duration
}

// A Kind is what an agent speaks.
type Kind string

// The kinds of agents.
const (
	Script Kind = "script" // the bridge's own protocol: parameters in, JSON out
	ACP    Kind = "acp"    // the Agent Client Protocol
)

// An Agent is one entry: how a tool is run.
type Agent struct {
	Name        string
	Description string
	Kind        Kind
	Protocol    string // of a script: "1.0" or "1.1"

	// Argv is what is started, options excluded: an interpreter, if there is one, what the
	// entry gives it, and the script. The program is an absolute path. Script is the script's
	// and Interpreter the interpreter's own; "" where there is none. Nothing says that
	// they exist: that is for the call to find out, and for diagnose.
	Argv        []string
	Script      string
	Interpreter string
	Python      bool   // Interpreter is Python's: python says so, or nothing does
	Found       string // where PATH has what python or command names by a word and the workspace has not; "" where it has none

	Args     []Option        // in the order in which they are given to the agent
	Params   map[string]Rule // of single parameters
	Schema   json.RawMessage // draft-07, of an object, after defaults are in it; nil: none is given
	Defaults map[string]json.RawMessage

	Timeout   time.Duration // of one attempt
	Retries   int           // attempts after the first that failed
	MaxOutput int64         // bytes of stdout
	Mixed     bool          // debug output may stand before the JSON document on stdout

	Pass []string          // variables that are handed on from the bridge's environment
	Set  map[string]string // variables with a value of their own

	Sandbox     bool // it runs in a sandbox over the workspace, not on the host
	HostNetwork bool // in a sandbox: it reaches what the host reaches

	Line, Column int // of the entry's name, from 1
}

// An Option is a parameter that is given on the command line as well.
type Option struct {
	Param string // "issue_number"
	Flag  string // "--issue"
}

// A Rule is what holds for one parameter beside what holds for all.
type Rule struct {
	Raw       bool // its strings are not sanitized
	MaxLength int  // characters, in place of Security.MaxParam; 0: that
}
