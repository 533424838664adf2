package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"airlock/agent"
	"airlock/internal/hostview"
	"airlock/internal/image"
	"airlock/internal/netgate"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

// sandboxFlags are what sandbox create is told. Other commands that make sandboxes take
// some of them.
type sandboxFlags struct {
	dir, image, template, pull string
	labels                     []string
	env, envFiles              []string
	hide, show, readOnly       []string
	timeFlags
	limitFlags
	net, publish, secrets []string
}

// timeFlags bound a sandbox's life.
type timeFlags struct {
	ttl, idle         time.Duration
	ttlThen, idleThen string
}

func (f *timeFlags) add(fl *pflag.FlagSet) {
	fl.DurationVar(&f.ttl, "ttl", 0, "the sandbox's whole life, as in 1h (default: until it is removed)")
	fl.StringVar(&f.ttlThen, "ttl-then", sandbox.ThenEnd, "what happens then: end or pause")
	fl.DurationVar(&f.idle, "idle", 0, "how long it may be without a call and without a running command, as in 10m")
	fl.StringVar(&f.idleThen, "idle-then", sandbox.ThenEnd, "what happens then: end or pause")
}

// times are the flags', nil where none was given.
func (f *timeFlags) times(fl *pflag.FlagSet) (*manager.Times, error) {
	if !fl.Changed("ttl") && !fl.Changed("idle") && !fl.Changed("ttl-then") && !fl.Changed("idle-then") {
		return nil, nil
	}
	times := &manager.Times{}
	for _, t := range []struct {
		name, then string
		d          time.Duration
		toTime     *time.Duration
		toThen     *string
	}{{"ttl", f.ttlThen, f.ttl, &times.TTL, &times.TTLThen}, {"idle", f.idleThen, f.idle, &times.Idle, &times.IdleThen}} {
		switch {
		case t.d < 0 || t.d == 0 && fl.Changed(t.name):
			return nil, usage("--%s %s: write a time that is longer than none, as in 10m", t.name, t.d)
		case t.then != sandbox.ThenEnd && t.then != sandbox.ThenPause:
			return nil, usage("--%s-then %s: it is %s or %s", t.name, printable(t.then), sandbox.ThenEnd, sandbox.ThenPause)
		case t.d == 0 && fl.Changed(t.name+"-then"):
			return nil, usage("--%s-then says what happens after --%s, which is not there", t.name, t.name)
		case t.d > 0:
			*t.toTime, *t.toThen = t.d, t.then
		}
	}
	return times, nil
}

// limitFlags bound what a sandbox uses, and each of its commands.
type limitFlags struct {
	memory, disk, output string
	cpus                 float64
	procs, files         int64
	timeout              time.Duration
}

func (f *limitFlags) add(fl *pflag.FlagSet) {
	fl.StringVarP(&f.memory, "memory", "m", "", "limit the sandbox's memory, as in 512M or 2G")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit its processor time, as in 0.5 or 2")
	fl.Int64Var(&f.procs, "procs", 0, "limit how many processes and threads it may have at once")
	fl.StringVar(&f.disk, "disk", "", "limit what it writes, as in 2G")
	fl.Int64Var(&f.files, "files", 0, "limit how many files each process may have open")
	fl.StringVar(&f.output, "output", "", "how much of each command's output is kept in the background and shown by --json (default 1M)")
	fl.DurationVar(&f.timeout, "timeout", 0, "end each command after this long, as in 30s")
}

// limits are the flags' limits.
func (f *limitFlags) limits() (limits manager.Limits, err error) {
	for _, n := range []struct {
		name     string
		negative bool
	}{{"cpus", f.cpus < 0}, {"procs", f.procs < 0}, {"files", f.files < 0}, {"timeout", f.timeout < 0}} {
		if n.negative {
			return limits, usage("--%s: it is negative", n.name)
		}
	}
	switch {
	case f.procs > 0 && f.procs < leastProcs:
		return limits, usage("--procs %d: a sandbox needs at least %d", f.procs, leastProcs)
	case f.files > 0 && f.files < leastFiles:
		return limits, usage("--files %d: programs need at least %d", f.files, leastFiles)
	}
	limits = manager.Limits{CPUs: f.cpus, Procs: f.procs, Files: f.files, Timeout: f.timeout}
	if limits.Memory, err = parseSize(f.memory); err != nil {
		return limits, usage("--memory %s: %w", printable(f.memory), err)
	}
	if limits.Disk, err = parseBytes(f.disk); err != nil {
		return limits, usage("--disk %s: %w", printable(f.disk), err)
	}
	if limits.Disk > 0 && limits.Disk < leastDisk {
		return limits, usage("--disk %s: a sandbox needs at least %s", printable(f.disk), bytesText(leastDisk))
	}
	if limits.Output, err = parseBytes(f.output); err != nil {
		return limits, usage("--output %s: %w", printable(f.output), err)
	}
	if limits.Output > agent.MaxKeepOutput {
		return limits, usage("--output %s: at most %s are kept", printable(f.output), bytesText(agent.MaxKeepOutput))
	}
	return limits, nil
}

