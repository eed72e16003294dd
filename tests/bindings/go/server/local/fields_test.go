package local_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// completed is the answer of /v1/completions with facts about tokens.
type completed struct {
	Choices []struct {
		Text         string
		FinishReason string `json:"finish_reason"`
		LogProbs     struct {
			Tokens        []string
			TokenLogProbs []*float64           `json:"token_logprobs"`
			TopLogProbs   []map[string]float64 `json:"top_logprobs"`
			TextOffset    []int                `json:"text_offset"`
		}
		TokenIDs       []int32 `json:"token_ids"`
		PromptTokenIDs []int32 `json:"prompt_token_ids"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func (f *fixture) completion(more string) completed {
	f.t.Helper()
	var out completed
	f.post("/v1/completions", `{"model":"story",`+more+`}`, &out)
	return out
}

func asPrompt(text string) string {
	quoted, _ := json.Marshal(text)
	return `"prompt":` + string(quoted)
}

// The scores of the library are the reference.
func TestAnEchoHasTheLogProbabilitiesOfTheLibrary(t *testing.T) {
	f := start(t, nil)
	var scored struct {
		Data []struct {
			Tokens   []int32
			LogProbs []float64
		}
	}
	f.post("/v1/score", `{"model":"story","input":"`+prompt+`"}`, &scored)
	want := scored.Data[0]
	for _, top := range []int{0, 1, 5} {
		got := f.completion(asPrompt(prompt) + fmt.Sprintf(`,"max_tokens":0,"echo":true,"logprobs":%d,"return_token_ids":true`, top))
		choice := got.Choices[0]
		lists := choice.LogProbs
		if choice.Text != prompt || got.Usage.Prompt != len(want.Tokens) || got.Usage.Completion != 0 || choice.FinishReason != "length" ||
			len(lists.TokenLogProbs) != len(want.Tokens) || lists.TokenLogProbs[0] != nil || fmt.Sprint(choice.PromptTokenIDs) != fmt.Sprint(want.Tokens) {
			t.Fatalf("%+v", got)
		}
		for i, value := range lists.TokenLogProbs[1:] {
			if math.Abs(*value-want.LogProbs[i]) > 1e-3 {
				t.Errorf("token %d: %g, not %g", i+1, *value, want.LogProbs[i])
			}
			alternatives := lists.TopLogProbs[i+1]
			if top > 0 && (len(alternatives) < top || len(alternatives) > top+1 || alternatives[lists.Tokens[i+1]] != *value) {
				t.Errorf("token %d: %v", i+1, alternatives)
			}
			for token, other := range alternatives {
				if other > 0 || len(alternatives) == top && other < *value && top == 1 {
					t.Errorf("%q: %g", token, other)
				}
			}
		}
		if text := strings.Join(lists.Tokens, ""); !strings.HasSuffix(text, prompt) {
			t.Errorf("%q", text)
		}
		for i, offset := range lists.TextOffset[1:] {
			if token := lists.Tokens[i+1]; !strings.HasPrefix(prompt[offset:], token) {
				t.Errorf("%q is not at %d of the prompt", token, offset)
			}
		}
	}
}

// A harness takes the tokens between its context and the last one: there must be exactly one more, also if the answer
// ends at once.
func TestAnEchoOfTokenIDsHasOneMoreTokenThanThePrompt(t *testing.T) {
	f := start(t, nil)
	for _, more := range []string{"", `,"logit_bias":{"1":100}`} {
		got := f.completion(`"prompt":[[500,600,700],[800,900]],"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,"echo":true` + more)
		for i, num := range []int{3, 2} {
			lists := got.Choices[i].LogProbs
			if len(lists.TokenLogProbs) != num+1 || len(lists.TopLogProbs) != num+1 || lists.TokenLogProbs[num] == nil {
				t.Errorf("%s: %+v", more, got.Choices[i])
			}
		}
	}
}

