package executor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"airlock/internal/action"
	"airlock/internal/sandbox"
)

// Journals keep, for each plan that runs, what is needed to go on after a crash: a folder
// a plan with the plan itself, what became of its steps, and a lock that the process
// holds that runs it. A plan that has come to its end has no journal; one on the host that
// failed keeps it, so that it can go on from there.
type Journals struct {
	Dir string
}

// A Journal is one plan's.
type Journal struct {
	ID      string
	Created time.Time
	Plan    *action.Plan
	Direct  bool
	WorkDir string
	Timeout time.Duration
	Steps   []StepResult // what is known of its steps

	// Interrupted is the step that had begun and not ended, on the host; "" is none.
	Interrupted string
	command     string // the interrupted step's

	dir  string
	lock *flock.Flock
	log  *os.File
}

// journalHeader is plan.json.
type journalHeader struct {
	Created time.Time     `json:"created"`
	Plan    *action.Plan  `json:"plan"`
	Direct  bool          `json:"direct"`
	WorkDir string        `json:"working_directory"`
	Timeout time.Duration `json:"timeout,omitempty"`
}

// journalLine is a line of steps.jsonl: a beginning or an end.
type journalLine struct {
	Started string      `json:"started,omitempty"`
	Command string      `json:"command,omitempty"`
	Ended   *StepResult `json:"ended,omitempty"`
}

const (
	journalPlan  = "plan.json"
	journalSteps = "steps.jsonl"
	journalLock  = "lock"
)

// Create begins a plan's journal.
func (js *Journals) Create(id string, req *PlanRequest) (*Journal, error) {
	j := &Journal{
		ID: id, Created: time.Now(), Plan: req.Plan, Direct: req.Direct, WorkDir: req.WorkDir, Timeout: req.Timeout,
		dir: filepath.Join(js.Dir, id),
	}
	js.prune()
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep a journal of the plan: %w", err)
	}
	header, err := json.Marshal(journalHeader{j.Created, j.Plan, j.Direct, j.WorkDir, j.Timeout})
	if err == nil {
		err = j.own()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(j.dir, journalPlan), header, 0o600)
	}
	if err == nil {
		err = j.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep a journal of the plan: %w", err), os.RemoveAll(j.dir))
	}
	return j, nil
}

// own takes the journal's lock.
func (j *Journal) own() error {
	j.lock = flock.New(filepath.Join(j.dir, journalLock), flock.SetPermissions(0o600))
	got, err := j.lock.TryLock()
	if err == nil && !got {
		err = ErrPlanRuns
	}
	if err != nil {
		_ = j.lock.Close() // it holds nothing
		j.lock = nil
	}
	return err
}

