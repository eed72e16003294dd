package server_test

import (
	"testing"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

func TestACompletionOfLlamaCpp(t *testing.T) {
	f := start(t, only)
	body := f.post("/completion", `{"prompt":"one two three","n_predict":2,"temperature":0.5,"seed":7,"repeat_penalty":1.2,
		"stop":["x"],"cache_prompt":true,"id_slot":-1,"mirostat":0,"typical_p":1.0,"samplers":[]}`)
	expect(t, body["content"], "one two ")
	expect(t, body["stop"], true)
	expect(t, body["stop_type"], "limit")
	expect(t, body["prompt"], "one two three")
	expect(t, body["tokens_predicted"], 2)
	expect(t, body["model"], "m")
	expect(t, at(body, "generation_settings", "n_predict"), 2)
	expect(t, at(body, "timings", "predicted_n"), 2)
	expect(t, at(body, "timings", "predicted_ms"), 4)
	expect(t, at(body, "timings", "predicted_per_second"), 500)
	expect(t, at(body, "timings", "cache_n"), 2)
	g := f.engine.Last()
	expect(t, []interface{}{*g.Temperature, *g.Seed, *g.RepetitionPenalty, g.StopTexts, g.MaxNewTokens},
		[]interface{}{0.5, 7, 1.2, []string{"x"}, 2})
	expect(t, f.post("/completion", `{"prompt":"one","n_predict":-1,"seed":-1}`)["stop_type"], "eos")
	expect(t, f.engine.Last().Seed, nil)
	expect(t, f.engine.Last().MaxNewTokens, 0)
}

func TestPromptsOfLlamaCppMayMixTextsAndTokens(t *testing.T) {
	f := start(t, only)
	for prompt, want := range map[string]interface{}{
		`"ab"`:                   []int{0, 97, 98},
		`[97,98]`:                []int{97, 98},
		`[97,"b",99]`:            []int{97, 98, 99},
		`["a",98]`:               []int{0, 97, 98},
		`"a<|special|>"`:         []int{0, 97, 256},
		`{"prompt_string":"ab"}`: []int{0, 97, 98},
	} {
		f.post("/completion", `{"prompt":`+prompt+`}`)
		expect(t, f.engine.Last().Tokens, want)
	}
	_, text := f.do("POST", "/completion", `{"prompt":["a","b",[99]]}`)
	if want := `[{"index":0,"content":"a"`; text[:len(want)] != want {
		t.Error(text)
	}
	for _, prompt := range []string{`null`, `7.5`, `true`, `[null]`, `[[1,null]]`, `{"x":1}`, `[1e99]`,
		`{"prompt_string":"a","multimodal_data":["x"]}`} {
		f.refused("/completion", `{"prompt":`+prompt+`}`, 400, "prompt")
	}
}

func TestAStreamedCompletionOfLlamaCppEndsWithItsFigures(t *testing.T) {
	f := start(t, only)
	events := f.stream("/completion", `{"prompt":"one two","stream":true,"n_probs":1}`)
	expect(t, len(events), 3)
	expect(t, at(f.object(events[0]), "content"), "one ")
	expect(t, at(f.object(events[0]), "stop"), false)
	expect(t, at(f.object(events[0]), "completion_probabilities", 0, "top_logprobs", 0, "logprob"), -1)
	expect(t, at(f.object(events[2]), "content"), "")
	expect(t, at(f.object(events[2]), "stop"), true)
	expect(t, at(f.object(events[2]), "timings", "predicted_n"), 2)
}

func TestWhatACompletionOfLlamaCppCannotObeyIsRefusedByName(t *testing.T) {
	f := start(t, only)
	for words, fields := range map[string]string{
		"n_predict":            `"n_predict":0`,
		"n_probs":              `"n_probs":99`,
		"post_sampling_probs":  `"post_sampling_probs":true`,
		"return_progress":      `"return_progress":true`,
		"samplers":             `"samplers":["top_k"]`,
		"min_keep":             `"min_keep":3`,
		"logit_bias":           `"logit_bias":[[1]]`,
		"json_schema":          `"json_schema":{},"grammar":"root ::= \"a\""`,
		"temperature must":     `"temperature":-1`,
		"n_indent":             `"n_indent":2`,
		"t_max_predict_ms":     `"t_max_predict_ms":10`,
		"pair of logit_bias":   `"logit_bias":[[1.5,1]]`,
		"n_predict cannot be":  `"n_predict":"a"`,
		"must be an object, o": `"logit_bias":7`,
	} {
		f.refused("/completion", `{"prompt":"a",`+fields+`}`, 400, words)
	}
	f.post("/completion", `{"prompt":"a","logit_bias":[[5,1.5],[6,false]]}`)
	expect(t, f.engine.Last().LogitBias, map[string]float64{"5": 1.5, "6": -1e30})
	f.post("/completion", `{"prompt":"a","json_schema":{"type":"object"}}`)
	expect(t, f.object(string(f.engine.Last().ResponseFormat)), map[string]interface{}{"type": "json_schema",
		"json_schema": map[string]interface{}{"name": "answer", "schema": map[string]string{"type": "object"}}})
}

func TestAnInfillHasTheMarksOfTheModel(t *testing.T) {
	f := start(t, only)
	f.refused("/infill", `{"input_prefix":"a","input_suffix":"b"}`, 400, "does not support text between")
	f.engine.Infills = true
	f.post("/infill", `{"input_prefix":"a","input_suffix":"<|special|>","prompt":"c"}`)
	tokens := f.engine.Last().Tokens
	expect(t, tokens[:4], []int{0, 257, 97, 258}) // no tokens of a special kind in texts
	expect(t, tokens[4:15], []int32{60, 124, 115, 112, 101, 99, 105, 97, 108, 124, 62})
	expect(t, tokens[15:], []int{259, 99})
	f.post("/infill", `{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f","text":"t"}]}`)
	expect(t, f.engine.Last().Tokens[:5], []int{0, 260, 102, 10, 116})
	f.refused("/infill", `{"prompt":["a","b"]}`, 400, "one text")
	f.refused("/infill", `{"prompt":[1]}`, 400, "one text")
}

func TestPropertiesAndSlotsDescribeTheModel(t *testing.T) {
	f := startManaged(t, nil, &fake.Managed{Running: 1})
	_, text := f.do("GET", "/props", "")
	props := f.object(text)
	expect(t, props["total_slots"], 4)
	expect(t, props["model_alias"], "m")
	expect(t, props["chat_template"], "{{ messages }}")
	expect(t, props["bos_token"], "<s>")
	expect(t, props["build_info"], "quire 1.2.3")
	expect(t, at(props, "default_generation_settings", "n_ctx"), 4096)
	_, text = f.do("GET", "/slots", "")
	expect(t, f.object(`{"slots":` + text + `}`)["slots"], []map[string]interface{}{
		{"id": 0, "id_task": -1, "n_ctx": 4096, "speculative": false, "is_processing": true},
		{"id": 1, "id_task": -1, "n_ctx": 4096, "speculative": false, "is_processing": false},
		{"id": 2, "id_task": -1, "n_ctx": 4096, "speculative": false, "is_processing": false},
		{"id": 3, "id_task": -1, "n_ctx": 4096, "speculative": false, "is_processing": false}})
	response, _ := f.do("GET", "/slots?fail_on_no_slot=1", "")
	expect(t, response.StatusCode, 200)
	expect(t, f.engine.Models_.Load(), 0)
	full := startManaged(t, nil, &fake.Managed{Running: 4})
	response, _ = full.do("GET", "/slots?fail_on_no_slot=1", "")
	expect(t, response.StatusCode, 503)
	response, _ = full.do("GET", "/props?model=nobody", "")
	expect(t, response.StatusCode, 404)
	response, _ = full.do("POST", "/props", "{}")
	expect(t, response.StatusCode, 405)
}

func TestAModelOnDiskHasNoSlots(t *testing.T) {
	engine := &fake.Managed{}
	f := startManaged(t, nil, engine)
	_ = engine.Evict("m")
	_, text := f.do("GET", "/slots", "")
	expect(t, text, "[]")
}

func TestDescriptionsNeedAKeyOfTheirModel(t *testing.T) {
	f := startManaged(t, func(c *server.Config) {
		c.Models["secret"] = server.ModelConfig{Path: "x"}
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "o", Models: []string{"m"}}}
	}, &fake.Managed{})
	for _, path := range []string{"/props", "/slots", "/api/tags", "/api/ps"} {
		response, _ := f.do("GET", path, "")
		expect(t, response.StatusCode, 401)
	}
	f.key = "k"
	response, _ := f.do("GET", "/props", "") // of the only model of the key
	expect(t, response.StatusCode, 200)
	response, _ = f.do("GET", "/props?model=secret", "")
	expect(t, response.StatusCode, 404)
	f.refused("/api/show", `{"model":"secret"}`, 404, "not found")
	_, text := f.do("GET", "/api/tags", "")
	expect(t, len(f.object(text)["models"].([]interface{})), 1)
}