// A greedy continuation is the likeliest token at each place of the prompt that contains it.
func TestTheAlternativesOfAPromptBeginWithTheGreedyTokens(t *testing.T) {
	f := start(t, nil)
	answer := f.completion(asPrompt(prompt) + `,"max_tokens":6,"temperature":0,"return_token_ids":true`).Choices[0]
	ids, _ := json.Marshal(append(append([]int32{}, answer.PromptTokenIDs...), answer.TokenIDs...))
	var got struct {
		Choices []struct {
			PromptLogProbs []map[string]struct {
				LogProb float64
				Rank    int
				Token   string `json:"decoded_token"`
			} `json:"prompt_logprobs"`
		}
	}
	f.post("/v1/completions", `{"model":"story","max_tokens":1,"prompt_logprobs":2,"prompt":`+string(ids)+`}`, &got)
	entries := got.Choices[0].PromptLogProbs
	if len(entries) != len(answer.PromptTokenIDs)+6 || len(entries[0]) != 0 {
		t.Fatalf("%+v", entries)
	}
	for i, id := range answer.TokenIDs {
		entry, has := entries[len(answer.PromptTokenIDs)+i][fmt.Sprint(id)]
		if !has || entry.Rank != 1 || entry.LogProb > 0 {
			t.Errorf("token %d: %+v", i, entries[len(answer.PromptTokenIDs)+i])
		}
	}
	var chat struct {
		PromptLogProbs []interface{} `json:"prompt_logprobs"`
		Usage          struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	f.post("/v1/chat/completions", `{"model":"story","max_tokens":1,"prompt_logprobs":0,"messages":[{"role":"user","content":"Hi"}]}`, &chat)
	if len(chat.PromptLogProbs) != chat.Usage.Prompt || chat.PromptLogProbs[0] != nil {
		t.Errorf("%+v", chat)
	}
}

func TestAnAnswerEndsAsTheFieldsDemand(t *testing.T) {
	f := start(t, nil)
	greedy := asPrompt(prompt) + `,"temperature":0,"return_token_ids":true,"max_tokens":12`
	whole := f.completion(greedy).Choices[0]
	word := strings.Fields(whole.Text)[2]
	without := f.completion(greedy + `,"stop":"` + word + `"`).Choices[0]
	with := f.completion(greedy + `,"stop":"` + word + `","include_stop_str_in_output":true`).Choices[0]
	if strings.Contains(without.Text, word) || with.Text != without.Text+word || with.FinishReason != "stop" {
		t.Errorf("%q, %q", with.Text, without.Text)
	}
	_, stream := f.send("/v1/completions", `{"model":"story",`+greedy+`,"stop":"`+word+`","include_stop_str_in_output":true,"stream":true}`)
	streamed := ""
	for _, chunk := range chunks[completed](t, stream) {
		streamed += chunk.Choices[0].Text
	}
	if streamed != with.Text {
		t.Errorf("%q, not %q", streamed, with.Text)
	}
	stop := whole.TokenIDs[4]
	short := f.completion(greedy + fmt.Sprintf(`,"stop_token_ids":[%d]`, stop))
	if short.Choices[0].FinishReason != "stop" || short.Usage.Completion > 5 || !strings.HasPrefix(whole.Text, short.Choices[0].Text) {
		t.Errorf("%+v", short)
	}
	kept := f.completion(greedy + fmt.Sprintf(`,"stop_token_ids":[%d],"include_stop_str_in_output":true`, stop)).Choices[0]
	if !strings.HasPrefix(whole.Text, kept.Text) || len(kept.Text) <= len(short.Choices[0].Text) {
		t.Errorf("%q", kept.Text)
	}
	ended := f.completion(greedy + `,"logit_bias":{"1":100}`)
	long := f.completion(greedy + `,"logit_bias":{"1":100},"min_tokens":7`)
	if ended.Usage.Completion > 1 || long.Usage.Completion < 7 || long.Choices[0].FinishReason != "stop" {
		t.Errorf("%+v, %+v", ended, long)
	}
}

func TestAnAnswerHasOnlyWhatTheFieldsAllow(t *testing.T) {
	f := start(t, nil)
	greedy := asPrompt(prompt) + `,"temperature":0,"return_token_ids":true,"max_tokens":20`
	whole := f.completion(greedy).Choices[0]
	word := strings.Fields(whole.Text)[1]
	if got := f.completion(greedy + `,"bad_words":["` + word + `"]`).Choices[0]; strings.Contains(got.Text, word) || got.Text == "" {
		t.Errorf("%q contains %q", got.Text, word)
	}
	got := f.completion(greedy + `,"allowed_token_ids":[500,501,502]`).Choices[0]
	for _, id := range got.TokenIDs {
		if id < 500 || id > 502 {
			t.Errorf("%v", got.TokenIDs)
		}
	}
	if len(got.TokenIDs) != 20 || got.FinishReason != "length" {
		t.Errorf("%+v", got)
	}
	if param, _ := f.refused("/v1/completions", `{"model":"story",`+greedy+`,"allowed_token_ids":[99999]}`, http.StatusBadRequest); param != "allowed_token_ids" {
		t.Error(param)
	}
	short := f.completion(greedy + `,"truncate_prompt_tokens":3`)
	if ids := short.Choices[0].PromptTokenIDs; short.Usage.Prompt != 3 || fmt.Sprint(ids) != fmt.Sprint(whole.PromptTokenIDs[len(whole.PromptTokenIDs)-3:]) {
		t.Errorf("%+v", short)
	}
	if ids := f.completion(greedy + `,"add_special_tokens":false`).Choices[0].PromptTokenIDs; fmt.Sprint(ids) != fmt.Sprint(whole.PromptTokenIDs[1:]) {
		t.Errorf("%v, of %v", ids, whole.PromptTokenIDs)
	}
	marked := `,"logit_bias":{"0":100},"max_tokens":1`
	if hidden, shown := f.completion(asPrompt("a")+marked), f.completion(asPrompt("a")+marked+`,"skip_special_tokens":false`); hidden.Choices[0].Text != "" ||
		shown.Choices[0].Text != "<|begin_of_text|>" {
		t.Errorf("%q, %q", hidden.Choices[0].Text, shown.Choices[0].Text)
	}
}

func TestConstraintsOfOtherServersHold(t *testing.T) {
	f := start(t, nil)
	schema := `{"type":"object","properties":{"age":{"type":"integer","maximum":99},"ok":{"type":"boolean"}},"required":["age","ok"]}`
	object := regexp.MustCompile(`^\{"age": -?[0-9]+, "ok": (true|false)\}$`)
	for more, want := range map[string]*regexp.Regexp{
		`"structured_outputs":{"json":` + schema + `}`:                               object,
		`"guided_json":` + schema:                                                    object,
		`"json_schema":` + schema:                                                    object,
		`"response_format":{"type":"json_object","schema":` + schema + `}`:           object,
		`"json_schema":` + schema + `,"json_space":"compact"`:                        regexp.MustCompile(`^\{"age":-?[0-9]+,"ok":(true|false)\}$`),
		`"structured_outputs":{"json":` + schema + `,"disable_any_whitespace":true}`: regexp.MustCompile(`^\{"age":-?[0-9]+,"ok":(true|false)\}$`),
		`"structured_outputs":{"regex":"[ab]{3}"}`:                                   regexp.MustCompile(`^[ab]{3}$`),
		`"guided_regex":"[ab]{3}"`:                                                   regexp.MustCompile(`^[ab]{3}$`),
		`"structured_outputs":{"choice":["red","green"]}`:                            regexp.MustCompile(`^(red|green)$`),
		`"guided_choice":["red","green"]`:                                            regexp.MustCompile(`^(red|green)$`),
		`"structured_outputs":{"grammar":"root ::= \"x\" [0-9]"}`:                    regexp.MustCompile(`^x[0-9]$`),
		`"guided_grammar":"start: \"x\" /[0-9]/"`:                                    regexp.MustCompile(`^x[0-9]$`),
	} {
		for path, question := range map[string]string{"/v1/completions": `"prompt":"Who?"`,
			"/v1/chat/completions": `"messages":[{"role":"user","content":"Who?"}]`} {
			var got answer
			f.post(path, `{"model":"story","seed":3,"max_tokens":120,`+question+`,`+more+`}`, &got)
			text := got.Choices[0].Text + got.Choices[0].Message.Content
			if !want.MatchString(text) {
				t.Errorf("%s %s: %q", path, more, text)
			}
		}
	}
	for more, param := range map[string]string{
		`"structured_outputs":{"regex":"("}`:            "structured_outputs.regex",
		`"guided_json":{"$ref":"http://a"}`:             "guided_json",
		`"structured_outputs":{"grammar":"root ::= ("}`: "structured_outputs.grammar",
		`"response_format":{"type":"xml"}`:              "response_format",
	} {
		if got, _ := f.refused("/v1/completions", `{"model":"story","prompt":"a",`+more+`}`, http.StatusBadRequest); got != param {
			t.Errorf("%s: %q", more, got)
		}
	}
}

// modelWith returns a directory with the files of the model and one more.
func modelWith(t *testing.T, name, content string) string {
	t.Helper()
	directory := t.TempDir()
	err := filepath.WalkDir(modelPath(t), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == name {
			return err
		}
		return os.Symlink(path, filepath.Join(directory, entry.Name()))
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

// With min_p 1 only the likeliest token is left, whatever the seed.
func TestZeroReplacesWhatTheAuthorsRecommend(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelWith(t, "generation_config.json", `{"do_sample":true,"min_p":1.0}`), CacheTokens: 8192}
	})
	texts := func(more string) map[string]bool {
		all := map[string]bool{}
		for seed := 1; seed <= 4; seed++ {
			all[f.completion(asPrompt(prompt) + fmt.Sprintf(`,"seed":%d,"max_tokens":12%s`, seed, more)).Choices[0].Text] = true
		}
		return all
	}
	if recommended := texts(""); len(recommended) != 1 {
		t.Errorf("%v", recommended)
	}
	if own := texts(`,"min_p":0`); len(own) == 1 {
		t.Errorf("%v", own)
	}
}

