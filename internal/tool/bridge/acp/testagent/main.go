// Command testagent speaks the agent's side of the Agent Client Protocol for tests. It does
// what its prompt says, a line at a time, and says what came of each. With arguments it
// speaks no protocol at all: "testagent raw FILE" plays a script of single lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "raw" {
		if err := raw(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	a := &agent{}
	a.conn = acp.NewAgentSideConnection(a, os.Stdout, os.Stdin)
	<-a.conn.Done()
}

// raw plays a script: "> LINE" prints a line, "* N LINE" prints it N times and "+ N TEXT" a
// text N times without a line's end, "< WORD" waits for a line with WORD in it, "hang" does nothing any more,
// "exit N" ends.
func raw(file string) error {
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(script), "\n"), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		count, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(count)
		switch word {
		case ">":
			fmt.Fprintln(out, rest)
		case "*":
			for i := range n {
				fmt.Fprintln(out, strings.ReplaceAll(text, "%d", strconv.Itoa(i+1000)))
			}
		case "+":
			fmt.Fprint(out, strings.Repeat(text, n))
		case "<":
			for got := ""; !strings.Contains(got, rest); {
				if got, err = in.ReadString('\n'); err != nil {
					return fmt.Errorf("wait for %s: %w", rest, err)
				}
			}
		case "hang":
			time.Sleep(time.Hour)
		case "exit":
			_ = out.Flush()
			os.Exit(n)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// An agent does what its prompt says.
type agent struct {
	conn *acp.AgentSideConnection

	mu     sync.Mutex
	cwd    string
	cancel context.CancelFunc
}

const session = acp.SessionId("s1")

func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	version := acp.ProtocolVersionNumber
	if text := os.Getenv("TESTAGENT_VERSION"); text != "" {
		version, _ = strconv.Atoi(text)
	}
	return acp.InitializeResponse{
		AgentInfo:       &acp.Implementation{Name: os.Getenv("TESTAGENT_NAME"), Version: "1"},
		ProtocolVersion: acp.ProtocolVersion(version),
		AuthMethods:     []acp.AuthMethod{{Agent: &acp.AuthMethodAgent{Id: "browser", Name: "Log in with a browser"}}},
	}, nil
}

func (a *agent) NewSession(_ context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	if os.Getenv("TESTAGENT_LOGIN") != "" {
		return acp.NewSessionResponse{}, &acp.RequestError{Code: -32000, Message: "no key\x1b[2J"}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cwd = p.Cwd
	return acp.NewSessionResponse{SessionId: session}, nil
}

func (a *agent) Cancel(context.Context, acp.CancelNotification) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel()
	}
	return nil
}

func (a *agent) Prompt(_ context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.mu.Lock()
	a.cancel = cancel
	a.mu.Unlock()
	for _, b := range p.Prompt {
		switch {
		case b.ResourceLink != nil:
			a.say("[link " + b.ResourceLink.Name + " " + b.ResourceLink.Uri + "]")
		case b.Text != nil:
			for line := range strings.SplitSeq(b.Text.Text, "\n") {
				stop, err := a.do(ctx, line)
				if err != nil || stop != "" {
					return acp.PromptResponse{StopReason: stop}, err
				}
			}
		}
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

// do is one line of the prompt. A stop reason ends the turn.
func (a *agent) do(ctx context.Context, line string) (acp.StopReason, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "say":
		a.say(rest)
	case "cwd":
		a.say(a.cwd)
	case "many":
		n, _ := strconv.Atoi(rest)
		for range n {
			a.say(strings.Repeat("0123456789", 100))
		}
	case "update":
		var u acp.SessionUpdate
		if err := json.Unmarshal([]byte(rest), &u); err != nil {
			return "", err
		}
		return "", a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: session, Update: u})
	case "permit":
		a.permit(context.WithoutCancel(ctx), rest) // it is answered even so
	case "call":
		method, params, _ := strings.Cut(rest, " ")
		a.call(ctx, method, params)
	case "run":
		a.run(ctx, rest)
	case "leave": // what it started goes on
		res, err := a.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: session, Command: rest})
		a.told(res.TerminalId, err)
	case "stop":
		return acp.StopReason(rest), nil
	case "fail":
		return "", &acp.RequestError{Code: -32603, Message: "Internal error", Data: map[string]any{"details": rest}}
	case "until-canceled":
		<-ctx.Done()
		return acp.StopReasonCancelled, nil
	case "deaf":
		time.Sleep(time.Hour)
	case "exit":
		n, _ := strconv.Atoi(rest)
		os.Exit(n)
	}
	return "", nil
}

