package local_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// response is the part of a response object that the tests read.
type response struct {
	ID     string
	Status string
	Output []struct {
		Content []struct {
			Text     string
			LogProbs []struct {
				Token   string
				LogProb float64
				Top     []struct{ Token string } `json:"top_logprobs"`
			} `json:"logprobs"`
		}
	}
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
}

func (r *response) text() string { return r.Output[0].Content[0].Text }

func TestAResponseHasTheTextAndTheLogProbsOfTheChat(t *testing.T) {
	f := start(t, nil)
	var whole answer
	f.post("/v1/chat/completions", `{"model":"story","temperature":0,"max_tokens":12,"logprobs":true,"top_logprobs":3,
		"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Tell me of a king."}]}`, &whole)
	var got response
	f.post("/v1/responses", `{"model":"story","temperature":0,"max_output_tokens":12,"instructions":"Be kind.",
		"input":[{"role":"user","content":[{"type":"input_text","text":"Tell me of a king."}]}],
		"include":["message.output_text.logprobs"],"top_logprobs":3}`, &got)
	choice := whole.Choices[0]
	if got.text() != choice.Message.Content || got.Usage.Input != whole.Usage.Prompt {
		t.Fatalf("%+v, not %+v", got, whole)
	}
	entries := got.Output[0].Content[0].LogProbs
	if len(entries) != len(choice.LogProbs.Content) {
		t.Fatalf("%d log-probabilities, not %d", len(entries), len(choice.LogProbs.Content))
	}
	for i, entry := range entries {
		want := choice.LogProbs.Content[i]
		if entry.Token != want.Token || entry.LogProb != want.LogProb || len(entry.Top) != 3 {
			t.Errorf("%+v, not %+v", entry, want)
		}
	}
}

func TestACountOfInputTokensIsThatOfTheUsage(t *testing.T) {
	f := startCalling(t, callingTemplate)
	body := `{"model":"story","instructions":"Be kind.","max_output_tokens":4,"input":"Tell me of a king.","tools":[
		{"type":"function","name":"weather","parameters":{"type":"object"}}]}`
	var count struct {
		Input int `json:"input_tokens"`
	}
	f.post("/v1/responses/input_tokens", body, &count)
	var got response
	f.post("/v1/responses", body, &got)
	if count.Input != got.Usage.Input || count.Input < 10 {
		t.Errorf("%d tokens are counted, and %d used", count.Input, got.Usage.Input)
	}
}

func TestAResponseIsContinuedAsOneConversation(t *testing.T) {
	f := start(t, nil)
	var first, second, whole response
	f.post("/v1/responses", `{"model":"story","temperature":0,"max_output_tokens":8,"input":"Tell me of a king."}`, &first)
	f.post("/v1/responses", `{"model":"story","temperature":0,"max_output_tokens":8,"previous_response_id":"`+first.ID+`","input":"And then?"}`, &second)
	said, _ := json.Marshal(first.text())
	f.post("/v1/responses", `{"model":"story","temperature":0,"max_output_tokens":8,"input":[{"role":"user","content":"Tell me of a king."},
		{"role":"assistant","content":`+string(said)+`},{"role":"user","content":"And then?"}]}`, &whole)
	if second.text() != whole.text() || second.Usage.Input != whole.Usage.Input {
		t.Errorf("%+v, not %+v", second, whole)
	}
}

func TestTruncationMakesRoomForTheAnswer(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 512, ContextTokens: 256}
	})
	turn := `{"role":"user","content":"` + strings.Repeat("a word and ", 20) + `"},{"role":"assistant","content":"yes"},`
	body := `{"model":"story","max_output_tokens":16,"input":[` + strings.Repeat(turn, 8) + `{"role":"user","content":"Tell me of a king."}]`
	param, code := f.refused("/v1/responses", body+`}`, http.StatusBadRequest)
	if param != "input" || code != "context_length_exceeded" {
		t.Errorf("%q %q", param, code)
	}
	var got response
	f.post("/v1/responses", body+`,"truncation":"auto"}`, &got)
	if got.Usage.Input > 256-16 || got.Usage.Input < 100 {
		t.Errorf("%d tokens of the prompt are left", got.Usage.Input)
	}
}