// With less than this nothing starts in a sandbox.
const (
	leastProcs = 4
	leastFiles = 16
	leastDisk  = 1 << 20
)

// network is what --net, --publish and --secret ask for.
func (f *sandboxFlags) network() (manager.Net, error) {
	net := manager.Net{Secrets: f.secrets}
	for _, word := range f.net {
		mode, hosts, allow := strings.Cut(word, "=")
		switch {
		case word == manager.NetNone, word == manager.NetHost:
		case allow && mode == manager.NetAllow:
			rules, err := netgate.ParseAllow(hosts)
			if err != nil {
				return net, usage("--net %s: %w", printable(word), err)
			}
			for _, r := range rules {
				net.Allow = append(net.Allow, r.String())
			}
		default:
			return net, usage("--net %s: it is none, allow=HOST[:PORT][,…] or host", printable(word))
		}
		if net.Mode != "" && net.Mode != mode {
			return net, usage("--net %s and --net %s exclude one another", net.Mode, mode)
		}
		net.Mode = mode
	}
	for _, word := range f.publish {
		port, err := netgate.ParsePublish(word)
		if err != nil {
			return net, usage("--%w", err)
		}
		net.Publish = append(net.Publish, port.String())
	}
	return net, nil
}

// addMaking adds the flags of commands that say anew what a sandbox is made of.
func (f *sandboxFlags) addMaking(fl *pflag.FlagSet) {
	fl.StringVarP(&f.dir, "workdir", "w", "", "where commands start (default: the current folder; with an image the image's)")
	fl.StringVar(&f.image, "image", "", "an image's files instead of the host's: a registry's REF, oci:DIR, docker-archive:FILE or dir:PATH")
	fl.StringVar(&f.pull, "pull", "missing", "when to ask the registry for the image: missing, always or never")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "set a variable: NAME=VALUE, or NAME for its value here")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in a file, NAME=VALUE a line")
	fl.StringArrayVar(&f.hide, "hide", nil, "hide a path from the sandbox")
	fl.StringArrayVar(&f.show, "show", nil, "show a path that is hidden by default")
	fl.StringArrayVar(&f.readOnly, "readonly", nil, "make a path read-only in the sandbox")
	f.limitFlags.add(fl)
	fl.StringArrayVar(&f.net, "net", nil, "the network: none (the default), allow=HOST[:PORT][,…], or host, which is all that this machine reaches")
	fl.StringArrayVarP(&f.publish, "publish", "p", nil, "lead PORT[:HOSTPORT] of this machine's loopback to the sandbox's; may be repeated")
	fl.StringArrayVar(&f.secrets, "secret", nil, "NAME=env:VARIABLE, file:PATH or cmd:COMMAND[@HOST,…]: a placeholder inside, the value on the way out")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // as airlock run calls them
		case "ro":
			name = "readonly"
		case "pids":
			name = "procs"
		}
		return pflag.NormalizedName(name)
	})
}

// addUse adds the flags that every new sandbox takes, also one that goes on from another.
func (f *sandboxFlags) addUse(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "mark it KEY=VALUE; may be repeated")
	f.timeFlags.add(fl)
}

// environ are the variables that were named.
func (f *sandboxFlags) environ(environ []string) (map[string]string, error) {
	named, err := namedVariables(f.envFiles, f.env)
	if err != nil {
		return nil, err
	}
	return namedEnv(environ, named)
}

