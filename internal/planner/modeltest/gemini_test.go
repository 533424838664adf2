package modeltest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"airlock/internal/planner"
	"airlock/internal/planner/modeltest"
)

// A geminiWitness is a test that notes that it was failed.
type geminiWitness struct {
	testing.TB
	mu    sync.Mutex
	wrong []string
}

func (w *geminiWitness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// askGemini sends a request as it stands, and gives the status and the body of the answer.
func askGemini(t *testing.T, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

func geminiHeader() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "X-Goog-Api-Key": {"AIzaSyModelTest"}}
}

func TestGeminiRefusesWhatTheAPIRefuses(t *testing.T) {
	const (
		stream = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
		signed = "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"
		hello  = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`
		call   = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
		result = `{"functionResponse":{"name":"f","response":{"output":"a"}}}`
		begin  = `{"contents":[{"role":"user","parts":[{"text":"hello"}]},`
	)
	header := func(change func(http.Header)) http.Header {
		h := geminiHeader()
		change(h)
		return h
	}
	tests := map[string]struct {
		path, body string
		header     http.Header
		want       int
	}{
		"a good one":                      {stream, hello, nil, 200},
		"a good one, whole":               {"/v1beta/models/gemini-2.5-flash:generateContent", hello, nil, 200},
		"results":                         {stream, begin + call + `,{"role":"user","parts":[` + result + `]}]}`, nil, 200},
		"no key":                          {stream, hello, header(func(h http.Header) { h.Del("X-Goog-Api-Key") }), 403},
		"a key in the URL":                {stream + "&key=AIzaSyModelTest", hello, nil, 400},
		"a key in another header":         {stream, hello, header(func(h http.Header) { h.Set("Authorization", "Bearer a") }), 400},
		"another version":                 {"/v9/models/gemini-2.5-flash:streamGenerateContent?alt=sse", hello, nil, 404},
		"another method":                  {"/v1beta/models/gemini-2.5-flash:countTokens", hello, nil, 400},
		"a stream that is none":           {"/v1beta/models/gemini-2.5-flash:streamGenerateContent", hello, nil, 400},
		"another type":                    {stream, hello, header(func(h http.Header) { h.Set("Content-Type", "text/plain") }), 400},
		"no JSON":                         {stream, `{"contents":`, nil, 400},
		"an unknown member":               {stream, `{"messages":[],` + hello[1:], nil, 400},
		"an unknown member of a part":     {stream, `{"contents":[{"role":"user","parts":[{"text":"hello","type":"text"}]}]}`, nil, 400},
		"nothing":                         {stream, `{"contents":[]}`, nil, 400},
		"no parts":                        {stream, `{"contents":[{"role":"user","parts":[]}]}`, nil, 400},
		"an empty text":                   {stream, `{"contents":[{"role":"user","parts":[{"text":""}]}]}`, nil, 400},
		"a role that is none":             {stream, `{"contents":[{"role":"assistant","parts":[{"text":"hello"}]}]}`, nil, 400},
		"two of the user's":               {stream, begin + `{"role":"user","parts":[{"text":"a"}]}]}`, nil, 400},
		"the model has the last word":     {stream, begin + `{"role":"model","parts":[{"text":"a"}]}]}`, nil, 400},
		"a result without a call":         {stream, `{"contents":[{"role":"user","parts":[` + result + `]}]}`, nil, 400},
		"a call without a result":         {stream, begin + call + `,{"role":"user","parts":[{"text":"a"}]}]}`, nil, 400},
		"a result too many":               {stream, begin + call + `,{"role":"user","parts":[` + result + `,` + result + `]}]}`, nil, 400},
		"another function's result":       {stream, begin + call + `,{"role":"user","parts":[{"functionResponse":{"name":"g","response":{"output":"a"}}}]}]}`, nil, 400},
		"a call of the user's":            {stream, `{"contents":[{"role":"user","parts":[{"functionCall":{"name":"f"}}]}]}`, nil, 400},
		"a call that is not signed":       {signed, begin + call + `,{"role":"user","parts":[` + result + `]}]}`, nil, 400},
		"a signature that is another's":   {signed, begin + strings.Replace(call, `}}]}`, `}},{"text":"a","thoughtSignature":"YQ=="}]}`, 1) + `,{"role":"user","parts":[` + result + `]}]}`, nil, 400},
		"a tool's name that is none":      {stream, `{"tools":[{"functionDeclarations":[{"name":"a b"}]}],` + hello[1:], nil, 400},
		"two tools of one name":           {stream, `{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"}]}],` + hello[1:], nil, 400},
		"a tool without members":          {stream, `{"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"object","properties":{}}}]}],` + hello[1:], nil, 400},
		"a call must be, and of nothing":  {stream, `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},` + hello[1:], nil, 400},
		"a mode that is none":             {stream, `{"toolConfig":{"functionCallingConfig":{"mode":"required"}},` + hello[1:], nil, 400},
		"a schema without its type":       {stream, `{"generationConfig":{"responseJsonSchema":{"type":"object"}},` + hello[1:], nil, 400},
		"no tokens at all":                {stream, `{"generationConfig":{"maxOutputTokens":0},` + hello[1:], nil, 400},
		"thoughts of one that has none":   {strings.Replace(stream, "2.5", "2.0", 1), `{"generationConfig":{"thinkingConfig":{"includeThoughts":true}},` + hello[1:], nil, 400},
		"a system instruction of nothing": {stream, `{"systemInstruction":{"parts":[{"text":""}]},` + hello[1:], nil, 400},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			witness := &geminiWitness{TB: t}
			url := modeltest.Gemini(witness, &modeltest.Script{Turns: []modeltest.Turn{{Text: "hello"}}})
			if tt.header == nil {
				tt.header = geminiHeader()
			}
			status, body := askGemini(t, url+tt.path, tt.body, tt.header)
			if status != tt.want {
				t.Fatalf("the status is %d, want %d: %s", status, tt.want, body)
			}
			if isWrong := len(witness.wrong) > 0; isWrong != (status != 200) {
				t.Errorf("the test was failed: %q", witness.wrong)
			}
			if status != 200 && !strings.Contains(body, fmt.Sprintf(`"code": %d`, status)) {
				t.Errorf("the error is not the API's: %s", body)
			}
		})
	}
}