func TestSettingsThatTheLibraryRefusesHaveTheNamesOfTheRequest(t *testing.T) {
	f := start(t, nil)
	for more, param := range map[string]string{
		`"min_p":2`:                            "min_p",
		`"stop_token_ids":[99999]`:             "stop_token_ids",
		`"bad_words":["a"],"stop":"a"`:         "bad_words",
		`"xtc_probability":2`:                  "xtc_probability",
		`"dry_multiplier":-1`:                  "dry_multiplier",
		`"mirostat":2,"mirostat_tau":1000`:     "mirostat_tau",
		`"dynatemp_range":200,"temperature":1`: "dynatemp_range",
	} {
		if got, _ := f.refused("/v1/completions", `{"model":"story","prompt":"a",`+more+`}`, http.StatusBadRequest); got != param {
			t.Errorf("%s: %q", more, got)
		}
	}
	f.completion(`"prompt":"a","max_tokens":4,"repeat_penalty":1.1,"repeat_last_n":64,"typical_p":0.9,"top_n_sigma":2,"xtc_probability":0.5,
		"xtc_threshold":0.1,"dry_multiplier":0.8,"dry_base":1.75,"dry_allowed_length":2,"dry_penalty_last_n":-1,"mirostat":2,
		"dynatemp_range":0.3,"dynatemp_exponent":1,"temperature":0.8`)
}

func TestTheTemplateEndsThePromptAsTheFieldsDemand(t *testing.T) {
	f := startCalling(t, callingTemplate)
	ending := func(more string) string {
		var rendered struct {
			TokenIDs []int32 `json:"token_ids"`
		}
		f.post("/v1/chat/completions/render", `{"model":"story","messages":[{"role":"user","content":"a"},
			{"role":"assistant","content":"It is"}]`+more+`}`, &rendered)
		ids, _ := json.Marshal(rendered.TokenIDs)
		var text struct{ Prompt string }
		f.post("/v1/detokenize", `{"model":"story","tokens":`+string(ids)+`}`, &text)
		return text.Prompt
	}
	for more, want := range map[string]string{"": "assistant\n", `,"add_generation_prompt":false`: "It is<|im_end|>\n",
		`,"continue_final_message":true`: "It is"} {
		if text := ending(more); !strings.HasSuffix(text, want) {
			t.Errorf("%s: %q", more, text)
		}
	}
}
