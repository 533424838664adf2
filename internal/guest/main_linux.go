package guest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
)

const usage = `airlock-agent serves the guest protocol: it runs commands and handles files for
whoever connects. It is meant to be PID 1 of a sandbox.

usage: airlock-agent [flags]

  --listen WHERE     vsock:PORT, unix:PATH, stdio for one connection on the standard
                     input and output, or mux for any number of them (default
                     vsock:52)
  --max-frame BYTES  longest line and longest payload (default 67108864)
  --log-level LEVEL  debug, info, warn or error, on standard error (default info)
  --become-root      become root first, with the capabilities there are: for a sandbox
                     that can only be started as somebody else, who stays the user of
                     commands and new files
  --version          print the version
  --help             print this
`

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	gcPercent = 25 // a smaller heap at rest, for a program that rarely computes
)

// flags are the command line.
type flags struct {
	listen   string
	maxFrame int64
	level    slog.Level
	root     bool
	version  bool
}

func parseFlags(args []string) (f flags, err error) {
	set := flag.NewFlagSet(Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.listen, "listen", fmt.Sprintf("vsock:%d", agent.GuestPort), "")
	set.Int64Var(&f.maxFrame, "max-frame", agent.DefaultMaxFrame, "")
	set.TextVar(&f.level, "log-level", slog.LevelInfo, "")
	set.BoolVar(&f.root, "become-root", false, "")
	set.BoolVar(&f.version, "version", false, "")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", clip(set.Arg(0)))
	}
	if f.maxFrame < minFrame {
		return f, fmt.Errorf("max-frame: %d is less than %d", f.maxFrame, minFrame)
	}
	return f, nil
}

// minFrame holds any answer that has no file or folder in it but an error.
const minFrame = 64 << 10

// Main is the airlock-agent program, built as version. args do not include the program's
// name; the result is the exit code. It changes properties of the whole process (what children
// it collects, signals, umask), so nothing else should run beside it.
func Main(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v (see --help)\n", Name, err)
		return exitUsage
	case f.version:
		fmt.Fprintf(stdout, "%s %s, protocol %s\n", Name, version, agent.ProtocolVersion)
		return exitOK
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: f.level}))
	if err := run(ctx, version, f, stdin, stdout, log); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Name, err)
		return exitFailed
	}
	return exitOK
}

func run(ctx context.Context, version string, f flags, stdin io.Reader, stdout io.Writer, log *slog.Logger) error {
	user := ""
	if f.root {
		user = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
		if err := becomeRoot(); err != nil {
			return err
		}
	}
	var source source
	var err error
	switch f.listen {
	case "stdio":
		source, err = openStdioConn(stdin, stdout)
	case "mux":
		source, err = openMux(stdin, stdout, log)
	default:
		source, err = listen(f.listen, log)
	}
	if err != nil {
		return err
	}
	defer source.Close()
	if err := ownProcess(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	// A broken stderr must not end the agent. Not ignored, because commands would
	// inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, unix.SIGPIPE)
	defer signal.Stop(pipe)

	a, err := New(&Options{MaxFrame: f.maxFrame, ReapOrphans: true, User: user, Version: version, Logger: log})
	if err != nil {
		return err
	}
	a.reaper.acquire()
	defer a.reaper.release()
	log.InfoContext(ctx, "serving", "listen", f.listen, "pid", os.Getpid(), "version", version)
	err = source.serve(ctx, a)
	if ctx.Err() != nil {
		err = nil // it was told to end
	}
	closed := a.Close()
	endChildren()
	a.cgroups.settle()
	return errors.Join(err, closed)
}

// becomeRoot makes root of every thread, so that commands, which run as somebody else,
// can neither signal the agent nor read its memory.
func becomeRoot() error {
	err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0))
	if err != nil {
		return fmt.Errorf("become root: %w", err)
	}
	return nil
}

// ownProcess prepares a process that is the agent and nothing else.
func ownProcess() error {
	debug.SetGCPercent(gcPercent)
	unix.Umask(0o022)
	closeOnExec()
	letSignalsBe()
	if os.Getpid() != 1 {
		// Orphans of its commands come to the agent, as they do to PID 1.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the reaper of orphans: %w", err)
		}
		return nil
	}
	// Nobody in the sandbox reads the agent's memory or descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the agent's memory: %w", err)
	}
	return nil
}

// closeOnExec keeps from commands whatever descriptors the agent was started with.
func closeOnExec() {
	const first, last = 3, 1<<31 - 1
	if unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		for fd := first; fd < 1024; fd++ {
			unix.CloseOnExec(fd)
		}
		return
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}

// endChildren ends what commands left in the background: their processes are children
// of this one by now, or become so when their parents end.
func endChildren() {
	self := os.Getpid()
	for deadline := time.Now().Add(killLimit); time.Now().Before(deadline); {
		found := false
		for _, pid := range processes() {
			if stat, ok := readStat(pid); ok && stat.parent == self && stat.state != 'Z' {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if !found {
			return
		}
		time.Sleep(killPoll)
	}
}
