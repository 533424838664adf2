package planner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/anthropic"
	"airlock/internal/planner/gemini"
	"airlock/internal/planner/modeltest"
	"airlock/internal/planner/openai"
	"airlock/internal/tool"
)

// providers are the ones there are, each before a server that refuses what the real one would.
var providers = map[string]func(t *testing.T, s *modeltest.Script) (planner.Model, error){
	"openai": func(t *testing.T, s *modeltest.Script) (planner.Model, error) {
		return openai.New(&openai.Options{Provider: "openai", Model: "m", BaseURL: modeltest.OpenAI(t, s), Key: modeltest.Key})
	},
	"ollama": func(t *testing.T, s *modeltest.Script) (planner.Model, error) {
		return openai.New(&openai.Options{Provider: "ollama", Model: "m", BaseURL: modeltest.OpenAI(t, s), NoKey: true, Local: true})
	},
	"anthropic": func(t *testing.T, s *modeltest.Script) (planner.Model, error) {
		return anthropic.New(&anthropic.Options{Model: "m", BaseURL: modeltest.Anthropic(t, s), Key: modeltest.Key})
	},
	"gemini 2": func(t *testing.T, s *modeltest.Script) (planner.Model, error) {
		return gemini.New(&gemini.Options{Model: "gemini-2.5-flash", BaseURL: modeltest.Gemini(t, s), Key: modeltest.Key})
	},
	"gemini 3": func(t *testing.T, s *modeltest.Script) (planner.Model, error) {
		return gemini.New(&gemini.Options{Model: "gemini-3-pro-preview", BaseURL: modeltest.Gemini(t, s), Key: modeltest.Key})
	},
}

func uses(pairs ...string) modeltest.Turn {
	turn := modeltest.Turn{Thinking: "Let me look."}
	for i := 0; i < len(pairs); i += 2 {
		id := fmt.Sprintf("call_%s_%d_%d", pairs[0], len(pairs[1]), i) // no other in its conversation
		turn.Calls = append(turn.Calls, planner.ToolCall{ID: id, Name: pairs[i], Args: json.RawMessage(pairs[i+1])})
	}
	return turn
}

// Every conversation that a Planner can come to is one that the APIs take.
func TestEachAPITakesTheConversation(t *testing.T) {
	said := func(text string) modeltest.Turn {
		return modeltest.Turn{Text: text, Usage: planner.Usage{Input: 7, Output: 3}}
	}
	for provider, connect := range providers {
		for name, turns := range map[string][]modeltest.Turn{
			"a plan":                     {said(listing)},
			"tools, then a plan":         {uses("fs_read_file", `{"path":"a"}`, "sysinfo", `{}`), uses("services", `{}`), said(listing)},
			"a plan that is mended":      {uses("sysinfo", `{}`), said("I would list them."), said(listing)},
			"nothing, then a plan":       {said(""), said(listing)},
			"a proposal":                 {uses("propose_action", listing)},
			"a proposal that is mended":  {uses("propose_action", `{"kind":"x"}`), uses("propose_action", listing)},
			"a proposal beside a tool":   {uses("propose_action", listing, "sysinfo", `{}`), uses("propose_action", listing)},
			"tools that there are not":   {uses("cmd_run", `{"command":"id"}`), said(listing)},
			"tools until the last round": {uses("sysinfo", `{}`), uses("services", `{}`), uses("packages", `{}`), said("prose"), said(listing)},
		} {
			t.Run(provider+", "+name, func(t *testing.T) {
				s := &modeltest.Script{Turns: append(turns, said(`{"kind":"answer_only","summary":"It lists files."}`))}
				m, err := connect(t, s)
				if err != nil {
					t.Fatal(err)
				}
				b := box()
				b.give = func(context.Context, tool.Call) (tool.Result, error) {
					return tool.Result{OK: true, Stdout: strings.Repeat("given\n", 100)}, nil
				}
				p := planner.New(m, &planner.Options{Tools: b, Limits: planner.Limits{Rounds: 3}})
				out, seen, err := plan(t, p, run)
				if err != nil {
					t.Fatal(err)
				}
				if len(out.Plan.Steps) != 1 || out.Plan.Steps[0].ShellCommand != "ls -l" {
					t.Fatalf("Plan: %+v", out.Plan)
				}
				if drafts := of[planner.Drafted](seen); len(drafts) == 0 || len(drafts[len(drafts)-1].Steps) != 1 {
					t.Errorf("drafts: %+v", drafts)
				}
				next, _, err := plan(t, p, &planner.Ask{Verb: planner.Explain, Words: "what is that?", Earlier: out.Messages})
				if err != nil || next.Plan.Summary != "It lists files." {
					t.Errorf("the next ask: %+v, %v", next.Plan, err)
				}
			})
		}
	}
}
