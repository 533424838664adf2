package guest

import (
	"encoding/json"
	"errors"
	"strings"

	"airlock/internal/rpc"
)

// decode reads a request's params into p, a struct, by name. Members that p does not
// have are ignored, as a newer client's would be.
func decode(req *rpc.Request, p any) error {
	if len(req.Params) == 0 {
		return nil
	}
	if req.Params[0] != '{' {
		return invalid("params must be an object: they go by name")
	}
	err := json.Unmarshal(req.Params, p)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return invalid("%s: want %s, got %s", member(wrong.Field), jsonType(wrong.Type.String()), clip(wrong.Value))
	case err != nil:
		return invalid("params: %v", err)
	}
	return nil
}

// member is the name of a field as the client wrote it: Go puts the names of embedded
// structs before it.
func member(field string) string {
	parts := strings.Split(field, ".")
	kept := parts[:0]
	for _, part := range parts {
		if part != "" && (part[0] < 'A' || part[0] > 'Z') {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return "params"
	}
	return strings.Join(kept, ".")
}

// jsonType names a Go type as JSON does.
func jsonType(t string) string {
	t = strings.TrimLeft(t, "*")
	switch {
	case t == "string":
		return "a string"
	case t == "bool":
		return "true or false"
	case t == "[]uint8":
		return "base64 in a string"
	case strings.HasPrefix(t, "[]"):
		return "an array"
	case strings.HasPrefix(t, "uint"):
		return "a whole number, not negative and in range"
	case strings.HasPrefix(t, "int"):
		return "a whole number in range"
	}
	return "an object"
}

func invalid(format string, args ...any) error {
	return rpc.Errorf(rpc.CodeInvalidParams, "invalid params: "+format, args...)
}

func missing(name string) error { return invalid("%s is missing", name) }

// clip bounds what a message quotes of the client's own words.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
