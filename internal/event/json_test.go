package event_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"airlock/internal/event"
)

var when = time.Date(2026, 11, 20, 17, 20, 0, 5e8, time.FixedZone("CET", 3600))

// all is an event of each kind, with every member set.
var all = []event.Event{
	event.PlanStart{PlanID: "p", Kind: "answer_only", Summary: "s", Steps: 1, Where: "host"},
	event.StepStart{StepID: "a", Index: 1, Description: "d", Command: "a <b >c && d", WorkDir: "/w", Risk: "unknown", Verdict: "ask", Rule: "r", Attempt: 2},
	event.Output{StepID: "step1", Stream: "stdout", Data: "Installing package..."},
	event.StepComplete{StepID: "a", ExitCode: 126, DurationMS: 5, Status: "refused"},
	event.ApprovalRequested{ApprovalID: "1", StepID: "a", Digest: "sha256:0", Command: "c", Risk: "r", Rule: "u", Why: "w", ExpiresAt: "2026-01-01T00:00:00Z"},
	event.ApprovalResolved{ApprovalID: "1", StepID: "a", Approved: true, By: "terminal", Reason: "r"},
	event.Changes{ID: "c", Work: 1, Outside: 2, Noise: 3, State: "kept"},
	event.PlanComplete{Success: true, StepsExecuted: 4, TotalDurationMS: 5000},
	event.Dropped{Count: 2, First: 3, Last: 4},
}

func TestNumberedIsOneFlatObject(t *testing.T) {
	for _, tt := range []struct {
		e    event.Event
		want string
	}{
		{all[1], `{"event":"step_start","seq":7,"time":"2026-11-20T16:20:00.5Z","step_id":"a","index":1,"description":"d","command":"a <b >c && d","working_directory":"/w","risk":"unknown","verdict":"ask","rule":"r","attempt":2}`},
		{all[2], `{"event":"output","seq":7,"time":"2026-11-20T16:20:00.5Z","step_id":"step1","stream":"stdout","data":"Installing package..."}`},
		{all[7], `{"event":"plan_complete","seq":7,"time":"2026-11-20T16:20:00.5Z","success":true,"steps_executed":4,"total_duration_ms":5000}`},
		{event.Output{Data: "\x1b[2J\x00\n\u2028</script>"}, `{"event":"output","seq":7,"time":"2026-11-20T16:20:00.5Z","step_id":"","stream":"","data":"\u001b[2J\u0000\n\u2028</script>"}`},
	} {
		got, err := event.Numbered{Seq: 7, Time: when, Event: tt.e}.MarshalJSON()
		if err != nil || string(got) != tt.want {
			t.Errorf("MarshalJSON = %s, %v; want %s", got, err, tt.want)
		}
		if strings.ContainsAny(string(got), "\n\x1b\x00") {
			t.Errorf("%q is not one line of printable text", got)
		}
	}
	if _, err := (event.Numbered{Seq: 1}).MarshalJSON(); err == nil {
		t.Error("MarshalJSON made something of no event")
	}
}

func TestDecodeIsTheWayBack(t *testing.T) {
	for _, e := range all {
		want := event.Numbered{Seq: 1<<64 - 1, Time: when.UTC(), Event: e}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := event.Decode(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", data, got, err, want)
		}
	}
}

func TestNoEventHasAMemberOfTheHeader(t *testing.T) {
	for _, e := range all {
		for f := range reflect.TypeOf(e).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "event" || name == "seq" || name == "time" {
				t.Errorf("%T has a member %q", e, name)
			}
		}
	}
}

// The specification's own examples: these members, and in this order.
func TestDecodeTakesTheSpecificationsExamples(t *testing.T) {
	for _, tt := range []struct {
		text string
		want event.Event
	}{
		{`{"event": "output", "step_id": "step1", "stream": "stdout", "data": "Installing package..."}`, all[2]},
		{`{"event": "step_complete", "step_id": "step1", "exit_code": 0, "duration_ms": 1500}`, event.StepComplete{StepID: "step1", DurationMS: 1500}},
		{`{"event": "plan_complete", "success": true, "steps_executed": 4, "total_duration_ms": 5000}`, all[7]},
	} {
		got, err := event.Decode([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got.Event, tt.want) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", tt.text, got.Event, err, tt.want)
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(tt.text), &members); err != nil {
			t.Fatal(err)
		}
		written, err := got.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again map[string]any
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatal(err)
		}
		for name, v := range members {
			if again[name] != v {
				t.Errorf("%s: %s = %v, want %v", written, name, again[name], v)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", ``, "unexpected end"},
		{"a list", `[]`, "cannot unmarshal"},
		{"no event", `{}`, `no event ""`},
		{"null", `null`, `no event ""`},
		{"an event that there is not", `{"event":"` + strings.Repeat("x", 500) + `","seq":3}`, "decode event 3: there is no event"},
		{"two", `{"event":"dropped"}{"event":"dropped"}`, "after top-level value"},
		{"a negative number", `{"event":"dropped","seq":-1}`, "cannot unmarshal"},
		{"a number too large", `{"event":"dropped","seq":18446744073709551616}`, "cannot unmarshal"},
		{"a time that is none", `{"event":"dropped","time":"today"}`, "parsing time"},
		{"a time that cannot be written", `{"event":"dropped","time":"9999-12-31T23:59:59-10:00"}`, "out of range"},
		{"a member of the wrong type", `{"event":"output","data":[1]}`, "cannot unmarshal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := event.Decode([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 200 {
				t.Errorf("Decode = %+v, %v; want an error with %q", n, err, tt.want)
			}
		})
	}
}

// What docs/events.md shows is what is written, to the byte, and it shows every event.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?s)### (\\w+)\n(.*?)```json\n(.*?)\n```").FindAllSubmatch(page, -1) {
		name, text, example := string(m[1]), string(m[2]), m[3]
		n, err := event.Decode(example)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := n.MarshalJSON()
		if err != nil || string(again) != string(example) {
			t.Errorf("%s: the page shows\n%s\nwritten is, %v,\n%s", name, example, err, again)
		}
		if n.Event.Name() != name || strings.Contains(text, "###") {
			t.Errorf("the example of %s is of %s", name, n.Event.Name())
		}
		shown[name] = true
	}
	for _, e := range all {
		if !shown[e.Name()] {
			t.Errorf("docs/events.md shows no %s", e.Name())
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range all {
		data, err := event.Numbered{Seq: 1, Time: when, Event: e}.MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"event":"output","EVENT":"dropped","data":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := event.Decode(data)
		if err != nil {
			return
		}
		written, err := n.MarshalJSON()
		if err != nil || !json.Valid(written) {
			t.Fatalf("MarshalJSON(%+v) = %s, %v", n, written, err)
		}
		again, err := event.Decode(written)
		if err != nil || !reflect.DeepEqual(again, n) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", written, again, err, n)
		}
	})
}