func TestATemplateIsApplied(t *testing.T) {
	f := start(t, only)
	expect(t, f.post("/apply-template", `{"messages":[{"role":"user","content":"hi"}]}`), map[string]string{"prompt": "[hi]"})
	f.refused("/apply-template", `{"messages":[]}`, 400, "messages")
}

func TestAnswersOfOpenAIHaveTimingsAndAFingerprint(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat("one two", ""))
	expect(t, at(body, "timings", "prompt_n"), 3)
	expect(t, at(body, "timings", "prompt_ms"), 3)
	first := body["system_fingerprint"].(string)
	expect(t, f.post("/v1/completions", `{"model":"m","prompt":"a"}`)["system_fingerprint"], first)
	if other := f.post("/v1/completions", `{"model":"other","prompt":"a"}`)["system_fingerprint"]; other == first {
		t.Error("two models have the fingerprint ", first)
	}
	events := f.stream("/v1/chat/completions", chat("one two", `,"stream":true`))
	expect(t, at(f.object(events[len(events)-2]), "timings", "predicted_n"), 2)
	expect(t, at(f.object(events[0]), "timings"), nil)
	expect(t, f.object(events[0])["system_fingerprint"], first)
}

func TestSamplersAndLimitsCountInACompletionOfLlamaCpp(t *testing.T) {
	f := start(t, only)
	f.post("/completion", `{"prompt":"a","repeat_penalty":1.2,"repeat_last_n":32,"mirostat":2,"typical_p":0.9,"dry_multiplier":0.8,
		"min_tokens":2,"bad_words":["x"],"n_cmpl":1,"json_schema":{}}`)
	g := f.engine.Last()
	expect(t, []interface{}{*g.RepetitionPenalty, *g.PenaltyRange, *g.MirostatTau, *g.Typical, *g.DRYMultiplier, g.MinNewTokens,
		g.BannedTexts, g.ResponseField}, []interface{}{1.2, 32, 5, 0.9, 0.8, 2, []string{"x"}, "json_schema"})
	f.post("/completion", `{"prompt":"a","dry_multiplier":0,"dry_sequence_breakers":["\n"]}`)
	f.post("/completion", `{"prompt":"abcd","structured_outputs":{"regex":"a+"},"max_tokens":3,"truncate_prompt_tokens":2}`)
	g = f.engine.Last()
	expect(t, []interface{}{g.ResponseField, g.MaxNewTokens, g.Tokens}, []interface{}{"structured_outputs.regex", 3, []int{99, 100}})
	f.refused("/completion", `{"prompt":"a","json_schema":{},"guided_regex":"a"}`, 400, "both constrain")
	f.refused("/completion", `{"prompt":"a","dry_multiplier":1,"dry_sequence_breakers":["\n"]}`, 400, "dry_sequence_breakers")
	f.refused("/completion", `{"prompt":"a","n":2}`, 400, "n must be 1")
	f.refused("/completion", `{"prompt":"a","repetition_penalty":1.1,"repeat_penalty":1.2}`, 400, "the same setting")
	f.refused("/apply-template", `{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`, 400, "chat_template is not supported")
	f.refused("/v1/tokenize", `{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`, 400, "chat_template is not supported")
	body := f.post("/v1/tokenize", `{"messages":[{"role":"user","content":"abcd"}],"truncate_prompt_tokens":2}`)
	expect(t, body["tokens"], []int{99, 100})
}
