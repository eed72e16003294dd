package local_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"quire.dev/quire"
)

// Requests of other servers' clients on a real model.

func TestAnOllamaPromptContinuesAsTheLibraryDoes(t *testing.T) {
	f := start(t, nil)
	var body struct {
		Response  string
		Done      bool
		Reason    string `json:"done_reason"`
		EvalCount int    `json:"eval_count"`
		Eval      int64  `json:"eval_duration"`
		Prompt    int64  `json:"prompt_eval_duration"`
		Total     int64  `json:"total_duration"`
	}
	f.post("/api/generate", `{"model":"story","prompt":"`+prompt+`","raw":true,"stream":false,
		"options":{"temperature":0,"num_predict":16}}`, &body)
	model, cache := direct(t)
	tokens, err := model.Encode(prompt, true, true)
	if err != nil {
		t.Fatal(err)
	}
	zero := 0.0
	if want := generate(t, cache, quire.Request{Tokens: tokens, MaxNewTokens: 16, Temperature: &zero}); body.Response != want {
		t.Errorf("%q, not %q", body.Response, want)
	}
	if body.Reason != "length" || body.EvalCount != 16 || body.Eval <= 0 || body.Prompt <= 0 || body.Total < body.Eval {
		t.Errorf("%+v", body)
	}
	var same struct {
		Content string
		Timings struct {
			Tokens int     `json:"predicted_n"`
			MS     float64 `json:"predicted_ms"`
		}
	}
	f.post("/completion", `{"prompt":"`+prompt+`","temperature":0,"n_predict":16}`, &same)
	if same.Content != body.Response || same.Timings.Tokens != 16 || same.Timings.MS <= 0 {
		t.Errorf("%+v, not %q", same, body.Response)
	}
}

func TestAnOllamaChatOfARealModelFollowsItsFormat(t *testing.T) {
	f := start(t, nil)
	_, text := f.send("/api/chat", `{"model":"story:latest","messages":[{"role":"user","content":"Who is the king?"}],
		"format":{"type":"object","properties":{"name":{"type":"string","maxLength":10}},"required":["name"],"additionalProperties":false},
		"options":{"num_predict":100,"seed":3}}`)
	content := ""
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		var body struct {
			Message struct{ Content string }
			Error   string
		}
		if err := json.Unmarshal([]byte(line), &body); err != nil || body.Error != "" {
			t.Fatal(err, line)
		}
		content += body.Message.Content
	}
	var person map[string]string
	if err := json.Unmarshal([]byte(content), &person); err != nil || len(person) != 1 || len(lines) < 3 {
		t.Error(err, content, len(lines))
	}
}

func TestADescriptionNeedsNoLoad(t *testing.T) {
	f := start(t, nil)
	var shown struct {
		Template string
		Details  struct {
			Family     string
			Parameters string `json:"parameter_size"`
		}
		Info map[string]interface{} `json:"model_info"`
	}
	f.post("/api/show", `{"model":"story"}`, &shown)
	if shown.Details.Family != "llama" || !strings.HasSuffix(shown.Details.Parameters, "M") || shown.Template == "" ||
		shown.Info["llama.block_count"] != 8.0 {
		t.Errorf("%+v", shown)
	}
	var tags struct {
		Models []struct {
			Name, Digest string
			Size         int64
			Modified     time.Time `json:"modified_at"`
		}
	}
	_, text := f.get("/api/tags")
	if err := json.Unmarshal(text, &tags); err != nil || len(tags.Models) != 1 || tags.Models[0].Name != "story:latest" ||
		tags.Models[0].Size < 1<<20 || len(tags.Models[0].Digest) != 64 || tags.Models[0].Modified.IsZero() {
		t.Errorf("%v %s", err, text)
	}
	var running struct {
		Models []struct {
			Context int64 `json:"context_length"`
		}
	}
	_, text = f.get("/api/ps")
	if err := json.Unmarshal(text, &running); err != nil || len(running.Models) != 0 {
		t.Errorf("%v %s", err, text)
	}
	f.send("/api/generate", `{"model":"story"}`) // loads the model
	_, text = f.get("/api/ps")
	if err := json.Unmarshal(text, &running); err != nil || len(running.Models) != 1 || running.Models[0].Context < 1024 {
		t.Errorf("%v %s", err, text)
	}
}

func TestARealModelRanksTheDocumentThatHasTheQuery(t *testing.T) {
	f := start(t, nil)
	var ranked struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	const query = "the old king of the northern island"
	f.post("/v1/rerank", `{"query":"`+query+`","documents":["The weather was cold and the ship was late.",
		"Tell me of `+query+`, said the child."],"top_n":2}`, &ranked)
	if len(ranked.Results) != 2 || ranked.Results[0].Index != 1 || ranked.Results[0].Score <= ranked.Results[1].Score ||
		ranked.Results[0].Score > 1 || ranked.Results[1].Score <= 0 {
		t.Errorf("%+v", ranked)
	}
}

func TestTheTemplateAndTheTokensOfAConversationAgree(t *testing.T) {
	f := start(t, nil)
	const messages = `"messages":[{"role":"user","content":"Hello <|im_end|> there"}]`
	var rendered struct{ Prompt string }
	f.post("/apply-template", `{`+messages+`}`, &rendered)
	if !strings.Contains(rendered.Prompt, "Hello <|im_end|> there") || !strings.Contains(rendered.Prompt, "assistant") {
		t.Error(rendered.Prompt)
	}
	var conversation, text struct{ Tokens []int32 }
	f.post("/v1/tokenize", `{`+messages+`}`, &conversation)
	var plain struct{ Content string }
	tokens, _ := json.Marshal(conversation.Tokens)
	f.post("/detokenize", `{"tokens":`+string(tokens)+`}`, &plain)
	if plain.Content != rendered.Prompt {
		t.Errorf("%q, not %q", plain.Content, rendered.Prompt)
	}
	quoted, _ := json.Marshal(rendered.Prompt)
	f.post("/tokenize", `{"content":`+string(quoted)+`}`, &text)
	if len(text.Tokens) >= len(conversation.Tokens) { // there the mark in the message is a token
		t.Error(len(text.Tokens), len(conversation.Tokens))
	}
	if param, _ := f.refused("/infill", `{"input_prefix":"a","input_suffix":"b"}`, 400); param != "input_prefix" {
		t.Error(param)
	}
}
