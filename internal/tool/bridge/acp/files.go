package acp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/agent"
	"airlock/internal/tool"
)

const (
	maxRead = 10 << 20 // bytes of a file that are handed to the agent at once
	maxSeek = 64 << 20 // bytes that are read to find the lines that it wants
	maxPath = 4096
)

// checkPath refuses a path that is not absolute, or leads upwards.
func checkPath(p string) error {
	switch {
	case !path.IsAbs(p):
		return badParams("%s is not absolute", shown(p))
	case slices.Contains(strings.Split(p, "/"), ".."):
		return badParams("%s leads upwards", shown(p))
	case len(p) > maxPath || strings.ContainsRune(p, 0):
		return badParams("%s is no path", shown(p))
	}
	return nil
}

// reachable refuses another session's requests, and paths that there cannot be.
func (c *client) reachable(id sdk.SessionId, p string) error {
	if err := c.known(id); err != nil {
		return err
	}
	return checkPath(p)
}

func badParams(format string, args ...any) error {
	return &sdk.RequestError{Code: -32602, Message: fmt.Sprintf(format, args...)}
}

// readFile is fs/read_text_file, in the sandbox.
func (c *client) readFile(ctx context.Context, p *sdk.ReadTextFileRequest) (sdk.ReadTextFileResponse, error) {
	var none sdk.ReadTextFileResponse
	if err := c.reachable(p.SessionId, p.Path); err != nil {
		return none, err
	}
	pick := &lines{skip: 0, left: -1}
	if p.Line != nil {
		if *p.Line < 0 {
			return none, badParams("line is negative")
		}
		pick.skip = max(*p.Line-1, 0)
	}
	if p.Limit != nil {
		if *p.Limit < 0 {
			return none, badParams("limit is negative")
		}
		pick.left = *p.Limit
	}
	done, err := c.admit(ctx, tool.InSandbox, newCall("fs.read_file", "read", map[string]any{"path": p.Path}))
	if err != nil {
		return none, err
	}
	if err = c.out.reserve(ctx, maxRead); err == nil {
		if err = c.read(ctx, p.Path, pick); err != nil {
			pick.kept.Reset()
		}
		if refusal, ok := errors.AsType[*sdk.RequestError](err); ok && refusal.Code == codeNotFound && c.emptyAbsent.Load() {
			err = nil
		}
		c.out.release(maxRead - pick.kept.Len())
	}
	done(came(err))
	if err != nil {
		return none, err
	}
	return sdk.ReadTextFileResponse{Content: pick.kept.String()}, nil
}

func (c *client) read(ctx context.Context, name string, pick *lines) error {
	m, err := c.sandbox(ctx)
	if err != nil {
		return err
	}
	if _, err = m.Client.ReadFileTo(ctx, name, pick); err != nil && !errors.Is(err, errEnough) {
		return fileError(name, err)
	}
	if !utf8.ValidString(pick.kept.String()) {
		return &sdk.RequestError{Code: -32603, Message: shown(name) + " is no text"}
	}
	return nil
}

// writeFile is fs/write_text_file, in the sandbox.
func (c *client) writeFile(ctx context.Context, p *sdk.WriteTextFileRequest) (sdk.WriteTextFileResponse, error) {
	var none sdk.WriteTextFileResponse
	if err := c.reachable(p.SessionId, p.Path); err != nil {
		return none, err
	}
	shownText := p.Content
	if len(shownText) > maxEdit { // more than the tool takes, and than anybody would read
		shownText = clip(shownText)
	}
	done, err := c.admit(ctx, tool.InSandbox, newCall("fs.write_file", "write", map[string]any{"path": p.Path, "content": shownText, "create_dirs": true}))
	if err != nil {
		return none, err
	}
	err = c.write(ctx, p.Path, p.Content)
	done(came(err))
	return none, err
}

func (c *client) write(ctx context.Context, name, content string) error {
	m, err := c.sandbox(ctx)
	if err != nil {
		return err
	}
	st, err := m.Client.Stat(ctx, name, true)
	switch {
	case err != nil:
		if err := m.Client.Mkdir(ctx, agent.MkdirParams{Path: path.Dir(name), Parents: true}); err != nil {
			return fileError(name, err)
		}
	case st.Type != "file":
		return &sdk.RequestError{Code: -32603, Message: shown(name) + " is no file"}
	}
	if _, err := m.Client.WriteFileFrom(ctx, name, strings.NewReader(content), 0); err != nil {
		return fileError(name, err)
	}
	return nil
}

// fileError is what the guest says of a path, as the protocol has it.
func fileError(name string, err error) error {
	answered, ok := errors.AsType[*agent.RPCError](err)
	switch {
	case !ok:
		return err
	case strings.HasSuffix(answered.Message, "no such file or directory"):
		return &sdk.RequestError{Code: codeNotFound, Message: "Resource not found: " + shown(name)}
	}
	return &sdk.RequestError{Code: -32603, Message: shown(answered.Message)}
}

// came is what became of an admitted call, for the record.
func came(err error) tool.Result {
	if refusal, ok := errors.AsType[*sdk.RequestError](err); ok {
		code := tool.IOError
		if refusal.Code == codeNotFound {
			code = tool.NotFound
		}
		return tool.Fail(code, refusal.Message)
	}
	if err != nil {
		return tool.Fail(tool.IOError, shown(err.Error()))
	}
	return tool.Result{OK: true}
}

// errEnough ends the reading of a file whose wanted lines have been read.
var errEnough = errors.New("enough")

// lines takes a file and keeps some of its lines.
type lines struct {
	skip int // lines that are still to be passed over
	left int // lines that are still to be kept; -1: all
	read int
	kept bytes.Buffer
}

// Write keeps what is wanted, with the lines' ends.
func (l *lines) Write(data []byte) (int, error) {
	n := len(data)
	if l.read += n; l.read > maxSeek {
		return 0, fmt.Errorf("the file has more than %d bytes, which is more than is read to find lines", maxSeek)
	}
	for len(data) > 0 {
		if l.left == 0 {
			return n, errEnough
		}
		part := data
		end := bytes.IndexByte(data, '\n')
		if end >= 0 {
			part = data[:end+1]
		}
		data = data[len(part):]
		if l.skip > 0 {
			if end >= 0 {
				l.skip--
			}
			continue
		}
		if l.kept.Len()+len(part) > maxRead {
			return 0, fmt.Errorf("that is more than %d bytes: ask for fewer lines", maxRead)
		}
		l.kept.Write(part)
		if end >= 0 && l.left > 0 {
			l.left--
		}
	}
	return n, nil
}
