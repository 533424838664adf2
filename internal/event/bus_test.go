package event_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/event"
	"airlock/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func output(i int) event.Output {
	return event.Output{StepID: "s", Stream: "stdout", Data: fmt.Sprint(i)}
}

// drain reads what is left.
func drain(t *testing.T, sub *event.Subscription) []event.Numbered {
	t.Helper()
	var list []event.Numbered
	for {
		n, err := sub.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		list = append(list, n)
	}
}

// brief is events as "seq name" each.
func brief(list []event.Numbered) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprintf("%d %s", n.Seq, n.Event.Name())
		if d, ok := n.Event.(event.Dropped); ok {
			words[i] = fmt.Sprintf("%d dropped %d-%d=%d", n.Seq, d.First, d.Last, d.Count)
		}
	}
	return strings.Join(words, ", ")
}

func TestEveryReaderGetsAllInTheSameOrder(t *testing.T) {
	const publishers, each = 4, 500
	b := event.NewBus(nil)
	var subs []*event.Subscription
	for range 3 {
		subs = append(subs, b.Subscribe(publishers*each))
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				b.Publish(event.Output{StepID: fmt.Sprint(p), Data: fmt.Sprint(i)})
			}
		})
	}
	lists := make([][]event.Numbered, len(subs))
	for i, sub := range subs {
		wg.Go(func() {
			for range publishers * each {
				n, err := sub.Next(t.Context())
				if err != nil {
					t.Errorf("Next: %v", err)
					return
				}
				lists[i] = append(lists[i], n)
			}
		})
	}
	wg.Wait()
	b.Close()
	next := make(map[string]int)
	for i, n := range lists[0] {
		o := n.Event.(event.Output)
		if n.Seq != uint64(i+1) || o.Data != fmt.Sprint(next[o.StepID]) {
			t.Fatalf("event %d is %+v; publisher %s's next is %d", i+1, n, o.StepID, next[o.StepID])
		}
		if i > 0 && n.Time.Before(lists[0][i-1].Time) {
			t.Errorf("event %d is earlier than the one before", n.Seq)
		}
		next[o.StepID]++
	}
	for _, list := range lists[1:] {
		if !reflect.DeepEqual(list, lists[0]) {
			t.Error("two readers got different events")
		}
	}
}

func TestASlowReader(t *testing.T) {
	step := event.StepComplete{StepID: "s"}
	for _, tt := range []struct {
		name  string
		count int
		bytes int
		send  func(b *event.Bus)
		want  string
	}{
		{
			"misses the oldest output, and is told which", 3, 0,
			func(b *event.Bus) { publish(b, output(1), output(2), output(3), output(4), output(5)) },
			"2 dropped 1-2=2, 3 output, 4 output, 5 output",
		},
		{
			"does not miss an end", 3, 0,
			func(b *event.Bus) {
				publish(b, output(1), step, output(3), event.PlanComplete{}, output(5), output(6), event.Changes{})
			},
			"1 dropped 1-1=1, 2 step_complete, 3 dropped 3-3=1, 4 plan_complete, 6 dropped 5-6=2, 7 changes",
		},
		{
			"is told of output at the end too", 2, 0,
			func(b *event.Bus) { publish(b, step, event.PlanComplete{}, output(3)) },
			"1 step_complete, 2 plan_complete, 3 dropped 3-3=1",
		},
		{
			"misses the oldest end where there is nothing else to miss", 2, 0,
			func(b *event.Bus) { publish(b, step, step, step, event.PlanComplete{}) },
			"2 dropped 1-2=2, 3 step_complete, 4 plan_complete",
		},
		{
			"misses what is too long", 100, 2000,
			func(b *event.Bus) {
				publish(b, step, event.Output{Data: strings.Repeat("x", 1000)}, event.Output{Data: strings.Repeat("y", 1000)}, step)
			},
			"1 step_complete, 2 dropped 2-2=1, 3 output, 4 step_complete",
		},
		{
			"does not miss the newest, however long it is", 100, 2000,
			func(b *event.Bus) {
				publish(b, output(1), step, event.ApprovalRequested{Command: strings.Repeat("x", 5000)})
			},
			"2 dropped 1-2=2, 3 approval_requested",
		},
		{
			"misses output that alone is too long", 100, 2000,
			func(b *event.Bus) { publish(b, event.Output{Data: strings.Repeat("x", 5000)}, step) },
			"1 dropped 1-1=1, 2 step_complete",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := event.NewBus(&event.Options{MaxBytes: tt.bytes})
			sub := b.Subscribe(tt.count)
			tt.send(b)
			b.Close()
			if got := brief(drain(t, sub)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func publish(b *event.Bus, events ...event.Event) {
	for _, e := range events {
		b.Publish(e)
	}
}

func TestAHundredThousandEventsWaitForNobody(t *testing.T) {
	const count, end = 100_000, 100
	b := event.NewBus(nil)
	asleep, awake := b.Subscribe(200), b.Subscribe(50)
	var got []event.Numbered
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			n, err := awake.Next(t.Context())
			if err != nil {
				return
			}
			got = append(got, n)
		}
	})
	start := time.Now()
	for i := range count { // which would not end if it waited for the one who sleeps
		if i%(count/end) == 0 {
			b.Publish(event.StepComplete{StepID: fmt.Sprint(i)})
			continue
		}
		b.Publish(output(i))
	}
	took := time.Since(start)
	b.Close()
	wg.Wait()
	t.Logf("%d events in %v", count, took)
	complete(t, "one who sleeps", drain(t, asleep), count, end)
	complete(t, "one who reads", got, count, 0)
}

// complete checks that nothing is missing without a Dropped that says so, and that there
// are at least so many step_complete.
func complete(t *testing.T, who string, list []event.Numbered, count uint64, ends int) {
	t.Helper()
	last, seen := uint64(0), 0
	for _, n := range list {
		first := n.Seq
		switch e := n.Event.(type) {
		case event.Dropped:
			first = e.First
			if e.Count != e.Last-e.First+1 || e.Last != n.Seq {
				t.Errorf("%s: event %d is %+v", who, n.Seq, e)
			}
		case event.StepComplete:
			seen++
		}
		if first != last+1 {
			t.Fatalf("%s: %d (%s) comes after %d", who, n.Seq, n.Event.Name(), last)
		}
		last = n.Seq
	}
	if last != count || seen < ends {
		t.Errorf("%s: the last is %d, with %d ends; want %d, %d", who, last, seen, count, ends)
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.NewBus(nil)
		sub := b.Subscribe(0)
		got := make(chan string, 1)
		go func() {
			n, err := sub.Next(t.Context())
			got <- fmt.Sprint(n.Seq, err)
		}()
		synctest.Wait()
		select {
		case s := <-got:
			t.Fatalf("Next did not wait: %s", s)
		default:
		}
		b.Publish(output(1))
		if s := <-got; s != "1 <nil>" {
			t.Errorf("Next: %s", s)
		}

		b.Close()
	})
}

func TestNextWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.NewBus(nil)
		sub := b.Subscribe(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: err = %v", err)
		}
		b.Publish(output(1))
		if _, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next with an event and a context that is done: err = %v", err)
		}
		if n, err := sub.Next(t.Context()); err != nil || n.Seq != 1 {
			t.Errorf("Next: %+v, %v: the event is lost", n, err)
		}
	})
}

func TestCloseWakesWhoWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(b *event.Bus, sub *event.Subscription) error
	}{
		{"the bus's", func(b *event.Bus, _ *event.Subscription) error { return b.Close() }},
		{"the subscription's", func(_ *event.Bus, sub *event.Subscription) error { return sub.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := event.NewBus(nil)
				sub := b.Subscribe(0)
				got := make(chan error, 1)
				go func() {
					_, err := sub.Next(t.Context())
					got <- err
				}()
				synctest.Wait()
				for range 2 {
					if err := tt.close(b, sub); err != nil {
						t.Errorf("Close: %v", err)
					}
				}
				if err := <-got; !errors.Is(err, io.EOF) {
					t.Errorf("Next: err = %v, want io.EOF", err)
				}
				b.Publish(output(1)) // nobody is there, or it is too late
				if _, err := sub.Next(t.Context()); !errors.Is(err, io.EOF) {
					t.Errorf("Next after the end: err = %v, want io.EOF", err)
				}
			})
		})
	}
}

func TestASubscriptionThatIsClosedForgets(t *testing.T) {
	b := event.NewBus(nil)
	sub, other := b.Subscribe(2), b.Subscribe(2)
	publish(b, output(1), output(2), output(3))
	sub.Close()
	if list := drain(t, sub); len(list) > 0 {
		t.Errorf("after Close there are %s", brief(list))
	}
	b.Close()
	if got := brief(drain(t, other)); got != "1 dropped 1-1=1, 2 output, 3 output" {
		t.Errorf("the other has %s", got)
	}
}

func TestWhoComesLaterStartsThere(t *testing.T) {
	b := event.NewBus(nil)
	publish(b, output(1), output(2))
	sub := b.Subscribe(0)
	publish(b, output(3))
	b.Close()
	if got := brief(drain(t, sub)); got != "3 output" {
		t.Errorf("got %s", got)
	}
	if got := drain(t, b.Subscribe(0)); len(got) > 0 {
		t.Errorf("after Close there are %s", brief(got))
	}
}

