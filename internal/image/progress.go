package image

import (
	"slices"
	"sync"
	"time"
)

// showEvery is how often a pull's progress is told at most.
const showEvery = 100 * time.Millisecond

// A display tells how a pull goes.
type display struct {
	tell func(Progress)

	mu   sync.Mutex // held while tell runs, so that it is called by one at a time
	now  Progress
	last time.Time
}

func newDisplay(ref string, tell func(Progress)) *display {
	return &display{tell: tell, now: Progress{Ref: ref, Layers: []LayerProgress{}}}
}

func (d *display) layers(layers []layer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range layers {
		digest := l.digest
		if digest.Hex == "" {
			digest = l.diffID
		}
		p := LayerProgress{State: Waiting, Total: l.size}
		if digest.Hex != "" {
			p.Digest = digest.String()
		}
		d.now.Layers = append(d.now.Layers, p)
	}
	d.showLocked(true)
}

// set is how it goes with a layer.
func (d *display) set(i int, state State, done int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &d.now.Layers[i]
	l.State, l.Done = state, done
	d.showLocked(false)
}

// finish tells that all is done: layers that nothing was done to are in state.
func (d *display) finish(state State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.now.Layers {
		l := &d.now.Layers[i]
		if l.State != Shared {
			l.State = state
		}
		l.Done = l.Total
	}
	d.now.Done = true
	d.showLocked(true)
}

func (d *display) showLocked(now bool) {
	if d.tell == nil || !now && time.Since(d.last) < showEvery {
		return
	}
	d.last = time.Now()
	p := d.now
	p.Layers = slices.Clone(p.Layers)
	d.tell(p)
}
