// Package tool says what a tool is: a named operation with a JSON Schema for its
// arguments. It holds the call, the answer and its error codes (the envelope that
// built-in tools, plugins and bridged agents all speak), what the gate is asked and
// answers about a call, and the registry. It knows none of the kinds of tool.
package tool

import "encoding/json"

// A Call is one use of a tool: the one value that passes the gate. It is also what a
// plugin reads on stdin.
type Call struct {
	Tool   string          `json:"tool"`   // "fs.write_file"
	Action string          `json:"action"` // "write"
	Args   json.RawMessage `json:"args"`   // an object that the action's schema describes
}

// A Result answers a Call. It is also what a plugin writes to stdout.
type Result struct {
	OK     bool   `json:"ok"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Meta   Meta   `json:"meta"`
}

// Meta says more about a Result: error_code of one that is not OK, duration_ms, and
// what each tool adds, such as exit_code or bytes_read.
type Meta map[string]any

// An ErrorCode says why a Result is not OK.
type ErrorCode string

// The error codes that there are.
const (
	PermissionDenied ErrorCode = "PERMISSION_DENIED" // insufficient privileges, or refused by the gate
	NotFound         ErrorCode = "NOT_FOUND"         // file or resource not found
	Timeout          ErrorCode = "TIMEOUT"           // operation timed out
	InvalidArgs      ErrorCode = "INVALID_ARGS"      // invalid arguments provided
	IOError          ErrorCode = "IO_ERROR"          // I/O error occurred
	ParseError       ErrorCode = "PARSE_ERROR"       // failed to parse input
)

// Members of Meta that more than one place knows.
const (
	MetaErrorCode  = "error_code"
	MetaDurationMS = "duration_ms"
	MetaExitCode   = "exit_code"
)

// Fail is a Result that is not OK, with text in Stderr.
func Fail(code ErrorCode, text string) Result {
	return Result{Stderr: text, Meta: Meta{MetaErrorCode: code}}
}

// Code is why the result is not OK; "" where it is, or where nothing says why.
func (r *Result) Code() ErrorCode {
	if r.OK {
		return ""
	}
	switch code := r.Meta[MetaErrorCode].(type) {
	case ErrorCode:
		return code
	case string: // one that was read as JSON
		return ErrorCode(code)
	}
	return ""
}
