package gemini_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

func TestErrorsOfTheAPIAreTold(t *testing.T) {
	const invalidKey = `{
  "error": {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT",
    "details": [
      {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"}},
      {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US", "message": "API key not valid. Please pass a valid API key."}
    ]
  }
}`
	const exhausted = `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 37s.","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaValue":"10"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`
	tests := map[string]struct {
		status  int
		body    string
		fault   planner.Fault
		feature planner.Feature
		again   bool
		after   time.Duration
	}{
		"a wrong key is a 400":             {400, invalidKey, planner.FaultKey, "", false, 0},
		"no right":                         {403, `{"error":{"code":403,"message":"Your project has been denied access.","status":"PERMISSION_DENIED"}}`, planner.FaultKey, "", false, 0},
		"no key that counts":               {403, `{"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}`, planner.FaultKey, "", false, 0},
		"too many requests":                {429, exhausted, planner.FaultBusy, "", true, 37 * time.Second},
		"in a list":                        {429, "[" + exhausted + "]", planner.FaultBusy, "", true, 37 * time.Second},
		"overloaded":                       {503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, planner.FaultBusy, "", true, 0},
		"no such model":                    {404, `{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.","status":"NOT_FOUND"}}`, planner.FaultNotFound, "", false, 0},
		"too long":                         {400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, planner.FaultTooLong, "", false, 0},
		"a failure":                        {500, `{"error":{"code":500,"message":"An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting","status":"INTERNAL"}}`, planner.FaultServer, "", true, 0},
		"no time":                          {504, `{"error":{"code":504,"message":"The request timed out. Please try again.","status":"DEADLINE_EXCEEDED"}}`, planner.FaultServer, "", true, 0},
		"another country":                  {400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, planner.FaultRejected, "", false, 0},
		"tools beside a schema":            {400, `{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureSchema, false, 0},
		"tools beside a schema, otherwise": {400, `{"error":{"code":400,"message":"Tool use with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureSchema, false, 0},
		"no JSON":                          {400, `{"error":{"code":400,"message":"JSON mode is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureSchema, false, 0},
		"no functions":                     {400, `{"error":{"code":400,"message":"Function calling is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}`, planner.FaultUnsupported, planner.FeatureTools, false, 0},
	}
	for name, tt := range tests {
		req := ask("hello")
		req.Format, req.Schema = planner.FormatSchema, []byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)
		check := func(t *testing.T, turn modeltest.Turn) {
			e := fault(t, model(t, newModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{turn}}), nil), req)
			if e.Fault != tt.fault || e.Feature != tt.feature || e.Again != tt.again || e.RetryAfter != tt.after || e.Status != tt.status {
				t.Errorf("the error is %+v, want %+v", e, tt)
			}
			if !strings.HasSuffix(e.Endpoint, "/v1beta") {
				t.Errorf("Endpoint = %q", e.Endpoint)
			}
		}
		t.Run(name, func(t *testing.T) { check(t, modeltest.Turn{Status: tt.status, Body: tt.body}) })
		t.Run(name+", with a good status", func(t *testing.T) { check(t, modeltest.Turn{Raw: true, Body: tt.body}) })
		t.Run(name+", in the stream", func(t *testing.T) {
			line := strings.ReplaceAll(tt.body, "\n", "")
			check(t, modeltest.Turn{Raw: true, Body: `data: {"candidates":[{"content":{"parts":[{"text":"so far"}]}}]}` + "\r\n\r\ndata: " + line + "\r\n\r\n"})
		})
	}
}

func TestWhatIsNotTheAPIsIsGarbled(t *testing.T) {
	const good = `data: {"candidates":[{"content":{"parts":[{"text":"so far"}]}}]}` + "\r\n\r\n"
	tests := map[string]struct {
		body string
		want planner.Fault
	}{
		"a web page":                       {"<!DOCTYPE html><html><title>Log in</title></html>", planner.FaultGarbled},
		"a text":                           {"hello", planner.FaultGarbled},
		"nothing":                          {"", planner.FaultGarbled},
		"an empty object":                  {"{}", planner.FaultGarbled},
		"an empty list":                    {"[]", planner.FaultGarbled},
		"a number in a stream":             {good + "data: 7\n\n", planner.FaultGarbled},
		"a text in a stream":               {good + "data: \x1b[2Jhello\n\n", planner.FaultGarbled},
		"half an object in a stream":       {good + "data: {\"a\n\n", planner.FaultGarbled},
		"half an object at the end":        {good + "data: {\"a", planner.FaultCut},
		"nothing after the start":          {good, planner.FaultCut},
		"candidates that are no list":      {"data: {\"candidates\":7}\n\n", planner.FaultGarbled},
		"a candidate that is none":         {"data: {\"candidates\":[null]}\n\n", planner.FaultGarbled},
		"a candidate that is a text":       {"data: {\"candidates\":[\"a\"]}\n\n", planner.FaultGarbled},
		"content that is a number":         {"data: {\"candidates\":[{\"content\":7}]}\n\n", planner.FaultGarbled},
		"citations that are a number":      {"data: {\"candidates\":[{\"citationMetadata\":7}]}\n\n", planner.FaultGarbled},
		"a part that is none":              {"data: {\"candidates\":[{\"content\":{\"parts\":[null]}}]}\n\n", planner.FaultCut},
		"arguments that are a list":        {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"a\",\"args\":[]}}]}}]}\n\n", planner.FaultGarbled},
		"a signature that is none":         {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thoughtSignature\":\"!\"}]}}]}\n\n", planner.FaultGarbled},
		"a count that is too large":        {"data: {\"usageMetadata\":{\"promptTokenCount\":1e300}}\n\n", planner.FaultGarbled},
		"another candidate's end":          {good + "data: {\"candidates\":[{\"index\":1,\"finishReason\":\"STOP\"}]}\n\n", planner.FaultCut},
		"another API's stream":             {"data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\ndata: [DONE]\n\n", planner.FaultGarbled},
		"an object that is nested a lot":   {"data: " + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + "\n\n", planner.FaultGarbled},
		"a stream of empty events":         {good + strings.Repeat("\n", 10000), planner.FaultCut},
		"a stream of objects with nothing": {good + strings.Repeat("data: {}\n\n", 1000), planner.FaultCut},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Raw: true, Body: tt.body}}}), nil)
			e := fault(t, m, ask("hello"))
			if e.Fault != tt.want {
				t.Errorf("the fault is %q (%s), want %q", e.Fault, e.Text, tt.want)
			}
			if len(e.Error()) > 1000 || strings.ContainsAny(e.Error(), "\x1b\n\r") {
				t.Errorf("the error is not fit to be shown: %q", e.Error())
			}
		})
	}
}

