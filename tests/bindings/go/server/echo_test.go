package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// logProbLists is the older form of log-probabilities.
type logProbLists struct {
	Tokens        []string
	TokenLogProbs []*float64           `json:"token_logprobs"`
	TopLogProbs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

type completed struct {
	Choices []struct {
		Index          int
		Text           string
		LogProbs       *logProbLists
		FinishReason   *string `json:"finish_reason"`
		TokenIDs       []int32 `json:"token_ids"`
		PromptTokenIDs []int32 `json:"prompt_token_ids"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func (f *fixture) complete(more string) completed {
	f.t.Helper()
	response, text := f.do("POST", "/v1/completions", `{"model":"m",`+more+`}`)
	var out completed
	if err := json.Unmarshal([]byte(text), &out); err != nil || response.StatusCode != 200 {
		f.t.Fatalf("%s: %d %s %v", more, response.StatusCode, text, err)
	}
	return out
}

// The request of lm-evaluation-harness: it sums token_logprobs from the length of its context on and without the last
// token, and compares each with the largest of its top_logprobs.
func TestAnEvaluationHarnessGetsTheLogProbabilitiesOfItsPrompts(t *testing.T) {
	f := start(t, nil)
	got := f.complete(`"prompt":[[97,98,99],[100,101]],"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,"echo":true`)
	expect(t, len(got.Choices), 2)
	for i, text := range []string{"abc", "de"} {
		choice := got.Choices[i]
		lists := choice.LogProbs
		if choice.Index != i || !strings.HasPrefix(choice.Text, text) {
			t.Errorf("%+v", choice)
		}
		if len(lists.Tokens) != len(text)+1 || len(lists.TokenLogProbs) != len(text)+1 || len(lists.TopLogProbs) != len(text)+1 {
			t.Fatalf("%+v", lists)
		}
		if lists.TokenLogProbs[0] != nil || lists.TopLogProbs[0] != nil {
			t.Error("the first token has a log-probability")
		}
		for j := 1; j < len(text); j++ {
			if *lists.TokenLogProbs[j] != -float64(j) || lists.TopLogProbs[j][text[j:j+1]] != -float64(j) || lists.TextOffset[j] != j {
				t.Errorf("token %d of %q: %+v", j, text, lists)
			}
		}
	}
	expect(t, got.Usage.Completion, 2)
}

func TestAPromptIsOnlyEvaluatedWithoutTokensToGenerate(t *testing.T) {
	f := start(t, nil)
	for _, more := range []string{`"max_tokens":0`, `"n_predict":0`} {
		got := f.complete(`"prompt":"h\u00e9","echo":true,"logprobs":2,` + more)
		lists := got.Choices[0].LogProbs
		expect(t, got.Choices[0].Text, "h\u00e9")
		expect(t, *got.Choices[0].FinishReason, "length")
		expect(t, got.Usage.Completion, 0)
		expect(t, got.Usage.Prompt, 4)
		expect(t, len(lists.TopLogProbs[1]), 2)
		// The special token before the text has no characters, and the two tokens of the second character begin it.
		expect(t, lists.TextOffset, []int{0, 0, 1, 1})
	}
	expect(t, f.engine.Submitted.Load(), 0)
	got := f.complete(`"prompt":["a","bc"],"echo":true,"max_tokens":0,"n":2`)
	expect(t, []string{got.Choices[0].Text, got.Choices[1].Text, got.Choices[2].Text, got.Choices[3].Text}, []string{"a", "a", "bc", "bc"})
	expect(t, got.Usage.Prompt, 5)
	if got.Choices[0].LogProbs != nil {
		t.Errorf("%+v", got.Choices[0].LogProbs)
	}
	response, text := f.do("POST", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":0}`)
	expect(t, response.StatusCode, 400)
	expect(t, at(f.object(text), "error", "param"), "max_tokens")
}

func TestAnEchoIsStreamedFirst(t *testing.T) {
	f := start(t, nil)
	joined := logProbLists{}
	text, last := "", ""
	for _, event := range f.stream("/v1/completions", `{"model":"m","prompt":"a b","echo":true,"logprobs":0,"stream":true}`) {
		if event == "[DONE]" {
			break
		}
		var chunk completed
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatal(err)
		}
		choice := chunk.Choices[0]
		text += choice.Text
		if choice.FinishReason != nil {
			last = *choice.FinishReason
		}
		if choice.LogProbs != nil {
			joined.Tokens = append(joined.Tokens, choice.LogProbs.Tokens...)
			joined.TextOffset = append(joined.TextOffset, choice.LogProbs.TextOffset...)
		}
	}
	expect(t, []string{text, last}, []string{"a ba b", "stop"})
	expect(t, joined.Tokens, []string{"\x00", "a", " ", "b", "a ", "b"})
	expect(t, joined.TextOffset, []int{0, 0, 1, 2, 3, 5})
	events := f.stream("/v1/completions", `{"model":"m","prompt":"a b","echo":true,"max_tokens":0,"stream":true}`)
	expect(t, len(events), 3)
	expect(t, at(f.object(events[0]), "choices", 0, "text"), "a b")
	expect(t, at(f.object(events[1]), "choices", 0, "finish_reason"), "length")
}

func TestTokenIDsComeWithTheAnswer(t *testing.T) {
	f := start(t, nil)
	got := f.complete(`"prompt":["a b","c"],"return_token_ids":true,"logprobs":1,"return_tokens_as_token_ids":true`)
	expect(t, got.Choices[0].PromptTokenIDs, []int32{0, 97, 32, 98})
	expect(t, got.Choices[0].TokenIDs, []int32{0, 1})
	expect(t, got.Choices[1].PromptTokenIDs, []int32{0, 99})
	expect(t, got.Choices[0].LogProbs.Tokens, []string{"token_id:0", "token_id:1"})
	body := f.post("/v1/chat/completions", chat("a b", `,"return_token_ids":true,"logprobs":true,"return_tokens_as_token_ids":true`))
	expect(t, at(body, "prompt_token_ids"), []int32{97, 32, 98})
	expect(t, at(body, "choices", 0, "token_ids"), []int32{0, 1})
	expect(t, at(body, "choices", 0, "logprobs", "content", 1, "token"), "token_id:1")
	for path, request := range map[string]string{"/v1/chat/completions": chat("a b", `,"return_token_ids":true,"stream":true`),
		"/v1/completions": `{"model":"m","prompt":"a b","return_token_ids":true,"stream":true}`} {
		var ids []interface{}
		prompts := 0
		for _, event := range f.stream(path, request) {
			if event == "[DONE]" {
				break
			}
			some, _ := at(f.object(event), "choices", 0, "token_ids").([]interface{})
			ids = append(ids, some...)
			if at(f.object(event), "prompt_token_ids") != nil || at(f.object(event), "choices", 0, "prompt_token_ids") != nil {
				prompts++
			}
		}
		expect(t, ids, []int{0, 1})
		expect(t, prompts, 1)
	}
	if _, text := f.do("POST", "/v1/chat/completions", chat("x", "")); strings.Contains(text, "token_ids") {
		t.Error("token ids come without a wish for them: ", text)
	}
}

func TestPromptLogProbabilitiesHaveRanks(t *testing.T) {
	f := start(t, nil)
	want := []interface{}{nil, map[string]interface{}{"98": map[string]interface{}{"logprob": -1, "rank": 1, "decoded_token": "b"},
		"99": map[string]interface{}{"logprob": -2, "rank": 2, "decoded_token": "c"}}}
	expect(t, at(f.post("/v1/chat/completions", chat("ab", `,"prompt_logprobs":2`)), "prompt_logprobs"), want)
	body := f.post("/v1/completions", `{"model":"m","prompt":[97,98],"prompt_logprobs":2}`)
	expect(t, at(body, "choices", 0, "prompt_logprobs"), want)
	body = f.post("/v1/completions", `{"model":"m","prompt":[97,98],"prompt_logprobs":0}`)
	expect(t, len(at(body, "choices", 0, "prompt_logprobs", 1).(map[string]interface{})), 1)
}

func TestAPromptIsCutToTheRequestedTokens(t *testing.T) {
	f := start(t, nil)
	f.complete(`"prompt":"abcdef","truncate_prompt_tokens":2`)
	expect(t, f.engine.Last().Tokens, []int32{101, 102})
	f.complete(`"prompt":"abcdef","truncate_prompt_tokens":2,"truncation_side":"right"`)
	expect(t, f.engine.Last().Tokens, []int32{0, 97})
	f.complete(`"prompt":"ab","truncate_prompt_tokens":9`)
	expect(t, f.engine.Last().Text, "ab")
	long, _ := json.Marshal(strings.Repeat("a", 5000))
	f.complete(`"prompt":` + string(long) + `,"truncate_prompt_tokens":-1,"max_tokens":96`)
	expect(t, len(f.engine.Last().Tokens), 4000)
	f.post("/v1/chat/completions", chat("abcdef", `,"truncate_prompt_tokens":3`))
	expect(t, f.engine.Last().Rendered, []int32{100, 101, 102})
	expect(t, at(f.post("/v1/chat/completions/render", chat("abcdef", `,"truncate_prompt_tokens":1`)), "token_ids"), []int{102})
}

func TestTheBestOfSeveralAnswersAreReturned(t *testing.T) {
	f := start(t, nil)
	got := f.complete(`"prompt":["draw","draw"],"n":2,"best_of":4,"seed":5`)
	texts := []string{}
	for i, choice := range got.Choices {
		texts = append(texts, choice.Text)
		expect(t, choice.Index, i)
		if choice.LogProbs != nil {
			t.Error("log-probabilities come without a wish for them")
		}
	}
	expect(t, texts, []string{"8", "7", "8", "7"})
	expect(t, got.Usage.Completion, 8)
	expect(t, len(f.complete(`"prompt":"x","best_of":1`).Choices), 1)
	for more, param := range map[string]string{`"n":2,"best_of":1`: "best_of", `"best_of":99`: "best_of", `"best_of":2,"stream":true`: "best_of"} {
		response, text := f.do("POST", "/v1/completions", `{"model":"m","prompt":"x",`+more+`}`)
		expect(t, response.StatusCode, 400)
		expect(t, at(f.object(text), "error", "param"), param)
	}
}

func TestTokensOfAnEchoAreChargedToTheKey(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a", TokensPerMinute: 20}}
	})
	f.key = "k"
	const echo = `{"model":"m","prompt":"hello there!","max_tokens":0,"echo":true,"logprobs":1}`
	f.post("/v1/completions", echo) // 13 tokens: 7 are left
	response, text := f.do("POST", "/v1/completions", echo)
	expect(t, response.StatusCode, 429)
	if !strings.Contains(text, "the prompt has 13 tokens") {
		t.Error(text)
	}
}
