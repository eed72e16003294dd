package server_test

import "testing"

func TestLlamaCppReportsTheTokensThatAreAskedFor(t *testing.T) {
	f := start(t, only)
	expect(t, f.post("/completion", `{"prompt":"one two"}`)["tokens"], []int{})
	expect(t, f.post("/completion", `{"prompt":"one two","return_tokens":true}`)["tokens"], []int{0, 1})
	events := f.stream("/completion", `{"prompt":"one two","stream":true}`)
	expect(t, at(f.object(events[1]), "tokens"), []int{1})
	expect(t, at(f.object(events[1]), "tokens_predicted"), 2)
	expect(t, at(f.object(events[2]), "tokens"), []int{})
	body := f.post("/completion", `{"prompt":"one two","n_probs":1}`)
	expect(t, at(body, "completion_probabilities", 0, "id") != nil, true)
	expect(t, at(body, "completion_probabilities", 0, "top_logprobs", 0, "id") != nil, true)
}

func TestLlamaCppReportsTheFieldsThatAreAskedFor(t *testing.T) {
	f := start(t, only)
	fields := `"response_fields":["content","generation_settings/n_predict","absent","content/x","timings/absent/x"]`
	want := map[string]interface{}{"content": "one ", "generation_settings/n_predict": 1}
	expect(t, f.post("/completion", `{"prompt":"one two","n_predict":1,`+fields+`}`), want)
	events := f.stream("/completion", `{"prompt":"one two","n_predict":1,"stream":true,`+fields+`}`)
	want["content"] = "" // the last event has no text
	expect(t, f.object(events[1]), want)
}

func TestBiasesOfLlamaCppMayBeOfTexts(t *testing.T) {
	f := start(t, only)
	biases := func() interface{} { return f.engine.Last().LogitBias }
	body := f.post("/completion", `{"prompt":"a","logit_bias":[["bc",-2],["5",1],[6,false]]}`)
	expect(t, biases(), map[string]float64{"98": -2, "99": -2, "53": 1, "6": -1e30})
	expect(t, at(body, "generation_settings", "logit_bias", 0), map[string]interface{}{"token": 6, "bias": nil})
	expect(t, at(body, "generation_settings", "logit_bias", 1), map[string]interface{}{"token": 53, "bias": 1})
	f.post("/completion", `{"prompt":"a","logit_bias":{"bc":-2,"5":1}}`)
	expect(t, biases(), map[string]float64{"98": -2, "99": -2, "5": 1})
	f.refused("/v1/completions", `{"prompt":"a","logit_bias":[["bc",1]]}`, 400, `the key \"bc\"`)
	f.refused("/v1/completions", `{"prompt":"a","logit_bias":{"bc":1}}`, 400, `the key \"bc\"`)
	expect(t, at(f.post("/completion", `{"prompt":"a"}`), "generation_settings", "logit_bias"), []int{})
}

func TestInputsOfEmbeddingsMayHaveLlamaCppsForms(t *testing.T) {
	f := start(t, only)
	text := at(f.post("/v1/embeddings", `{"input":"ab"}`), "data", 0, "embedding")
	for _, input := range []string{`{"prompt_string":"ab"}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`} {
		body := f.post("/v1/embeddings", `{"input":`+input+`}`)
		expect(t, at(body, "data", 0, "embedding"), text)
		expect(t, at(f.post("/v1/embeddings", `{"input":["x",`+input+`]}`), "data", 1, "embedding"), text)
	}
	expect(t, len(f.post("/v1/embeddings", `{"input":[97,"b",99]}`)["data"].([]interface{})), 1)
	expect(t, len(f.post("/v1/embeddings", `{"input":[[97,98],"c",[97,"b"]]}`)["data"].([]interface{})), 3)
	f.post("/v1/embeddings", `{"input":""}`)
	for _, input := range []string{`[]`, `7.5`, `[null]`, `{"content":"a"}`, `{"content":[{"type":"image_url"}]}`, `{"x":1}`,
		`{"prompt_string":"a","multimodal_data":["x"]}`} {
		param, _, _ := f.refusal("POST", "/v1/embeddings", `{"input":`+input+`}`, 400)
		expect(t, param, "input")
	}
}

func TestTextsAreRankedInTheFormOfTextEmbeddingsInference(t *testing.T) {
	f := start(t, only)
	_, text := f.do("POST", "/rerank", `{"query":"abc","texts":["xyz","cab"],"return_text":true,"top_n":1}`)
	expect(t, text, `[{"index":1,"score":1,"text":"cab"}]`)
	_, text = f.do("POST", "/rerank", `{"query":"abc","texts":["cab"]}`)
	expect(t, text, `[{"index":0,"score":1}]`)
	f.refused("/rerank", `{"query":"abc","texts":["a"],"documents":["a"]}`, 400, "exclude each other")
	f.refused("/rerank", `{"query":"abc","texts":[]}`, 400, "documents")
}

func TestAModelListsItsAliases(t *testing.T) {
	f := start(t, nil)
	_, text := f.do("GET", "/v1/models/m", "")
	expect(t, at(f.object(text), "aliases"), []string{"gpt-4o"})
	_, text = f.do("GET", "/v1/models/gpt-4o", "")
	expect(t, at(f.object(text), "aliases"), nil)
}

func TestAContentIsATextOrAListOfParts(t *testing.T) {
	f := start(t, nil)
	for _, content := range []string{`7`, `{"a":1}`, `true`, `[{"type":"text","text":7}]`} {
		f.refused("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":`+content+`}]}`, 400, "messages[0].content")
	}
}

func TestVllmsPathsHaveTheVersionAndTheLoad(t *testing.T) {
	f := start(t, nil)
	_, text := f.do("GET", "/version", "")
	expect(t, f.object(text)["version"] != "", true)
	_, text = f.do("GET", "/load", "")
	expect(t, f.object(text), map[string]int{"server_load": 0})
}
