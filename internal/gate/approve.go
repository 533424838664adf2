package gate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/tool"
)

// An Approver asks a person. It is safe for concurrent use: several questions may be open
// at once. It returns soon after ctx is done, which is when the question expires or
// nobody waits for the answer any more. ErrNobody says that it has nobody to ask.
type Approver interface {
	Approve(ctx context.Context, r *Request) (Answer, error)
}

// ErrNobody is an approver's that has nobody to ask.
var ErrNobody = errors.New("there is nobody to ask")

// A Request is a question for a person. All of it is fit to be shown.
type Request struct {
	ID      string        `json:"id"`
	Digest  string        `json:"digest"` // of the call's exact bytes, where it is made and as whom
	Tool    string        `json:"tool"`
	Action  string        `json:"action"`
	Text    string        `json:"text"`    // the whole command line, or the arguments; of several lines if it has them
	Escaped bool          `json:"escaped"` // Text shows characters that are not printable as \x…
	Risk    tool.Risk     `json:"risk"`
	Rule    string        `json:"rule"`
	Why     string        `json:"why"`
	Where   tool.Where    `json:"where"`
	WorkDir string        `json:"working_directory"`
	User    string        `json:"user"` // as whom it would run; "" where that is not known
	Host    string        `json:"host"`
	Parts   []tool.Part   `json:"parts,omitempty"`
	Touches []string      `json:"touches,omitempty"`
	Group   string        `json:"group,omitempty"`
	Step    string        `json:"step,omitempty"`
	Who     string        `json:"who,omitempty"`
	Asked   time.Time     `json:"asked"`
	Expires time.Time     `json:"expires"`
	Lasts   time.Duration `json:"-"` // from Asked to Expires
}

// Severe reports whether a person should have to do more than press a key.
func (r *Request) Severe() bool { return mustBeNamed.has(riskIndex(r.Risk)) }

// An Answer is a person's. The zero answer is no; one that does not repeat the request's
// ID and digest is no as well.
type Answer struct {
	ID       string
	Digest   string
	Approved bool
	By       string // "terminal", or a name
	Reason   string
}

// Yes and No answer a request.
func (r *Request) Yes(by string) Answer { return Answer{r.ID, r.Digest, true, by, ""} }

// No answers a request, with a reason that may be empty.
func (r *Request) No(by, reason string) Answer { return Answer{r.ID, r.Digest, false, by, reason} }

// MaxText is how long the text of a request may be, and MaxLines how many lines it may
// have: what cannot be shown whole cannot be approved.
const (
	MaxText  = 16 << 10
	MaxLines = 400
)

// Admit lets a call pass or not. What is approved is asked of the policy again: it may have
// become stricter, or the call another, while the person was thinking.
func (g *Gate) Admit(ctx context.Context, q *tool.Question) (tool.Judgement, error) {
	if err := ctx.Err(); err != nil {
		return refuse("builtin/interrupted", "nobody waits for it any more"), err
	}
	j := g.judgeFresh(q)
	switch j.Verdict {
	case tool.Allow:
		return j, nil
	case tool.Ask:
		return g.ask(ctx, q, j)
	}
	return j, &tool.RefusedError{Judgement: j, Mend: mendOf(&j)}
}

func (g *Gate) judgeFresh(q *tool.Question) tool.Judgement {
	g.places.forget()
	set := g.layers.current(q.WorkDir, true)
	return g.judge(q, set)
}

// mendOf is what a person can do about a rule that denies.
func mendOf(j *tool.Judgement) string {
	switch layer, _, _ := strings.Cut(j.Rule, "/"); layer {
	case layerSystem, layerUser, layerProject:
		return "airlock policy show says where that rule stands"
	}
	return ""
}

// ask asks the approver about a call that was judged.
func (g *Gate) ask(ctx context.Context, q *tool.Question, j tool.Judgement) (tool.Judgement, error) {
	refused := func(mend string) (tool.Judgement, error) {
		return j, &tool.RefusedError{Judgement: j, Mend: mend}
	}
	if g.opts.Approver == nil {
		return refused(g.nobody(q, j.Risk))
	}
	r, err := g.request(q, &j)
	if err != nil {
		j.Verdict, j.Why = tool.Deny, show(err.Error())
		return refused("put what it does into a file that can be read, and run that")
	}
	approval := tool.Approval{ID: r.ID, Digest: r.Digest, Asked: r.Asked, Expires: r.Expires}
	tell(q, approval)
	answer, err := g.answer(ctx, r)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		answer = r.No("cancel", "nobody waits for the answer any more")
	case errors.Is(err, context.DeadlineExceeded):
		answer = r.No("expiry", "there was no answer in time")
	case errors.Is(err, ErrNobody):
		answer = r.No("nobody", "there is nobody to ask")
	default:
		answer = r.No("failure", "asking failed: "+err.Error())
	}
	if answer.Approved {
		answer = g.stillMeant(q, r, answer)
	}
	approval.Approved, approval.By, approval.Reason = &answer.Approved, show(answer.By), show(answer.Reason)
	j.Approval = &approval
	tell(q, approval)
	switch {
	case ctx.Err() != nil && !answer.Approved:
		return j, ctx.Err()
	case answer.By == "nobody":
		return refused(g.nobody(q, j.Risk))
	case !answer.Approved:
		j.Why += " (not approved"
		if answer.Reason != "" {
			j.Why += ": " + show(answer.Reason)
		}
		j.Why += ")"
		return refused("")
	}
	return j, nil
}