func TestGeminiTellsOfToolsBesideAFormatWithoutFailingTheTest(t *testing.T) {
	url := modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{{Text: "{}"}}})
	body := `{"tools":[{"functionDeclarations":[{"name":"a"}]}],"generationConfig":{"responseMimeType":"application/json"},"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`
	if status, _ := askGemini(t, url+"/v1beta/models/gemini-2.5-flash:generateContent", body, geminiHeader()); status != 400 {
		t.Errorf("an older model's status is %d, want 400", status)
	}
	if status, _ := askGemini(t, url+"/v1beta/models/gemini-3-pro-preview:generateContent", body, geminiHeader()); status != 200 {
		t.Errorf("a newer model's status is %d, want 200", status)
	}
}

func TestGeminiAnswersInBothShapes(t *testing.T) {
	turn := modeltest.Turn{
		Thinking: "I think.", Text: "größer < als", Chunk: 3,
		Calls: []planner.ToolCall{{ID: "c", Name: "f", Args: json.RawMessage(`{"a":1}`)}},
		Usage: planner.Usage{Input: 10, Cached: 4, Output: 6},
	}
	url := modeltest.Gemini(t, &modeltest.Script{Turns: []modeltest.Turn{turn}})
	body := `{"generationConfig":{"thinkingConfig":{"includeThoughts":true}},"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`
	base := url + "/v1beta/models/gemini-3-pro-preview:"
	_, whole := askGemini(t, base+"generateContent", body, geminiHeader())
	_, stream := askGemini(t, base+"streamGenerateContent?alt=sse", body, geminiHeader())
	pieces := []string{whole}
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\r\n\r\n"), "\r\n\r\n") {
		pieces = append(pieces, strings.TrimPrefix(event, "data: "))
	}
	if len(pieces) < 8 {
		t.Fatalf("the stream has %d events:\n%s", len(pieces)-1, stream)
	}
	var texts [2]bytes.Buffer
	for i, piece := range pieces {
		var got struct {
			Candidates []struct {
				Content struct {
					Parts []struct {
						Text             string
						Thought          bool
						ThoughtSignature []byte
						FunctionCall     json.RawMessage
					}
				}
				FinishReason string
			}
			UsageMetadata struct {
				PromptTokenCount, CachedContentTokenCount, CandidatesTokenCount, ThoughtsTokenCount int
			}
		}
		if err := json.Unmarshal([]byte(piece), &got); err != nil {
			t.Fatalf("piece %d: %v\n%s", i, err, piece)
		}
		for _, part := range got.Candidates[0].Content.Parts {
			fmt.Fprintf(&texts[min(i, 1)], "%s", part.Text)
			if part.FunctionCall != nil {
				fmt.Fprintf(&texts[min(i, 1)], " %t", len(part.ThoughtSignature) > 0)
			}
		}
		isLast := i == 0 || i == len(pieces)-1
		if (got.Candidates[0].FinishReason == "STOP") != isLast {
			t.Errorf("piece %d ends with %q", i, got.Candidates[0].FinishReason)
		}
		if u := got.UsageMetadata; u.PromptTokenCount != 10 || u.CachedContentTokenCount != 4 || u.CandidatesTokenCount+u.ThoughtsTokenCount != 6 {
			t.Errorf("piece %d: the usage is %+v", i, u)
		}
	}
	for i := range texts {
		if got := texts[i].String(); got != "I think.größer < als true" {
			t.Errorf("the texts are %q", got)
		}
	}
}
