package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// A Numbered is an event with its place in the order of all of a bus's events.
type Numbered struct {
	Seq   uint64    // from 1, without gaps on the bus; a Dropped has the number of its Last
	Time  time.Time // when it was published
	Event Event
}

// kinds are the events by name.
var kinds = func() map[string]reflect.Type {
	m := make(map[string]reflect.Type)
	for _, e := range []Event{
		PlanStart{},
		StepStart{},
		Output{},
		StepComplete{},
		ApprovalRequested{},
		ApprovalResolved{},
		Changes{},
		PlanComplete{},
		Dropped{},
		Progress{},
		Partial{},
	} {
		m[e.Name()] = reflect.TypeOf(e)
	}
	return m
}()

// header is what comes before an event's own members.
type header struct {
	Event string    `json:"event"`
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"` // RFC 3339, UTC
}

// MarshalJSON writes one flat object: event, seq, time, and the event's own members.
func (n Numbered) MarshalJSON() ([]byte, error) {
	if n.Event == nil {
		return nil, fmt.Errorf("event %d: there is none", n.Seq)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{n.Event.Name(), n.Seq, n.Time.Round(0).UTC()}); err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", n.Seq, n.Event.Name(), err)
	}
	b.Truncate(b.Len() - len("}\n"))
	head := b.Len()
	if err := enc.Encode(n.Event); err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", n.Seq, n.Event.Name(), err)
	}
	text := b.Bytes()[:b.Len()-1]
	if bytes.Equal(text[head:], []byte("{}")) {
		return append(text[:head], '}'), nil
	}
	text[head] = ','
	return text, nil
}

// Decode reads one event as MarshalJSON writes it. The seq and time may be absent, as they
// are in the tools' specification; members that it does not know are left out. The
// event is one of this package's types, not a pointer to one.
func Decode(data []byte) (Numbered, error) {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		return Numbered{}, fmt.Errorf("decode an event: %w", err)
	}
	kind, ok := kinds[h.Event]
	if !ok {
		return Numbered{}, fmt.Errorf("decode event %d: there is no event %.40q", h.Seq, h.Event)
	}
	h.Time = h.Time.UTC()
	if y := h.Time.Year(); y < 0 || y > 9999 {
		return Numbered{}, fmt.Errorf("decode event %d (%s): its time is out of range", h.Seq, h.Event)
	}
	v := reflect.New(kind)
	if err := json.Unmarshal(data, v.Interface()); err != nil {
		return Numbered{}, fmt.Errorf("decode event %d (%s): %w", h.Seq, h.Event, err)
	}
	return Numbered{Seq: h.Seq, Time: h.Time, Event: v.Elem().Interface().(Event)}, nil
}
