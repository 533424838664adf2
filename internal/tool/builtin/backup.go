package builtin

import (
	"context"
	"fmt"
	"io"

	"airlock/agent"
	"airlock/internal/tool"
)

// maxBackups is how many backups one second may have.
const maxBackups = 100

// backup keeps the old content beside the file, under a name that nothing had before. A
// second name for the old file is at once complete, has its mode and owner, and is
// refused by the system where the name is taken; where the file system has no such
// names the content is copied.
func (w *writing) backup(ctx context.Context) (string, *tool.Result) {
	stamp := w.target + ".aishell-" + w.now.UTC().Format("20060102150405")
	for i := range maxBackups {
		name := stamp + ".bak"
		if i > 0 {
			name = fmt.Sprintf("%s-%d.bak", stamp, i)
		}
		_, err := w.m.Client.Stat(ctx, name, false)
		if err == nil {
			continue
		}
		if !isAbsent(err) {
			return "", w.noBackup(err)
		}
		if w.program(ctx, "ln", "--", w.target, name) {
			return name, nil
		}
		if _, err := w.m.Client.Stat(ctx, name, false); err == nil {
			continue // somebody was faster
		}
		if err := w.copyOld(ctx, name); err != nil {
			return "", w.noBackup(err)
		}
		w.own(ctx, name)
		return name, nil
	}
	return "", w.fail(tool.IOError, fmt.Sprintf("has %d backups of this second already: nothing was written", maxBackups))
}

func (w *writing) noBackup(err error) *tool.Result {
	return w.fail(codeOf(err), "cannot keep a backup: "+cause(err)+": nothing was written")
}

// copyOld copies the old file. The copy is its owner's alone until it is complete.
func (w *writing) copyOld(ctx context.Context, name string) (err error) {
	mode := uint32(0o600)
	if err := w.m.Client.Call(ctx, agent.MethodWriteFile, agent.WriteFileParams{Path: name, Mode: &mode}, nil); err != nil {
		return err
	}
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
			defer cancel()
			_ = w.m.Client.Remove(removing, name, false)
		}
	}()
	pr, pw := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, err := w.m.Client.ReadFileTo(copying, w.target, pw)
		pw.CloseWithError(err)
	}()
	_, err = w.m.Client.WriteFileFrom(ctx, name, pr, 0)
	pr.CloseWithError(io.ErrClosedPipe)
	cancel()
	<-read
	if err != nil {
		return err
	}
	mode = w.old.Mode & permBits
	end := w.old.Size
	return w.m.Client.Call(ctx, agent.MethodWriteFile, agent.WriteFileParams{Path: name, Mode: &mode, Offset: &end}, nil)
}