func TestNoBusIsASilentSink(t *testing.T) {
	var b *event.Bus
	var sink event.Sink = b
	sink.Publish(output(1))
	sub := b.Subscribe(0)
	if list := drain(t, sub); len(list) > 0 {
		t.Errorf("a bus that is none had %s", brief(list))
	}
	if err := errors.Join(sub.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

func TestPublishKeepsNoReference(t *testing.T) {
	b := event.NewBus(nil)
	sub := b.Subscribe(0)
	o := output(1)
	b.Publish(&o)
	o.Data = "changed"
	b.Publish(nil)
	b.Publish((*event.Output)(nil))
	b.Close()
	list := drain(t, sub)
	if len(list) != 1 || list[0].Event != event.Event(output(1)) {
		t.Errorf("got %+v", list)
	}
}

func TestWriteLines(t *testing.T) {
	b := event.NewBus(nil)
	sub := b.Subscribe(0)
	publish(b, all[:8]...)
	b.Close()
	var w lineWriter
	if err := event.WriteLines(t.Context(), &w, sub); err != nil {
		t.Fatalf("WriteLines: %v", err)
	}
	if len(w) != 8 {
		t.Fatalf("%d writes, want 8", len(w))
	}
	for i, line := range w {
		n, err := event.Decode([]byte(line))
		if err != nil || n.Seq != uint64(i+1) || n.Event != all[i] {
			t.Errorf("line %d: %+v, %v", i, n, err)
		}
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Errorf("%q is not a line", line)
		}
	}

	t.Run("says what the writer said", func(t *testing.T) {
		b := event.NewBus(nil)
		sub := b.Subscribe(0)
		defer b.Close()
		b.Publish(output(1))
		r, w := io.Pipe()
		r.Close()
		if err := event.WriteLines(t.Context(), w, sub); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("WriteLines: err = %v, want %v", err, io.ErrClosedPipe)
		}
	})
	t.Run("ends with its context", func(t *testing.T) {
		b := event.NewBus(nil)
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := event.WriteLines(ctx, io.Discard, b.Subscribe(0)); !errors.Is(err, context.Canceled) {
			t.Errorf("WriteLines: err = %v, want %v", err, context.Canceled)
		}
	})
}

// A lineWriter keeps each Write apart.
type lineWriter []string

func (w *lineWriter) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// A collector keeps what is published.
type collector struct {
	t    *testing.T
	text bytes.Buffer
	n    int
}

func (c *collector) Publish(e event.Event) {
	o, ok := e.(event.Output)
	if !ok || o.StepID != "s" || o.Stream != "stderr" || o.Data == "" || len(o.Data) > event.MaxData {
		c.t.Errorf("published %T of %d bytes: %.40v", e, len(o.Data), e)
	}
	if strings.ToValidUTF8(o.Data, "") != o.Data {
		c.t.Errorf("published %q", o.Data)
	}
	c.text.WriteString(o.Data)
	c.n++
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		writes []string
		want   string
		events int // before Close
	}{
		{"text goes at once", []string{"a", "b\n"}, "ab\n", 2},
		{"nothing is no event", []string{"", "a", ""}, "a", 1},
		{"a character in four pieces", []string{"\xf0", "\x9f", "\x98", "\x80x"}, "😀x", 1},
		{"a character that does not end", []string{"a\xf0\x9f"}, "a\ufffd\ufffd", 1},
		{"a character that goes on wrongly", []string{"\xf0\x9f", "a"}, "\ufffd\ufffda", 1},
		{"bytes that are no text", []string{"\xff\xfe\x80"}, "\ufffd\ufffd\ufffd", 1},
		{"half a surrogate pair, encoded", []string{"\xed\xa0\x80"}, "\ufffd\ufffd\ufffd", 1},
		{"long text", []string{strings.Repeat("x", 3*event.MaxData)}, strings.Repeat("x", 3*event.MaxData), 3},
		{"long text of characters that do not fit evenly", []string{strings.Repeat("€", event.MaxData)}, strings.Repeat("€", event.MaxData), 4},
		{"bytes that grow when they are replaced", []string{strings.Repeat("\xff", event.MaxData)}, strings.Repeat("\ufffd", event.MaxData), 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{t: t}
			s := event.Split(c, "s", "stderr")
			for _, w := range tt.writes {
				p := []byte(w)
				if n, err := s.Write(p); n != len(w) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
				for i := range p {
					p[i] = '!' // the writer's buffer is the writer's again
				}
			}
			if c.n != tt.events {
				t.Errorf("%d events before Close, want %d", c.n, tt.events)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if got := c.text.String(); got != tt.want {
				t.Errorf("got %.60q, want %.60q", got, tt.want)
			}
			if _, err := s.Write([]byte("a")); err == nil {
				t.Error("Write after Close succeeded")
			}
		})
	}
	t.Run("no sink takes nothing", func(t *testing.T) {
		s := event.Split(nil, "s", "stderr")
		if n, err := s.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		s.Close()
	})
}

// However it is cut, the text is what the whole would have been.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a€😀\xff\xf0\x9f"), uint(1))
	f.Add([]byte("\xed\xa0\x80\xe2\x82"), uint(2))
	f.Fuzz(func(t *testing.T, data []byte, size uint) {
		c := &collector{t: t}
		s := event.Split(c, "s", "stderr")
		for rest := data; len(rest) > 0; {
			n := min(int(size%64)+1, len(rest))
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		s.Close()
		if got, want := c.text.String(), string([]rune(string(data))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
