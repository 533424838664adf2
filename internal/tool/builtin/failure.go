package builtin

import (
	"context"
	"errors"
	"strings"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/tool"
)

// absent is what a system says of a path that is not there. What is hidden is told in
// the same words.
const absent = "no such file or directory"

// causes are what the guest's system says at the end of an error, and what each means. An
// agent's error has no other form: protocol 1.0 has one code for all of them.
var causes = map[string]tool.ErrorCode{
	absent:                                   tool.NotFound,
	"not a directory":                        tool.NotFound, // a file stands where a folder was named
	"permission denied":                      tool.PermissionDenied,
	"operation not permitted":                tool.PermissionDenied,
	"read-only file system":                  tool.PermissionDenied,
	"file name too long":                     tool.InvalidArgs,
	"too many levels of symbolic links":      tool.InvalidArgs,
	"is a directory":                         tool.InvalidArgs,
	"is a folder, not a regular file":        tool.InvalidArgs,
	"is a named pipe, not a regular file":    tool.InvalidArgs,
	"is a socket, not a regular file":        tool.InvalidArgs,
	"is a symbolic link, not a regular file": tool.InvalidArgs,
	"is a device, not a regular file":        tool.InvalidArgs,
}

// codeOf is the error code for what a Client returned.
func codeOf(err error) tool.ErrorCode {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, agent.ErrResponseTimeout) {
		return tool.Timeout
	}
	if _, ok := errors.AsType[*agent.RPCError](err); ok {
		if code, known := causes[cause(err)]; known {
			return code
		}
	}
	return tool.IOError
}

// isAbsent reports whether err says that there is nothing.
func isAbsent(err error) bool { return err != nil && codeOf(err) == tool.NotFound }

// reason is what a Client's error says, without the protocol's words around it.
func reason(err error) string {
	if answered, ok := errors.AsType[*agent.RPCError](err); ok {
		return changes.Printable(answered.Message)
	}
	return changes.Printable(err.Error())
}

// cause is the end of what a Client's error says: what the system said, without the path,
// which the guest may have cut.
func cause(err error) string {
	text := reason(err)
	if _, ok := errors.AsType[*agent.RPCError](err); ok {
		if i := strings.LastIndex(text, ": "); i >= 0 {
			return text[i+2:]
		}
	}
	return text
}

// failedAt is the result of a Client's error about a path, which is told as it was given.
func failedAt(call *tool.Call, name string, err error) tool.Result {
	return failAt(call, codeOf(err), name, cause(err))
}

// failAt is a failure about a path.
func failAt(call *tool.Call, code tool.ErrorCode, name, why string) tool.Result {
	return tool.Fail(code, call.Tool+": "+changes.Printable(name)+": "+why)
}
