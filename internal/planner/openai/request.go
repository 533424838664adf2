package openai

import (
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"airlock/internal/planner"
)

// params makes the API's request of ours, without what the endpoint is known to refuse.
func (m *Model) params(req *planner.Request, known refusals) (*openai.ChatCompletionNewParams, []option.RequestOption, error) {
	p := &openai.ChatCompletionNewParams{Model: m.model, Messages: messages(req)}
	var options []option.RequestOption
	for _, t := range req.Tools {
		var parameters shared.FunctionParameters
		if err := json.Unmarshal(t.Schema, &parameters); err != nil {
			return nil, nil, fmt.Errorf("the schema of the tool %s is no object: %w", t.Name, err)
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: parameters,
		}))
	}
	if req.MustCall && len(req.Tools) > 0 {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("required")}
	}
	if err := setFormat(p, req, known); err != nil {
		return nil, nil, err
	}
	if req.MaxTokens > 0 {
		if known.maxCompletionTokens {
			p.MaxTokens = param.NewOpt(req.MaxTokens)
		} else {
			p.MaxCompletionTokens = param.NewOpt(req.MaxTokens)
		}
	}
	if !known.stream {
		options = append(options, option.WithJSONSet("stream", true))
		if !known.streamOptions {
			p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)}
		}
	}
	if m.flavour.usageCost {
		options = append(options, option.WithJSONSet("usage", map[string]bool{"include": true}))
	}
	return p, options, nil
}

// setFormat asks for the format of the answer.
func setFormat(p *openai.ChatCompletionNewParams, req *planner.Request, known refusals) error {
	switch req.Format {
	case planner.FormatSchema:
		var schema map[string]any
		if err := json.Unmarshal(req.Schema, &schema); err != nil {
			return fmt.Errorf("the schema of the answer is no object: %w", err)
		}
		format := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: schema}
		if !known.strict {
			format.Strict = param.NewOpt(true)
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: format}
	case planner.FormatJSON:
		p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return nil
}

// messages makes the API's conversation of ours.
func messages(req *planner.Request) []openai.ChatCompletionMessageParamUnion {
	var all []openai.ChatCompletionMessageParamUnion
	if req.System != "" {
		all = append(all, openai.SystemMessage(req.System))
	}
	for _, msg := range req.Messages {
		if msg.Role == planner.Assistant {
			all = append(all, assistant(msg))
			continue
		}
		for _, r := range msg.Results {
			text := r.Text
			if r.Failed { // the API has no member for it
				text = "The tool failed: " + text
			}
			all = append(all, openai.ToolMessage(text, r.ID))
		}
		if msg.Text != "" || len(msg.Results) == 0 {
			all = append(all, openai.UserMessage(msg.Text))
		}
	}
	return all
}

// assistant makes the API's message of one that the model wrote.
func assistant(msg planner.Message) openai.ChatCompletionMessageParamUnion {
	var a openai.ChatCompletionAssistantMessageParam
	if msg.Text != "" || len(msg.Calls) == 0 {
		a.Content.OfString = param.NewOpt(msg.Text)
	}
	for _, call := range msg.Calls {
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       call.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: arguments(call.Args)},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// arguments are those of a call as servers take them back: several refuse a conversation with
// what is no object in it, even if the model itself wrote it.
func arguments(args json.RawMessage) string {
	if len(args) == 0 {
		return "{}"
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) == nil && object != nil {
		return string(args)
	}
	wrapped, _ := json.Marshal(map[string]string{"not_an_object": string(args)}) // a string always has a JSON
	return string(wrapped)
}