const citySchema = `{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}`

func isCity(t *testing.T, text string) {
	t.Helper()
	var value map[string]string
	if err := json.Unmarshal([]byte(text), &value); err != nil || len(value) != 1 || value["city"] != "Oslo" && value["city"] != "Rome" {
		t.Errorf("%q does not follow the schema", text)
	}
}

func TestFormatsOfBothInterfacesConstrainTheAnswer(t *testing.T) {
	f := start(t, nil)
	var got response
	f.post("/v1/responses", `{"model":"story","input":"How warm is it?","max_output_tokens":100,
		"text":{"format":{"type":"json_schema","name":"city","schema":`+citySchema+`}}}`, &got)
	isCity(t, got.text())
	var message struct {
		Content []struct{ Text string }
	}
	f.post("/v1/messages", `{"model":"story","max_tokens":100,"messages":[{"role":"user","content":"How warm is it?"}],
		"output_config":{"format":{"type":"json_schema","schema":`+citySchema+`}}}`, &message)
	isCity(t, message.Content[0].Text)
	param, _ := f.refused("/v1/responses", `{"model":"story","input":"x","text":{"format":{"type":"json_schema","name":"n","schema":7}}}`,
		http.StatusBadRequest)
	if param != "text.format" {
		t.Errorf("the fault is at %q", param)
	}
}

func TestAStopSequenceIsNamedInTheMessage(t *testing.T) {
	f := start(t, nil)
	ask := `{"model":"story","max_tokens":40,"top_k":1,"messages":[{"role":"user","content":"Tell me of a king."}]`
	var whole, cut struct {
		Content      []struct{ Text string }
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	f.post("/v1/messages", ask+`}`, &whole)
	words := strings.Fields(whole.Content[0].Text)
	stop, _ := json.Marshal(words[len(words)/2])
	f.post("/v1/messages", ask+`,"stop_sequences":["no such text",`+string(stop)+`]}`, &cut)
	if cut.StopReason != "stop_sequence" || cut.StopSequence == nil || *cut.StopSequence != words[len(words)/2] {
		t.Errorf("%+v", cut)
	}
	for _, block := range cut.Content {
		if !strings.HasPrefix(whole.Content[0].Text, block.Text) {
			t.Errorf("%q does not begin %q", block.Text, whole.Content[0].Text)
		}
	}
}

func TestAStreamedMessageBeginsWithTheTokensOfItsPrompt(t *testing.T) {
	f := start(t, nil)
	ask := `{"model":"story","max_tokens":4,"messages":[{"role":"user","content":"Tell me of a king."}]`
	var count struct {
		Input int `json:"input_tokens"`
	}
	f.post("/v1/messages/count_tokens", ask+`}`, &count)
	_, text := f.send("/v1/messages", ask+`,"stream":true}`)
	type usage struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
	}
	events := chunks[struct {
		Type    string
		Message struct{ Usage usage }
		Usage   usage
	}](t, text)
	last := events[len(events)-2].Usage
	if count.Input < 5 || events[0].Message.Usage.Input != count.Input || last.Input+last.Cached != count.Input {
		t.Errorf("%d tokens are counted; the stream begins with %+v and ends with %+v", count.Input, events[0], last)
	}
}

func TestACancelledBackgroundResponseEndsItsJob(t *testing.T) {
	f := start(t, nil)
	var queued, cancelled response
	f.post("/v1/responses", `{"model":"story","input":"Tell me of a king.","background":true,"max_output_tokens":4000,
		"logit_bias":{"1":-1000,"2":-1000}}`, &queued)
	f.eventually("the job runs", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 1 })
	f.post("/v1/responses/"+queued.ID+"/cancel", "", &cancelled)
	if queued.Status != "queued" || cancelled.Status != "cancelled" {
		t.Errorf("%q, then %q", queued.Status, cancelled.Status)
	}
	f.eventually("the job has ended", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 0 })
}
