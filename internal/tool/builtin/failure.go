package builtin

import (
	"context"
	"errors"
	"strings"

	"airlock/agent"
	"airlock/internal/tool"
)

// causes are what the guest's system says at the end of an error, and what each means. An
// agent's error has no other form: protocol 1.0 has one code for all of them.
var causes = []struct {
	text string
	code tool.ErrorCode
}{
	{"no such file or directory", tool.NotFound},
	{"permission denied", tool.PermissionDenied},
	{"operation not permitted", tool.PermissionDenied},
	{"read-only file system", tool.PermissionDenied},
	{"not a directory", tool.NotFound}, // a file stands where a folder was named
	{"file name too long", tool.InvalidArgs},
	{"too many levels of symbolic links", tool.InvalidArgs},
}

// codeOf is the error code for what a Client returned.
func codeOf(err error) tool.ErrorCode {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, agent.ErrResponseTimeout) {
		return tool.Timeout
	}
	answered, ok := errors.AsType[*agent.RPCError](err)
	if !ok {
		return tool.IOError
	}
	for _, c := range causes {
		if strings.HasSuffix(answered.Message, ": "+c.text) {
			return c.code
		}
	}
	return tool.IOError
}

// reason is what a Client's error says, without the protocol's words around it.
func reason(err error) string {
	if answered, ok := errors.AsType[*agent.RPCError](err); ok {
		return answered.Message
	}
	return err.Error()
}

// failed is the result of a Client's error while what was tried.
func failed(err error) tool.Result { return tool.Fail(codeOf(err), reason(err)) }
