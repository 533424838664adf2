package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"airlock/internal/changes"
	"airlock/internal/tool/bridge/proc"
)

// A life is one agent from its start to its end.
type life struct {
	client *client
	conn   *sdk.Connection
	proc   *proc.Running
	stop   func() // ends what is done on the agent's behalf
	grace  time.Duration
}

// errTimeOver is a session whose time was over before there was a turn to cancel.
var errTimeOver = errors.New("its time is over")

// run is the session: what the agent is told, and how it is ended.
func (l *life) run(ctx context.Context, blocks []sdk.ContentBlock) (proc.Outcome, json.RawMessage) {
	// What is said to the agent outlives ctx for as long as the agent is given to end its turn.
	talking, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hangUp(nil)
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(talking, hangUp) })
	watching.Go(func() {
		<-l.proc.Done()
		l.stop()
		l.client.in.close()
		l.client.out.abort()
	})
	reply, err := l.talk(talking, blocks)
	over := l.proc.Reason() != proc.NotOver
	l.stop()
	l.client.finish()
	l.leave(over)
	out := l.proc.Wait()
	watching.Wait()
	<-l.conn.Done()
	l.client.finish() // of requests that came late
	return l.verdict(out, reply, err, over)
}

// leave ends the agent: by the end of its input, and if that does not do, by force. One
// whose time is over has been given its time to end already.
func (l *life) leave(over bool) {
	if l.client.whyBroken() != nil {
		l.proc.End()
	}
	l.client.out.end()
	if over {
		return
	}
	late := time.NewTimer(l.grace)
	defer late.Stop()
	select {
	case <-l.proc.Done():
	case <-late.C:
		l.proc.End()
	}
}

// watch acts on what ends a session from outside, until the agent has ended.
func (l *life) watch(talking context.Context, hangUp context.CancelCauseFunc) {
	over, broken := l.proc.Over(), l.client.broken
	for {
		select {
		case <-over:
			over = nil
			l.stop()
			if id := l.client.turn.session(); id == "" {
				hangUp(errTimeOver)
				l.proc.End() // there is nothing that it could be told
			} else {
				_ = l.conn.SendNotification(talking, sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: id})
			}
		case <-broken:
			broken = nil
			l.stop()
			l.proc.End()
		case <-l.proc.Done():
			return
		}
	}
}

// A reply is what the agent ended its turn with.
type reply struct{ stop sdk.StopReason }

// An agentError is what the agent answered a request with, or did not.
type agentError struct {
	method string
	err    *sdk.RequestError // nil: it ended without an answer
	auth   []sdk.AuthMethod
}

func (e *agentError) Error() string {
	if e.err == nil {
		return "ended without an answer to " + e.method
	}
	text := fmt.Sprintf("answered %s with an error: %s", e.method, complaint(e.err))
	if e.err.Code == codeAuth {
		text += "; log in with the agent's own program first, or hand a key on to it (env in its entry)"
		if len(e.auth) > 0 {
			text += "; it knows " + authNames(e.auth)
		}
	}
	return text
}

// geminiCLI names itself so. As of 0.61 it looks at a file before it writes it, and takes every
// error for a reason not to (google-gemini/gemini-cli#17588): it could make no new file.
const geminiCLI = "gemini-cli"

const (
	codeAuth     = -32000 // of the protocol: the agent wants a login
	codeNotFound = -32002 // of the protocol: there is no such file
)

// talk is what the client says: initialize, session/new, session/prompt.
func (l *life) talk(ctx context.Context, blocks []sdk.ContentBlock) (reply, error) {
	hello, err := call[sdk.InitializeResponse](ctx, l, sdk.AgentMethodInitialize, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		ClientInfo:      &sdk.Implementation{Name: "airlock", Version: "1"},
		ClientCapabilities: sdk.ClientCapabilities{
			Fs: sdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true,
		},
	}, nil)
	if err != nil {
		return reply{}, err
	}
	if hello.ProtocolVersion != sdk.ProtocolVersionNumber {
		return reply{}, fmt.Errorf("speaks version %d of the Agent Client Protocol, and Airlock version %d",
			hello.ProtocolVersion, sdk.ProtocolVersionNumber)
	}
	if info := hello.AgentInfo; info != nil && info.Name == geminiCLI {
		l.client.emptyAbsent.Store(true)
	}
	opened, err := call[sdk.NewSessionResponse](ctx, l, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{
		Cwd: l.client.s.Workspace, McpServers: []sdk.McpServer{},
	}, hello.AuthMethods)
	if err != nil {
		return reply{}, err
	}
	if !l.client.turn.open(opened.SessionId) {
		return reply{}, errors.New("gave its session a name that is empty or too long")
	}
	ended, err := call[sdk.PromptResponse](ctx, l, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{
		SessionId: opened.SessionId, Prompt: blocks,
	}, hello.AuthMethods)
	return reply{ended.StopReason}, err
}