func tell(q *tool.Question, a tool.Approval) {
	if q.Asked != nil {
		q.Asked(a)
	}
}

// answer waits for the approver until the request expires, and refuses what is no answer
// to it.
func (g *Gate) answer(ctx context.Context, r *Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Lasts)
	defer cancel()
	shown := *r
	answer, err := g.opts.Approver.Approve(ctx, &shown)
	switch {
	case err != nil:
		return Answer{}, err
	case !answer.Approved:
		return answer, nil
	case answer.ID != r.ID || answer.Digest != r.Digest:
		return Answer{}, errors.New("the answer is to another question")
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case !g.opts.Now().Before(r.Expires):
		return Answer{}, context.DeadlineExceeded
	}
	return answer, nil
}

// stillMeant refuses an approval of what has changed since it was asked for.
func (g *Gate) stillMeant(q *tool.Question, r *Request, a Answer) Answer {
	if Digest(q, g.opts.HostIdentity) != r.Digest {
		return r.No(a.By, "the call was changed after it had been shown")
	}
	if now := g.judgeFresh(q); now.Verdict == tool.Deny {
		return r.No(a.By, "the policy has changed: "+now.Rule+" denies it now")
	}
	return a
}

// request makes the question that is shown.
func (g *Gate) request(q *tool.Question, j *tool.Judgement) (*Request, error) {
	raw := string(q.Call.Args)
	if q.Action.Command != "" {
		args, err := members(q.Call.Args)
		if err != nil {
			return nil, err
		}
		line, dir, err := commandOf(q, args)
		if err != nil {
			return nil, err
		}
		raw = line
		if dir = filepath.Clean(dir); dir != filepath.Clean(q.WorkDir) {
			raw = "cd " + quoted(dir) + "\n" + line
		}
		if more := others(args, q.Action.Command); more != "" && q.Call.Tool != "cmd.run" {
			raw += "\n" + more
		}
	}
	text, escaped, err := whole(raw)
	if err != nil {
		return nil, err
	}
	now, lasts := g.opts.Now(), g.expiry()
	user, host, _ := strings.Cut(g.opts.HostIdentity, "@")
	host, _, _ = strings.Cut(host, ":")
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails, as crypto/rand says
	return &Request{
		ID: hex.EncodeToString(id), Digest: Digest(q, g.opts.HostIdentity),
		Tool: show(q.Call.Tool), Action: show(q.Call.Action), Text: text, Escaped: escaped,
		Risk: j.Risk, Rule: j.Rule, Why: j.Why, Where: q.Where, WorkDir: show(q.WorkDir), User: show(user), Host: show(host),
		Parts: j.Parts, Touches: j.Touches, Group: show(q.Group), Step: show(q.Step), Who: show(q.Who),
		Asked: now, Expires: now.Add(lasts), Lasts: lasts,
	}, nil
}

// quoted is a path as a shell would want it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// others are the arguments beside the command line.
func others(args arguments, command string) string {
	rest := maps.Clone(args)
	delete(rest, command)
	delete(rest, "working_directory")
	if len(rest) == 0 {
		return ""
	}
	out, _ := json.Marshal(rest) // raw messages that were decoded
	return string(out)
}

// whole is all of a text, fit to be shown line by line; an error where it is too long.
func whole(s string) (text string, escaped bool, err error) {
	long := func(n int) error {
		return fmt.Errorf("it is too long to be shown whole (%d bytes, %d lines; %d bytes and %d lines at most), and what is not shown cannot be approved",
			n, strings.Count(s, "\n")+1, MaxText, MaxLines)
	}
	if len(s) > MaxText || strings.Count(s, "\n") >= MaxLines {
		return "", false, long(len(s))
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = changes.Printable(line)
		escaped = escaped || lines[i] != line
	}
	if text = strings.Join(lines, "\n"); len(text) > MaxText {
		return "", false, long(len(text))
	}
	return text, escaped, nil
}

// Digest binds an approval: to the call's exact bytes, to what it is run with, to where,
// and to the host and user. Each part is preceded by its length.
func Digest(q *tool.Question, hostIdentity string) string {
	h := sha256.New()
	put := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		_, _ = io.WriteString(h, s) // a hash takes all
	}
	for _, s := range []string{"airlock approval 1", q.Call.Tool, q.Call.Action, string(q.Call.Args), q.Where.String(), q.WorkDir, hostIdentity, q.Group, q.Step} {
		put(s)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		put(name)
		put(q.Env[name])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// nobody says what to do where nobody can be asked.
func (g *Gate) nobody(q *tool.Question, risk tool.Risk) string {
	text := "nobody can be asked here: run it in a terminal"
	if g.opts.User == "" {
		return text
	}
	rule := "{name: my-rule, verdict: allow, tool: " + scalar(q.Call.Tool)
	if mustBeNamed.has(riskIndex(risk)) {
		rule += ", risk: [" + string(risk) + "]"
	}
	rule += "}"
	if args, err := members(q.Call.Args); err == nil && q.Action.Command != "" {
		if line, dir, err := commandOf(q, args); err == nil {
			rule = g.example(q, line, dir)
		}
	}
	if !g.helps(q, rule) {
		return text
	}
	return text + ", or, if it is always to be allowed, put a rule such as " + rule + " into " + show(g.opts.User)
}
