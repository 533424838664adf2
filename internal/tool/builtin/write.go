package builtin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
)

const (
	newFileMode = 0o644
	permBits    = 0o777
	cleanUpTime = 5 * time.Second
)

// WriteFile makes fs.write_file, which replaces a file's content or makes the file.
//
// The content goes into a new file in the same folder, which then takes the name: a reader
// sees the old content or the new, and after a failure there is the old and nothing
// else. The file keeps its permissions, unless others are asked for, and its owner where the agent
// may give it that; hard links and extended attributes stay with the old content. A
// symbolic link is followed, and what it leads to is replaced. What is no regular
// file, or may not be written, is not replaced. What is hidden cannot be written at all.
//
// If the whole program is killed between the two, the new file stays behind under the
// name .airlock-….tmp: a guest agent has no files without names.
func WriteFile() tool.Tool {
	return &writeFile{info: tool.Info{
		Name:        "fs.write_file",
		Description: "Writes a file, all of it or not at all.",
		Kind:        tool.Builtin,
		Actions: []tool.Action{{
			Name:        "write",
			Description: "Makes a file or replaces its content, with a backup if asked for.",
			Schema:      schemaOf("fs.write_file", "write"),
			Risk:        tool.RiskWritesInside,
			Paths:       []string{"path"},
		}},
	}, now: time.Now}
}

type writeFile struct {
	info tool.Info
	now  func() time.Time
}

func (w *writeFile) Info() *tool.Info { return &w.info }

type writeArgs struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Mode       string `json:"mode"`
	Backup     bool   `json:"backup"`
	CreateDirs bool   `json:"create_dirs"`
}

func (w *writeFile) Invoke(ctx context.Context, m *tool.Machine, call tool.Call) tool.Result {
	op := &writing{m: m, call: &call, now: w.now()}
	if failure := decode(call, &op.args); failure != nil {
		return *failure
	}
	if failure := op.prepare(ctx); failure != nil {
		return *failure
	}
	return op.write(ctx)
}

// A writing is one call of fs.write_file.
type writing struct {
	m    *tool.Machine
	call *tool.Call
	args writeArgs
	now  time.Time

	content []byte
	mode    uint32
	target  string          // what is replaced, which is no link
	dir     string          // where it is
	old     *agent.FileInfo // of target; nil where there is none
	temp    string
}

func (w *writing) fail(code tool.ErrorCode, why string) *tool.Result {
	return new(failAt(w.call, code, w.args.Path, why))
}

func (w *writing) failed(err error) *tool.Result {
	res := failedAt(w.call, w.args.Path, err)
	if isAbsent(err) && cause(err) == absent && !w.args.CreateDirs {
		res.Stderr += `: its folder must exist, or be made with "create_dirs": true`
	}
	return &res
}

// prepare finds out what is to be written where.
func (w *writing) prepare(ctx context.Context) *tool.Result {
	w.content = []byte(w.args.Content)
	if w.args.Encoding == encodingBase64 {
		var err error
		if w.content, err = base64.StdEncoding.Strict().DecodeString(w.args.Content); err != nil {
			return new(tool.Fail(tool.InvalidArgs, w.call.Tool+": args.content: is not base64: "+err.Error()))
		}
	}
	if last := w.args.Path[strings.LastIndexByte(w.args.Path, '/')+1:]; last == "" || last == "." || last == ".." {
		return w.fail(tool.InvalidArgs, "is the name of a folder, not of a file")
	}
	if failure := w.locate(ctx); failure != nil {
		return failure
	}
	w.mode = newFileMode
	if w.old != nil {
		w.mode = w.old.Mode & permBits
	}
	if w.args.Mode != "" {
		mode, err := strconv.ParseUint(w.args.Mode, 8, 32)
		if err != nil {
			return new(tool.Fail(tool.InvalidArgs, w.call.Tool+": args.mode: "+err.Error()))
		}
		w.mode = uint32(mode) & permBits
	}
	return nil
}

// locate finds the file that is meant, behind links.
func (w *writing) locate(ctx context.Context) *tool.Result {
	name, err := seen(ctx, w.m, w.args.Path)
	if err != nil {
		return w.unseen(err)
	}
	info, err := w.m.Client.Stat(ctx, name, false)
	if err == nil && info.Type == "symlink" && name == absolute(w.m, w.args.Path) {
		if name, err = followed(ctx, w.m, name); err != nil {
			return w.unseen(err)
		}
		info, err = w.m.Client.Stat(ctx, name, false)
	}
	w.target = name
	w.dir = name[:strings.LastIndexByte(name, '/')+1]
	switch {
	case isAbsent(err) && cause(err) == absent:
		return nil
	case err != nil:
		return w.failed(err)
	case info.Type == "symlink":
		return w.fail(tool.IOError, "leads elsewhere than a moment ago, and nothing was written: somebody else is at work there")
	case info.Type == "dir":
		return w.fail(tool.InvalidArgs, "is a folder")
	case info.Type != "file":
		return w.fail(tool.InvalidArgs, "is no regular file, and is not replaced")
	}
	w.old = &info
	return w.writable(ctx)
}