// call makes one request; auth are the ways to log in that are known by then. One is made
// at a time.
func call[T any](ctx context.Context, l *life, method string, params any, auth []sdk.AuthMethod) (T, error) {
	l.client.requests++ // as the SDK counts
	var then func()
	if method == sdk.AgentMethodSessionPrompt {
		then = l.client.turn.close
	}
	l.client.in.await(l.client.requests, then)
	res, err := sdk.SendRequest[T](l.conn, ctx, method, params)
	answered := l.client.in.returned()
	switch {
	case err == nil:
		return res, nil
	case !answered && ctx.Err() != nil:
		return res, context.Cause(ctx)
	case !answered:
		return res, &agentError{method: method}
	}
	refusal, ok := errors.AsType[*sdk.RequestError](err)
	if !ok {
		refusal = sdk.NewInternalError(err.Error())
	}
	return res, &agentError{method, refusal, auth}
}

// verdict is what came of it.
func (l *life) verdict(out proc.Outcome, r reply, err error, over bool) (proc.Outcome, json.RawMessage) {
	broken := l.client.whyBroken()
	if !over {
		out.TimedOut, out.Canceled = false, false // it was ended because it was done
	}
	unanswered, _ := errors.AsType[*agentError](err)
	switch {
	case over:
		out.TimedOut, out.Canceled = l.proc.Reason() == proc.Timeout, l.proc.Reason() == proc.Canceled
	case errors.Is(broken, errTooLong):
		out.TooMuch = true
	case broken != nil:
		return out, failure("Agent broke the protocol: "+broken.Error(), nil)
	case err == nil:
		return out, l.client.turn.document(r.stop)
	case unanswered != nil && unanswered.err == nil && (out.Err != nil || out.Result.NotStarted != "" || out.Result.ExitCode != 0 || out.Result.Signal != ""):
		// The Outcome says it better.
	default:
		return out, failure("Agent "+err.Error(), nil)
	}
	out.Stdout = []byte(l.client.turn.said())
	return out, nil
}

// complaint is an agent's error, for a person.
func complaint(e *sdk.RequestError) string {
	more := ""
	if data, ok := e.Data.(map[string]any); ok {
		if more = first(data, []string{"details", "error", "message"}); more != "" {
			more = ": " + shown(more)
		}
	}
	return fmt.Sprintf("%s%s (code %d)", shown(e.Message), more, e.Code)
}

const maxShown = 1000 // bytes of a text of the agent's in one of ours

// shown is a text of the agent's on one line.
func shown(text string) string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return changes.Printable(text)
}

// authNames are the ways to log in that an agent knows.
func authNames(methods []sdk.AuthMethod) string {
	var names []string
	for _, m := range methods {
		var id, name string
		switch {
		case m.Agent != nil:
			id, name = m.Agent.Id, m.Agent.Name
		case m.EnvVar != nil:
			id, name = m.EnvVar.Id, m.EnvVar.Name
		case m.Terminal != nil:
			id, name = m.Terminal.Id, m.Terminal.Name
		}
		if len(names) < 10 {
			names = append(names, shown(name)+" ("+shown(id)+")")
		}
	}
	return strings.Join(names, ", ")
}

// blocks are the prompt: its text, and a link to each file.
func (s *Session) blocks() ([]sdk.ContentBlock, error) {
	blocks := []sdk.ContentBlock{sdk.TextBlock(s.Prompt)}
	for _, file := range s.Files {
		name, path, err := s.inside(file)
		if err != nil {
			return nil, err
		}
		uri := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
		blocks = append(blocks, sdk.ResourceLinkBlock(name, uri.String()))
	}
	return blocks, nil
}

// inside is a file of the workspace, by its name there and its path, links resolved.
func (s *Session) inside(file string) (name, path string, err error) {
	full := file
	if !filepath.IsAbs(full) {
		full = filepath.Join(s.Workspace, full)
	}
	path, err = filepath.EvalSymlinks(full)
	if errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("files: there is no %s in the workspace", shown(file))
	}
	if err != nil {
		return "", "", fmt.Errorf("files: %s cannot be found out about", shown(file))
	}
	name, err = filepath.Rel(s.Workspace, path)
	if err != nil || !filepath.IsLocal(name) {
		return "", "", fmt.Errorf("files: %s is outside of the workspace", shown(file))
	}
	return filepath.ToSlash(name), path, nil
}
