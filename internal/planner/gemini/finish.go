package gemini

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// finish makes of all that came an answer or an error.
func (g *gathered) finish(ctx context.Context, url string, w *endpoint.Watched, reply *reply, err error) (*planner.Answer, error) {
	isWhole := g.reason != "" || g.blocked != ""
	switch {
	case reply.reported != nil:
		return nil, known(w.Reported(url, http.StatusOK, reply.reported))
	case reply.garbled != "":
		return nil, w.Fault(url, planner.FaultGarbled, reply.garbled)
	case w.Seen() != nil:
		return nil, known(w.Error(url, w.Seen()))
	case err != nil:
		return nil, explained(url, w, err)
	case !isWhole && ctx.Err() != nil:
		return nil, w.Error(url, ctx.Err())
	case !isWhole && !g.isAPI:
		return nil, w.Fault(url, planner.FaultGarbled, "what came is not the API's: check base_url")
	case !isWhole:
		return nil, w.Fault(url, planner.FaultCut, "the answer ended before the model had finished")
	}
	answer := &planner.Answer{
		Text: g.text.String(), Calls: g.calls, Stop: planner.StopEnd,
		Usage: g.usage, Model: g.model, Opaque: keep(g.parts),
	}
	if g.blocked != "" {
		return refused(answer, string(g.blocked), g.message), nil
	}
	switch g.reason {
	case genai.FinishReasonStop:
		if len(g.calls) > 0 {
			answer.Stop = planner.StopTools
		}
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation: // the latter is longer than one request can be
		answer.Stop = planner.StopLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonLanguage, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return refused(answer, string(g.reason), g.message), nil
	default:
		return nil, g.failed(url, w)
	}
	return answer, nil
}

// known tells what Gemini means where its status, INVALID_ARGUMENT, hides it.
func known(e *planner.Error) *planner.Error {
	if e.Fault == planner.FaultRejected && strings.Contains(strings.ToLower(e.Text), "function calling is not enabled") {
		e.Fault, e.Feature, e.Mend = planner.FaultUnsupported, planner.FeatureTools, "take a model that has it"
	}
	return e
}

// explained is the error of what genai says is wrong. Its text may hold the whole answer, so
// it is not shown.
func explained(url string, w *endpoint.Watched, err error) *planner.Error {
	e := w.Error(url, err)
	if e.Fault == planner.FaultGarbled {
		e.Text, e.Err = errShape{}.Error(), nil
	}
	return e
}

// refused is an answer that a filter or the model kept back. Its calls are not made; where
// it has no text, it says why.
func refused(answer *planner.Answer, reason, message string) *planner.Answer {
	answer.Stop, answer.Calls, answer.Opaque = planner.StopRefused, nil, nil
	if answer.Text == "" {
		answer.Text = "Gemini would not answer (" + reason + ")"
		if message != "" {
			answer.Text += ": " + message
		}
	}
	return answer
}

// failed is the error of an answer that ended in a way which gives no answer. What the
// model wrote wrongly, it may write rightly when it is asked again.
func (g *gathered) failed(url string, w *endpoint.Watched) *planner.Error {
	fault, text := planner.FaultServer, "the answer ended with "+string(g.reason)
	switch g.reason {
	case genai.FinishReasonMalformedFunctionCall:
		fault, text = planner.FaultGarbled, "the model wrote a call of a tool that cannot be read"
	case genai.FinishReasonUnexpectedToolCall:
		fault, text = planner.FaultGarbled, "the model called a tool where it was offered none"
	}
	if g.message != "" {
		text += ": " + g.message
	}
	e := w.Fault(url, fault, text)
	e.Again = true
	return e
}
