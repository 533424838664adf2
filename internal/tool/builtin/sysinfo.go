package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"airlock/internal/tool"
)

const (
	sectionTime = 3 * time.Second // for each section; they are asked for side by side
	maxStuck    = 64              // questions to a system that does not answer, over all calls
)

// Sysinfo makes sysinfo, which says what machine this is: its system, processor, memory
// and disks. It is about the host, whatever Machine it is given. A part that cannot be
// told is named in meta's missing, and the others are told.
func Sysinfo() tool.Tool {
	return &sysinfo{info: tool.Info{
		Name:        "sysinfo",
		Description: "Tells the machine's operating system, processor, memory and disk usage.",
		Kind:        tool.Builtin,
		Actions: []tool.Action{{
			Name:        "get",
			Description: "Tells what the machine is and how busy it is.",
			Schema:      schemaOf("sysinfo", "get"),
			Risk:        tool.RiskReadOnly,
			Place:       tool.HostOnly,
		}},
	}, asking: make(chan struct{}, maxStuck)}
}

type sysinfo struct {
	info   tool.Info
	asking chan struct{} // holds a token for each question under way
}

func (s *sysinfo) Info() *tool.Info { return &s.info }

// A section is a part of the answer: lines for a person, and what meta has by its name.
type section struct {
	lines []string
	value any
}

// sections are asked for by these functions, in this order.
var sections = []struct {
	name string
	ask  func(ctx context.Context, s *sysinfo) (section, error)
}{
	{"os", osSection}, {"cpu", cpuSection}, {"memory", memorySection}, {"disks", disksSection},
}

func (s *sysinfo) Invoke(ctx context.Context, _ *tool.Machine, call tool.Call) tool.Result {
	var args struct {
		Sections []string `json:"sections"`
	}
	if failure := decode(call, &args); failure != nil {
		return *failure
	}
	ctx, cancel := context.WithTimeout(ctx, sectionTime)
	defer cancel()
	answers := make([]func() (section, error), len(sections))
	for i, part := range sections {
		if args.Sections == nil || slices.Contains(args.Sections, part.name) {
			answers[i] = begin(ctx, s, func() (section, error) { return part.ask(ctx, s) })
		}
	}
	res := tool.Result{OK: true, Meta: tool.Meta{}}
	missing, lines := []string{}, []string{}
	for i, part := range sections {
		if answers[i] == nil {
			continue
		}
		got, err := answers[i]()
		if err != nil {
			missing = append(missing, part.name)
			lines = append(lines, fmt.Sprintf("%-10s not known: %s", part.name+":", printable(err.Error())))
			continue
		}
		res.Meta[part.name] = got.value
		lines = append(lines, got.lines...)
	}
	if len(missing) > 0 {
		res.Meta["missing"] = missing
	}
	res.Stdout = strings.Join(lines, "\n") + "\n"
	return res
}

var errStuck = errors.New("the system did not answer in time")

// begin asks a question in a goroutine of its own and returns what waits for the answer. A
// question to a file system that hangs cannot be called back: its goroutine stays until
// it is answered, and there are never more than maxStuck of them.
func begin[T any](ctx context.Context, s *sysinfo, ask func() (T, error)) func() (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	select {
	case s.asking <- struct{}{}:
		go func() {
			defer func() { <-s.asking }()
			var a answer
			defer func() {
				if cause := recover(); cause != nil {
					a.err = fmt.Errorf("failed inside: %v", cause)
				}
				answered <- a
			}()
			a.value, a.err = ask()
		}()
	default:
		answered <- answer{err: errStuck}
	}
	return func() (T, error) {
		select {
		case a := <-answered:
			return a.value, a.err
		case <-ctx.Done():
			var none T
			return none, errStuck
		}
	}
}