func TestAKeyThatTheEndpointRepeatsIsInNoError(t *testing.T) {
	for name, turn := range map[string]modeltest.Turn{
		"in an error":            {Status: 400, Body: `{"error":{"code":400,"message":"bad key ` + key + `","status":"INVALID_ARGUMENT"}}`},
		"in a header":            {Status: 302, Header: http.Header{"Location": {"https://elsewhere/?key=" + key}}},
		"in a stream's error":    {Raw: true, Body: `data: {"error":{"code":400,"message":"bad key ` + key + `"}}` + "\n\n"},
		"in what is no JSON":     {Raw: true, Body: "data: the key is " + key + "\n\n"},
		"in a reason":            {Raw: true, Body: `data: {"candidates":[{"finishReason":"` + key + `"}]}` + "\n\n"},
		"in a message":           {Raw: true, Body: `data: {"candidates":[{"finishReason":"OTHER","finishMessage":"` + key + `"}]}` + "\n\n"},
		"in a page":              {Raw: true, Body: "<html><title>" + key + "</title>"},
		"in a member of a shape": {Raw: true, Body: `data: {"candidates":[{"content":"` + key + `"}]}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e := fault(t, model(t, oldModel, modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{turn}}), nil), ask("hello"))
			if raw, err := json.Marshal(e); err != nil || strings.Contains(string(raw), key) {
				t.Errorf("the key is in the error's members (%v)", err)
			}
		})
	}
}