// unseen is the failure where the way to the file cannot be followed.
func (w *writing) unseen(err error) *tool.Result {
	if errors.Is(err, errHidden) {
		return w.fail(tool.PermissionDenied, "is hidden from tools and cannot be written")
	}
	return new(unseen(w.call, w.args.Path, err))
}

// writable asks whether the old file may be written, by writing nothing into it: a folder's
// permissions alone would let a read-only file be replaced.
func (w *writing) writable(ctx context.Context) *tool.Result {
	params := agent.WriteFileParams{Path: w.target, Offset: &w.old.Size}
	err := w.m.Client.Call(ctx, agent.MethodWriteFile, params, nil)
	if err != nil && codeOf(err) == tool.PermissionDenied {
		return w.failed(err)
	}
	return nil
}

// write replaces the file.
func (w *writing) write(ctx context.Context) tool.Result {
	if w.args.CreateDirs {
		if err := w.m.Client.Mkdir(ctx, agent.MkdirParams{Path: w.dir, Parents: true}); err != nil {
			return *w.failed(err)
		}
	}
	w.temp = w.dir + ".airlock-" + strings.ToLower(rand.Text()) + ".tmp"
	done := false
	defer func() {
		if !done {
			w.cleanUp(ctx)
		}
	}()
	params := agent.WriteFileParams{
		Path: w.temp, Content: base64.StdEncoding.EncodeToString(w.content), Encoding: agent.EncodingBase64, Mode: &w.mode,
	}
	if err := w.m.Client.Call(ctx, agent.MethodWriteFile, params, nil); err != nil {
		failure := w.failed(err)
		if codeOf(err) == tool.PermissionDenied {
			failure.Stderr += ": its folder takes no new file, without which nothing is replaced"
		}
		return *failure
	}
	res := tool.Result{OK: true, Meta: tool.Meta{"bytes_written": len(w.content)}}
	if w.old != nil && !w.own(ctx, w.temp) {
		res.Meta["owner_kept"] = false
	}
	if w.args.Backup && w.old != nil {
		backup, failure := w.backup(ctx)
		if failure != nil {
			return *failure
		}
		res.Meta["backup_path"] = backup
	}
	w.sync(ctx)
	if err := w.m.Client.Rename(ctx, w.temp, w.target); err != nil {
		return *w.failed(err)
	}
	done = true
	return res
}

// cleanUp removes the new file, also when the call was canceled.
func (w *writing) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	_ = w.m.Client.Remove(ctx, w.temp, false) // as a rule it was never made
}

// own gives a file the old one's owner and group, and reports whether it has them.
func (w *writing) own(ctx context.Context, name string) bool {
	info, err := w.m.Client.Stat(ctx, name, false)
	if err != nil || info.UID == w.old.UID && info.GID == w.old.GID {
		return err == nil
	}
	owner := fmt.Sprintf("%d:%d", w.old.UID, w.old.GID)
	if !w.program(ctx, "chown", "-h", "--", owner, name) {
		return false
	}
	info, err = w.m.Client.Stat(ctx, name, false)
	return err == nil && info.UID == w.old.UID && info.GID == w.old.GID
}

// sync has the host's disk take the content before the name. It is the best that can be
// done without a method for it; a sandbox's files do not outlive a power cut anyway.
func (w *writing) sync(ctx context.Context) {
	if w.m.Where == tool.OnHost {
		w.program(ctx, "sync", "--", w.temp)
	}
}

// program runs one of the system's small programs and reports whether it went well. It
// is looked for in the system's folders alone: no gate has heard of it, so what the caller's
// PATH leads to must not run.
func (w *writing) program(ctx context.Context, argv ...string) bool {
	params := agent.ExecParams{Argv: argv, ExecOptions: agent.ExecOptions{
		Cwd: "/", Env: map[string]string{"PATH": programPath, "LC_ALL": "C"}, ClearEnv: true, User: w.m.User, TimeoutMS: programTime.Milliseconds(),
	}}
	res, err := w.m.Client.Run(ctx, params, nil)
	return err == nil && res.Success()
}

const (
	programPath = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
	programTime = 10 * time.Second // for each of them
)