// namedEnv are the variables of NAME=VALUE words, and of NAME words that have a value in environ.
func namedEnv(environ, named []string) (map[string]string, error) {
	all, err := hostview.Environ(environ, named)
	if err != nil {
		return nil, usage("%w", err)
	}
	only := map[string]string{}
	for _, kv := range named {
		name, _, ok := strings.Cut(kv, "=")
		if ok || slices.ContainsFunc(environ, func(set string) bool { return strings.HasPrefix(set, name+"=") }) {
			only[name] = all[name]
		}
	}
	return only, nil
}

// workDir is where commands start: over the host a folder that exists here.
func (f *sandboxFlags) workDir(image bool) (string, error) {
	switch {
	case image && f.dir == "":
		return "", nil
	case image && !filepath.IsAbs(f.dir):
		return "", usage("--workdir %s: in an image it is absolute, as in /work", printable(f.dir))
	case image:
		return filepath.Clean(f.dir), nil
	}
	dir := f.dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", fail(exitFailed, err)
		}
	}
	abs, err := folder(dir)
	if err != nil {
		return "", usage("%w", err)
	}
	return abs, nil
}

// request is what the flags ask for.
func (f *sandboxFlags) request(fl *pflag.FlagSet, environ []string) (*manager.Request, error) {
	req := &manager.Request{Template: f.template, Hide: f.hide, Show: f.show}
	switch {
	case fl.Changed("image") && f.image == "", fl.Changed("template") && f.template == "":
		return nil, usage("the name of the image or template is empty")
	case fl.Changed("pull") && f.image == "":
		return nil, usage("--pull is about an image, and there is no --image")
	case fl.Changed("pull"):
		req.Pull = f.pull
	}
	var err error
	if req.Image, err = imageName(f.image); err != nil {
		return nil, err
	}
	if req.Labels, err = manager.ParseLabels(f.labels); err != nil {
		return nil, err
	}
	if req.WorkDir, err = f.workDir(f.image != "" || f.template != ""); err != nil {
		return nil, err
	}
	if req.Env, err = f.environ(environ); err != nil {
		return nil, err
	}
	if req.ReadOnly, err = existing(f.readOnly); err != nil {
		return nil, usage("--readonly %w", err)
	}
	if req.Limits, err = f.limits(); err != nil {
		return nil, err
	}
	times, err := f.times(fl)
	if err != nil {
		return nil, err
	}
	if times != nil {
		req.Times = *times
	}
	req.Net, err = f.network()
	return req, err
}

// imageName is a reference that means the same in every folder.
func imageName(typed string) (string, error) {
	if typed == "" {
		return "", nil
	}
	ref, err := image.ParseReference(typed)
	switch {
	case err != nil:
		return "", usage("%w", err)
	case ref.Kind == image.Registry:
		return typed, nil
	}
	return ref.String(), nil
}

// addLater adds the flags that change what a sandbox has that goes on from another's state.
func (f *sandboxFlags) addLater(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.env, "env", "e", nil, "set a variable of later commands: NAME=VALUE, or NAME for its value here")
	fl.StringVarP(&f.memory, "memory", "m", "", "limit its memory, as in 512M or 2G")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit its processor time, as in 0.5 or 2")
	fl.Int64Var(&f.procs, "procs", 0, "limit how many processes and threads it may have at once")
	fl.StringVar(&f.output, "output", "", "how much of each command's output is kept in the background and shown by --json")
	fl.DurationVar(&f.timeout, "timeout", 0, "end each later command after this long, as in 30s")
}

// later is what the flags ask for of a sandbox that goes on from another's state.
func (f *sandboxFlags) later(fl *pflag.FlagSet, environ []string) (*manager.Request, error) {
	req := &manager.Request{}
	var err error
	if len(f.labels) > 0 {
		if req.Labels, err = manager.ParseLabels(f.labels); err != nil {
			return nil, err
		}
	}
	if req.Env, err = f.environ(environ); err != nil {
		return nil, err
	}
	if req.Limits, err = f.limits(); err != nil {
		return nil, err
	}
	times, err := f.times(fl)
	if times != nil {
		req.Times = *times
	}
	return req, err
}

// inherit takes labels and times that were not given from the sandbox that another goes on from.
func (f *sandboxFlags) inherit(req *manager.Request, from *manager.Info) {
	if len(f.labels) == 0 {
		req.Labels = from.Labels
	}
	if req.Times == (manager.Times{}) {
		req.Times = from.Times
	}
}
