package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"airlock/internal/rpc"
)

// errNotDone is a guest that answers success: false instead of an error.
var errNotDone = errors.New("the guest says that it was not done")

// Ping checks that the guest answers.
func (c *Client) Ping(ctx context.Context) error {
	res, err := c.do(ctx, rpc.Call{Method: MethodPing, Params: Empty{}, Timeout: c.callTimeout(ctx)})
	if err != nil {
		return err
	}
	if string(res.Result) == `{"pong":true}` {
		return nil
	}
	var p PingResult
	if err := decode(MethodPing, res.Result, &p); err != nil {
		return err
	}
	if !p.Pong {
		return malformed(MethodPing, "pong is not true")
	}
	return nil
}

// Exec runs a shell line with sh -c and returns its exit code and output, each stream
// cut at MaxOutput. A command that fails is a result, not an error.
func (c *Client) Exec(ctx context.Context, cmd string) (ExecResult, error) {
	c.op(ctx, MethodExec, slog.Int("command_bytes", len(cmd)))
	return c.exec(ctx, rpc.Call{Method: MethodExec, Params: ExecParams{Cmd: cmd}, Timeout: c.callTimeout(ctx)})
}

// ExecCode runs code in the interpreter for lang: python, python3, node, javascript, js,
// bash, sh; a guest may know more. An unknown lang is a result with exit code -1 and
// "unsupported language: …" in Stderr.
func (c *Client) ExecCode(ctx context.Context, lang, code string) (ExecResult, error) {
	c.op(ctx, MethodExecCode, slog.String("lang", lang), slog.Int("code_bytes", len(code)))
	return c.exec(ctx, rpc.Call{Method: MethodExecCode, Params: ExecCodeParams{Lang: lang, Code: code}, Timeout: c.callTimeout(ctx)})
}

// ReadFile returns the content of a file of text. Bytes that are not UTF-8 are the
// guest's error; ReadFileTo reads any file.
func (c *Client) ReadFile(ctx context.Context, path string) (string, error) {
	c.op(ctx, MethodReadFile, slog.String("path", path))
	var res struct {
		Content *string `json:"content"`
	}
	if err := c.Call(ctx, MethodReadFile, ReadFileParams{Path: path}, &res); err != nil {
		return "", err
	}
	if res.Content == nil {
		return "", malformed(MethodReadFile, "no content")
	}
	return *res.Content, nil
}

// WriteFile makes a file of this text with mode 0644, or replaces its content.
func (c *Client) WriteFile(ctx context.Context, path, content string) error {
	c.op(ctx, MethodWriteFile, slog.String("path", path), slog.Int("content_bytes", len(content)))
	return c.succeed(ctx, MethodWriteFile, WriteFileParams{Path: path, Content: content})
}

// ListDir returns what is in a folder, sorted by name. A name that could not be one file's
// in that folder, such as "../x", is an ErrJSON: callers may join it to a path.
func (c *Client) ListDir(ctx context.Context, path string) ([]FileEntry, error) {
	c.op(ctx, MethodListDir, slog.String("path", path))
	var res struct {
		Entries *[]FileEntry `json:"entries"`
	}
	if err := c.Call(ctx, MethodListDir, ListDirParams{Path: path}, &res); err != nil {
		return nil, err
	}
	if res.Entries == nil {
		return nil, malformed(MethodListDir, "no entries")
	}
	for _, e := range *res.Entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\x00") {
			return nil, malformed(MethodListDir, fmt.Sprintf("an entry named %.64q", e.Name))
		}
	}
	return *res.Entries, nil
}

// Stat describes one path; follow says whether a symbolic link at its end is followed.
func (c *Client) Stat(ctx context.Context, path string, follow bool) (FileInfo, error) {
	var res FileInfo
	if _, err := c.need(ctx, MethodStat, CapFiles); err != nil {
		return res, err
	}
	c.op(ctx, MethodStat, slog.String("path", path))
	if err := c.Call(ctx, MethodStat, StatParams{Path: path, Follow: follow}, &res); err != nil {
		return FileInfo{}, err
	}
	if res.Type == "" {
		return FileInfo{}, malformed(MethodStat, "no type")
	}
	return res, nil
}

// Mkdir makes a folder; a nil Mode is 0755.
func (c *Client) Mkdir(ctx context.Context, params MkdirParams) error {
	return c.change(ctx, MethodMkdir, params.Path, params)
}

// Rename gives a file or folder another path, replacing a file that is there.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.change(ctx, MethodRename, from, RenameParams{From: from, To: to})
}

// Remove removes a file or an empty folder, or with recursive a folder and all in it.
func (c *Client) Remove(ctx context.Context, path string, recursive bool) error {
	return c.change(ctx, MethodRemove, path, RemoveParams{Path: path, Recursive: recursive})
}

// change is a method of CapFiles that only succeeds or fails.
func (c *Client) change(ctx context.Context, method, path string, params any) error {
	if _, err := c.need(ctx, method, CapFiles); err != nil {
		return err
	}
	c.op(ctx, method, slog.String("path", path))
	return c.succeed(ctx, method, params)
}

// succeed makes a call whose result is a Success.
func (c *Client) succeed(ctx context.Context, method string, params any) error {
	var res Success
	if err := c.Call(ctx, method, params, &res); err != nil {
		return err
	}
	if !res.Success {
		return fmt.Errorf("%s: %w", method, errNotDone)
	}
	return nil
}

// exec makes a call whose result is an ExecResult.
func (c *Client) exec(ctx context.Context, spec rpc.Call) (ExecResult, error) {
	answer, err := c.do(ctx, spec)
	if err != nil {
		return ExecResult{}, err
	}
	var res struct {
		ExitCode *int    `json:"exit_code"`
		Stdout   *string `json:"stdout"`
		Stderr   *string `json:"stderr"`
		ExecResult
	}
	if err := decode(spec.Method, answer.Result, &res); err != nil {
		return ExecResult{}, err
	}
	if res.ExitCode == nil || res.Stdout == nil || res.Stderr == nil {
		return ExecResult{}, malformed(spec.Method, "exit_code, stdout or stderr is missing")
	}
	out := res.ExecResult
	out.ExitCode, out.Stdout, out.Stderr = *res.ExitCode, *res.Stdout, *res.Stderr
	return out, nil
}

// op logs what a high-level method is about to do: paths and lengths, no more.
func (c *Client) op(ctx context.Context, method string, attrs ...slog.Attr) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.LogAttrs(ctx, slog.LevelDebug, "guest operation", append([]slog.Attr{slog.String("method", method)}, attrs...)...)
	}
}
