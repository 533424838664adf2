package launch

import (
	"os"
	"strings"
	"sync"
)

// ahead is the keeper that was started before it was known what for.
var ahead = headStart(os.Args)

// A spare is at most one keeper.
type spare struct {
	mu     sync.Mutex
	keeper func() *Keeper // waits until it has been started; nil where it could not; nil itself: there is none
}

// start starts a keeper meanwhile. The start that counts says what is wrong with one.
func (s *spare) start(engine string) {
	started := make(chan *Keeper, 1)
	go func() {
		k, _ := Start(engine)
		started <- k
	}()
	s.keeper = func() *Keeper { return <-started }
}

func (s *spare) take() *Keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper == nil {
		return nil
	}
	k := s.keeper()
	s.keeper = nil
	return k
}

// headStart starts a keeper for a command line that will need one. This runs before main, and before nearly all
// packages' own variables are set: it must stay small, and import little.
func headStart(args []string) *spare {
	s := &spare{}
	if len(args) < 3 || args[0] != "airlock" && !strings.HasSuffix(args[0], "/airlock") || args[1] != "run" {
		return s
	}
	exe, err := os.Executable()
	if err != nil {
		return s
	}
	engine := exe[:strings.LastIndexByte(exe, '/')+1] + "airlock-engine"
	if st, err := os.Stat(engine); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
		s.start(engine)
	}
	return s
}

// Ahead starts a keeper for the next Take, unless there is one.
func Ahead(engine string) {
	ahead.mu.Lock()
	defer ahead.mu.Unlock()
	if ahead.keeper == nil {
		ahead.start(engine)
	}
}

// Take is the keeper that was started ahead, or a new one.
func Take(engine string) (*Keeper, error) {
	k := ahead.take()
	switch {
	case k == nil:
		return Start(engine)
	case k.Engine != engine || k.gone(): // it may have waited for hours, and been killed for want of memory
		k.End()
		return Start(engine)
	}
	return k, nil
}

// End ends the keeper that nobody took.
func End() {
	if k := ahead.take(); k != nil {
		k.End()
	}
}
