package planner_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"airlock/internal/planner"
)

// draft streams pieces and gives the drafts that were told.
func draft(t *testing.T, pieces ...planner.Delta) []planner.Drafted {
	t.Helper()
	m := script(textOnly, turn{deltas: pieces, answer: planner.Answer{Text: "done"}})
	var all []planner.Drafted
	_, err := planner.New(m, nil).Plan(t.Context(), &planner.Ask{Verb: planner.Explain, Words: "x"}, func(p planner.Progress) {
		if d, ok := p.(planner.Drafted); ok {
			all = append(all, d)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inPieces cuts a text after every n bytes.
func inPieces(s string, n int, as func(string) planner.Delta) []planner.Delta {
	var all []planner.Delta
	for ; len(s) > n; s = s[n:] {
		all = append(all, as(s[:n]))
	}
	return append(all, as(s))
}

func asText(s string) planner.Delta { return planner.Delta{Text: s} }
func asArgs(s string) planner.Delta { return planner.Delta{Tool: "propose_action", Args: s} }

func TestAPlanIsReadWhileItComes(t *testing.T) {
	const two = `{"kind":"plan_and_commands","summary":"Say \"h\u00e9\" 😀\ud83d\ude00\n","steps":[{"id":"1","description":"a}","shell_command":"echo ]"},{"id":"2","description":"b","shell_command":"rm x","is_destructive":true,"working_directory":null}]}`
	for name, pieces := range map[string][]planner.Delta{
		"text":               {asText(two)},
		"text, byte by byte": inPieces(two, 1, asText),
		"a fence":            inPieces("```json\n"+two+"\n```\n", 3, asText),
		"prose around it":    inPieces("Here {it} is: "+two+" {\"kind\":", 2, asText),
		"arguments":          inPieces(two, 1, asArgs),
		"a name that is said once": append([]planner.Delta{{Text: "I propose {", Tool: "propose_action"}},
			inPieces(two, 5, func(s string) planner.Delta { return planner.Delta{Args: s} })...),
		"spaces":              inPieces(strings.NewReplacer(`{"`, "{ \n\t\"", `":`, `" : `).Replace(two), 4, asText),
		"another tool before": append([]planner.Delta{{Tool: "sysinfo", Args: `{"kind":"x","summary":"y"}`}}, inPieces(two, 9, asArgs)...),
	} {
		t.Run(name, func(t *testing.T) {
			all := draft(t, pieces...)
			last := all[len(all)-1]
			if last.Summary != "Say \"hé\" 😀😀\n" || last.Text != "" || len(last.Steps) != 2 || last.Steps[0].ShellCommand != "echo ]" || !last.Steps[1].IsDestructive {
				t.Errorf("the last draft: %+v", last)
			}
			steps := 0
			for _, d := range all {
				if len(d.Steps) < steps || !utf8.ValidString(d.Summary) || strings.ContainsRune(d.Summary, utf8.RuneError) {
					t.Errorf("a draft goes back, or has half a character: %+v", d)
				}
				if len(pieces) > 5 && len(d.Steps) > steps+1 {
					t.Errorf("a step was not told when it was complete: %+v", d)
				}
				steps = len(d.Steps)
			}
		})
	}
}

func TestProseIsToldAsText(t *testing.T) {
	for _, text := range []string{"It lists files.", "awk '{print $1}' prints {\"a\": 1} the first – column –", "`ls` lists\nfiles"} {
		all := draft(t, inPieces(text, 1, asText)...)
		if last := all[len(all)-1]; last.Text != text || last.Summary != "" || last.Steps != nil {
			t.Errorf("the last draft: %+v", last)
		}
	}
}

func TestDraftsAreNotToldTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 2 * time.Millisecond
		long := `{"kind":"answer_only","summary":"` + strings.Repeat("word ", 1000) + `"}`
		told := 0
		m := &slowly{model: script(textOnly), pieces: inPieces(long, 5, asText), each: each}
		began := time.Now()
		if _, err := planner.New(m, nil).Plan(t.Context(), &planner.Ask{Verb: planner.Explain, Words: "x"}, func(p planner.Progress) {
			if _, ok := p.(planner.Drafted); ok {
				told++
			}
		}); err != nil {
			t.Fatal(err)
		}
		if most := int(time.Since(began)/(50*time.Millisecond)) + 2; told > most || told < most/2 {
			t.Errorf("%d drafts in %s", told, time.Since(began))
		}
	})
}

// slowly is a model that takes its time for each piece.
type slowly struct {
	*model
	pieces []planner.Delta
	each   time.Duration
}

func (m *slowly) Answer(_ context.Context, _ *planner.Request, on func(planner.Delta)) (*planner.Answer, error) {
	for _, d := range m.pieces {
		time.Sleep(m.each)
		on(d)
	}
	return &planner.Answer{Text: "done"}, nil
}

// Whatever way a text is cut in pieces, the last draft is the same.
func FuzzDraft(f *testing.F) {
	for _, s := range append([]string{listing, `{"kind":"x","summary":"a","summary":"b`, "```json\n" + listing + "\n```", `{"summary":"\ud83d\ude00\ud83dx\u00"`, `{"kind":"x","summary":"a","summary":"b\`, `{ "steps" : [ [ {"id":1} ] , {"id":"x"} ] ] }`, "prose – {\"kin"}, hostile...) {
		f.Add(s, uint8(1), uint8(7))
		f.Add(s, uint8(23), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text string, one, two uint8) {
		var last []planner.Drafted
		for _, n := range []int{len(text) + 1, int(one) + 1, int(two) + 1} {
			for _, as := range []func(string) planner.Delta{asText, asArgs} {
				all := draft(t, inPieces(text, n, as)...)
				if len(all) == 0 {
					all = []planner.Drafted{{}}
				}
				last = append(last, all[len(all)-1])
			}
		}
		for i := 2; i < len(last); i++ {
			if !reflect.DeepEqual(last[i], last[i-2]) {
				t.Fatalf("%+v\n%+v", last[i], last[i-2])
			}
		}
	})
}
