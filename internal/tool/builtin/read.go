package builtin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"airlock/agent"
	"airlock/internal/tool"
)

const (
	encodingBase64 = "base64"
	maxBase64      = agent.MaxOutput / 4 * 3 // bytes whose base64 fits a Result
)

// ReadFile makes fs.read_file, which reads a part of a regular file. Folders, pipes, sockets
// and devices are refused without being opened, so it never waits for anybody.
func ReadFile() tool.Tool {
	return &readFile{tool.Info{
		Name:        "fs.read_file",
		Description: "Reads a file, or a part of it.",
		Kind:        tool.Builtin,
		Actions: []tool.Action{{
			Name:        "read",
			Description: "Reads the beginning of a file, or what follows an offset.",
			Schema:      schemaOf("fs.read_file", "read"),
			Risk:        tool.RiskReadOnly,
			Paths:       []string{"path"},
		}},
	}}
}

type readFile struct{ info tool.Info }

func (r *readFile) Info() *tool.Info { return &r.info }

type readArgs struct {
	Path     string `json:"path"`
	MaxBytes int64  `json:"max_bytes"`
	Offset   int64  `json:"offset"`
	Encoding string `json:"encoding"`
}

func (r *readFile) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	args := readArgs{MaxBytes: agent.MaxOutput}
	if failure := decode(call, &args); failure != nil {
		return *failure
	}
	if args.Encoding == encodingBase64 {
		args.MaxBytes = min(args.MaxBytes, maxBase64)
	}
	name, err := seen(ctx, m, args.Path)
	if err != nil {
		return unseen(&call, args.Path, err)
	}
	var got agent.ReadFileResult
	params := agent.ReadFileParams{Path: name, Encoding: agent.EncodingBase64, Offset: args.Offset, Limit: args.MaxBytes}
	if err := m.Client.Call(ctx, agent.MethodReadFile, params, &got); err != nil {
		res := failedAt(&call, args.Path, err)
		if cause(err) == "is a folder, not a regular file" {
			res.Stderr += ": use fs.list_dir"
		}
		return res
	}
	data, err := base64.StdEncoding.DecodeString(got.Content)
	if err != nil || int64(len(data)) > args.MaxBytes {
		return failAt(&call, tool.IOError, args.Path, "the guest agent's answer is malformed")
	}
	return args.result(&call, data, &got)
}

// unseen is the result where seen has failed.
func unseen(call *tool.Call, name string, err error) tool.Result {
	switch {
	case errors.Is(err, errHidden):
		return failAt(call, tool.NotFound, name, absent)
	case errors.Is(err, errLinks):
		return failAt(call, tool.InvalidArgs, name, errLinks.Error())
	}
	return failedAt(call, name, err)
}

// result is the content in the encoding that was asked for.
func (a *readArgs) result(call *tool.Call, data []byte, got *agent.ReadFileResult) tool.Result {
	res := tool.Result{OK: true, Meta: tool.Meta{"truncated": !got.EOF, "size": got.Size}}
	if a.Encoding == encodingBase64 {
		res.Stdout = base64.StdEncoding.EncodeToString(data)
		res.Meta["encoding"] = encodingBase64
	} else {
		whole := data
		if !got.EOF {
			whole = wholeCharacters(data)
		}
		if len(whole) == 0 && len(data) > 0 {
			return failAt(call, tool.InvalidArgs, a.Path, fmt.Sprintf("max_bytes of %d is less than the next character: ask for 4", a.MaxBytes))
		}
		if i := firstInvalid(whole); i >= 0 {
			return failAt(call, tool.IOError, a.Path, fmt.Sprintf(`is not UTF-8 at byte %d: ask for it with "encoding": "base64"`, a.Offset+int64(i)))
		}
		data = whole
		res.Stdout = string(data)
	}
	res.Meta["bytes_read"] = len(data)
	return res
}

// wholeCharacters is data without the beginning of a character at its end.
func wholeCharacters(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		tail := data[len(data)-i:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-i]
			}
			return data
		}
	}
	return data
}

// firstInvalid is where the first byte is that belongs to no character; -1 if nowhere.
func firstInvalid(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