func (j *Journal) open() (err error) {
	j.log, err = os.OpenFile(filepath.Join(j.dir, journalSteps), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// What can be wrong with a plan that is to go on.
var (
	ErrPlanRuns  = errors.New("the plan is being run")
	ErrNoJournal = errors.New("there is no such interrupted plan")
)

// Bounds of what is kept for plans that nobody goes on with.
const (
	maxJournals = 50
	journalAge  = 30 * 24 * time.Hour
)

// prune removes the journals that nobody will miss: old ones, the oldest of too many, and
// those that cannot be read. What a process holds stays.
func (js *Journals) prune() {
	entries, err := os.ReadDir(js.Dir)
	if err != nil {
		return // there are none, or the next one to be made says what is wrong
	}
	var kept []*Journal
	for _, e := range entries {
		j := &Journal{ID: e.Name(), dir: filepath.Join(js.Dir, e.Name())}
		untouched := old(e) // before its lock touches it
		if !sandbox.ValidID(e.Name()) || j.own() != nil {
			continue
		}
		switch err := j.load(); {
		case err == nil && time.Since(j.Created) < journalAge:
			kept = append(kept, j)
		case err == nil, untouched:
			_ = j.Remove() // the next plan tries again
			continue
		}
		_ = j.Release()
	}
	slices.SortFunc(kept, func(a, b *Journal) int { return b.Created.Compare(a.Created) })
	for _, j := range kept[min(len(kept), maxJournals):] {
		if j.own() == nil {
			_ = j.Remove()
		}
	}
}

// old reports whether a folder has not been touched for so long that nobody is about to
// make a journal of it.
func old(e os.DirEntry) bool {
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > time.Hour
}

// Interrupted lists the plans that can go on, the latest first. Nobody runs them now.
func (js *Journals) Interrupted() ([]*Journal, error) {
	entries, err := os.ReadDir(js.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*Journal
	for _, e := range entries {
		if !sandbox.ValidID(e.Name()) {
			continue
		}
		j, err := js.Open(e.Name())
		if err != nil {
			continue
		}
		if err := j.Release(); err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *Journal) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// Open takes an interrupted plan over: nobody else can then. id may be the beginning of
// one. It is given back by running it, or by Release.
func (js *Journals) Open(id string) (*Journal, error) {
	full, err := js.resolve(id)
	if err != nil {
		return nil, err
	}
	j := &Journal{ID: full, dir: filepath.Join(js.Dir, full)}
	if err := j.own(); err != nil {
		return nil, fmt.Errorf("plan %s: %w", full, err)
	}
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("plan %s: %w", full, err), j.Release())
	}
	return j, nil
}

func (js *Journals) resolve(id string) (string, error) {
	entries, err := os.ReadDir(js.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var found []string
	for _, e := range entries {
		if sandbox.ValidID(e.Name()) && strings.HasPrefix(e.Name(), id) && id != "" {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: %q", ErrNoJournal, id)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q is the beginning of %d interrupted plans; give more of its ID", id, len(found))
}

// load reads what is there. A last line that was not written whole never happened.
func (j *Journal) load() error {
	data, err := os.ReadFile(filepath.Join(j.dir, journalPlan))
	if err != nil {
		return err
	}
	var h journalHeader
	if err := json.Unmarshal(data, &h); err != nil || h.Plan == nil {
		return errors.Join(errors.New("its journal cannot be read"), err)
	}
	j.Created, j.Plan, j.Direct, j.WorkDir, j.Timeout = h.Created, h.Plan, h.Direct, h.WorkDir, h.Timeout
	f, err := os.Open(filepath.Join(j.dir, journalSteps))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for whole := int64(0); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errors.Join(os.Truncate(f.Name(), whole), j.open())
		}
		whole += int64(len(line))
		var l journalLine
		if json.Unmarshal(line, &l) != nil {
			return errors.New("its journal cannot be read")
		}
		if l.Ended != nil {
			j.Interrupted = ""
			j.keep(*l.Ended)
			continue
		}
		j.Interrupted, j.command = l.Started, l.Command
	}
}

// keep remembers a step's last result.
func (j *Journal) keep(res StepResult) {
	for i := range j.Steps {
		if j.Steps[i].ID == res.ID {
			j.Steps[i] = res
			return
		}
	}
	j.Steps = append(j.Steps, res)
}

// done is the result of a step that need not be run again.
func (j *Journal) done(id string) *StepResult {
	for i := range j.Steps {
		if s := &j.Steps[i]; s.ID == id && s.finished() {
			return s
		}
	}
	return nil
}

func (s *StepResult) finished() bool { return s.Status == StepOK || s.Status == StepSkipped }

// Finished is how many steps need not be run again when the plan goes on: none of a plan in
// a sandbox.
func (j *Journal) Finished() int {
	n := 0
	for i := range j.Steps {
		if j.Direct && j.Steps[i].finished() {
			n++
		}
	}
	return n
}

// started notes a step's beginning. On the host it must outlast even the machine's crash:
// a step must never be taken for one that was not begun.
func (j *Journal) started(id, command string) error {
	return j.write(journalLine{Started: id, Command: command})
}

// record notes a step's end.
func (j *Journal) record(res *StepResult) error {
	short := *res
	short.Stdout, short.Stderr = clip(res.Stdout), clip(res.Stderr)
	return j.write(journalLine{Ended: &short})
}

// SkipInterrupted takes the interrupted step as done.
func (j *Journal) SkipInterrupted() error {
	res := StepResult{
		ID: j.Interrupted, ExitCode: -1, Status: StepSkipped, Attempts: 1, Command: j.command,
		Why: "it had begun when the plan was interrupted, and was taken as done",
	}
	j.Interrupted = ""
	j.keep(res)
	return j.record(&res)
}

// clip keeps of an output what a person needs to go on.
func clip(s string) string {
	const most = 4 << 10
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "\n... [output truncated]"
}

func (j *Journal) write(l journalLine) error {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = j.log.Write(append(data, '\n'))
	}
	if err == nil && j.Direct {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep a journal of the plan: %w", err)
	}
	return nil
}

// end is the plan's end: the journal goes, unless somebody may want to go on from here.
func (j *Journal) end(keep bool) error {
	var err error
	if !keep {
		err = os.RemoveAll(j.dir)
	}
	return errors.Join(err, j.Release())
}

// Release lets others take the plan over. It may be called twice.
func (j *Journal) Release() error {
	var err error
	if j.log != nil {
		err = j.log.Close()
		j.log = nil
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
		j.lock = nil
	}
	return err
}

// Remove forgets an interrupted plan that was opened.
func (j *Journal) Remove() error { return j.end(false) }