func (a *agent) say(text string) {
	_ = a.conn.SessionUpdate(context.Background(), acp.SessionNotification{SessionId: session, Update: acp.UpdateAgentMessageText(text)})
}

// told says what came of a request.
func (a *agent) told(result any, err error) {
	if err != nil {
		a.say("{" + err.Error() + "}")
		return
	}
	data, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	a.say("{" + string(data) + "}")
}

// permit asks for leave for a tool call, and says which option was chosen.
func (a *agent) permit(ctx context.Context, toolCall string) {
	p := acp.RequestPermissionRequest{SessionId: session, Options: []acp.PermissionOption{
		{Kind: acp.PermissionOptionKindAllowAlways, Name: "Always", OptionId: "always"},
		{Kind: acp.PermissionOptionKindAllowOnce, Name: "Once", OptionId: "once"},
		{Kind: acp.PermissionOptionKindRejectOnce, Name: "No", OptionId: "no"},
	}}
	if err := json.Unmarshal([]byte(toolCall), &p.ToolCall); err != nil {
		a.told(nil, err)
		return
	}
	if strings.HasPrefix(string(p.ToolCall.ToolCallId), "always-only") {
		p.Options = p.Options[:1]
	}
	res, err := a.conn.RequestPermission(ctx, p)
	a.told(res.Outcome, err)
}

// call makes a request of the client's, with parameters as they are given.
func (a *agent) call(ctx context.Context, method, params string) {
	var err error
	var res any
	switch method {
	case acp.ClientMethodFsReadTextFile:
		res, err = request(ctx, params, a.conn.ReadTextFile)
	case acp.ClientMethodFsWriteTextFile:
		res, err = request(ctx, params, a.conn.WriteTextFile)
	case acp.ClientMethodTerminalCreate:
		res, err = request(ctx, params, a.conn.CreateTerminal)
	case acp.ClientMethodTerminalOutput:
		res, err = request(ctx, params, a.conn.TerminalOutput)
	case acp.ClientMethodTerminalWaitForExit:
		res, err = request(ctx, params, a.conn.WaitForTerminalExit)
	case acp.ClientMethodTerminalKill:
		res, err = request(ctx, params, a.conn.KillTerminal)
	case acp.ClientMethodTerminalRelease:
		res, err = request(ctx, params, a.conn.ReleaseTerminal)
	default:
		res, err = a.conn.CallExtension(ctx, method, json.RawMessage(params))
	}
	a.told(res, err)
}

func request[P, R any](ctx context.Context, params string, do func(context.Context, P) (R, error)) (any, error) {
	var p P
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		return nil, err
	}
	return do(ctx, p)
}

// run runs a command to its end in a terminal, and says what it printed.
func (a *agent) run(ctx context.Context, line string) {
	made, err := a.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: session, Command: line})
	if err != nil {
		a.told(nil, err)
		return
	}
	if _, err = a.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: session, TerminalId: made.TerminalId}); err != nil {
		a.told(nil, err)
		return
	}
	out, err := a.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: session, TerminalId: made.TerminalId})
	a.told(out, err)
	_, _ = a.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: session, TerminalId: made.TerminalId})
}

// The rest of what an agent is.

func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

func (a *agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

func (a *agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionList)
}

func (a *agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionResume)
}

func (a *agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

func (a *agent) CloseSession(context.Context, acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return acp.CloseSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionClose)
}
