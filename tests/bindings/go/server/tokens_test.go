package server_test

import "testing"

func TestATextIsTokenizedInTheFormOfItsField(t *testing.T) {
	f := start(t, only)
	body := f.post("/v1/tokenize", `{"model":"m","prompt":"ab","return_token_strs":true}`)
	expect(t, body, map[string]interface{}{"tokens": []int{0, 97, 98}, "count": 3, "max_model_len": 4096,
		"token_strs": []string{"\x00", "a", "b"}})
	expect(t, f.post("/v1/tokenize", `{"prompt":"ab","add_special_tokens":false}`)["count"], 2)
	expect(t, f.post("/tokenize", `{"content":"ab"}`), map[string]interface{}{"tokens": []int{97, 98}})
	expect(t, f.post("/tokenize", `{"content":"a<|special|>","add_special":true}`)["tokens"], []int{0, 97, 256})
	expect(t, len(f.post("/tokenize", `{"content":"<|special|>","parse_special":false}`)["tokens"].([]interface{})), 11)
	expect(t, f.post("/tokenize", `{"content":""}`)["tokens"], []int{})
}

func TestAPieceThatIsNotUTF8IsAListOfBytes(t *testing.T) {
	f := start(t, only)
	expect(t, f.post("/tokenize", `{"content":"aé","with_pieces":true}`)["tokens"], []map[string]interface{}{
		{"id": 97, "piece": "a"}, {"id": 195, "piece": []int{195}}, {"id": 169, "piece": []int{169}}})
}

func TestAConversationIsTokenizedAsItsChatWouldBe(t *testing.T) {
	f := start(t, nil)
	messages := `"model":"m","messages":[{"role":"user","content":"four"}]`
	expect(t, f.post("/v1/tokenize", `{`+messages+`}`)["count"], 4)
	expect(t, f.post("/v1/tokenize", `{`+messages+`,"add_special_tokens":false}`)["count"], 4)
	f.refused("/v1/tokenize", `{`+messages+`,"add_special_tokens":true}`, 400, "add_special_tokens")
	f.refused("/v1/tokenize", `{`+messages+`,"prompt":"x"}`, 400, "exclude each other")
	f.refused("/v1/tokenize", `{"model":"m","messages":[]}`, 400, "messages")
	f.refused("/v1/tokenize", `{"model":"m","content":7}`, 400, "content")
}

func TestTokensBecomeTextUnderBothNames(t *testing.T) {
	f := start(t, only)
	expect(t, f.post("/detokenize", `{"tokens":[97,98]}`), map[string]string{"prompt": "ab", "content": "ab"})
	expect(t, f.post("/v1/detokenize", `{"model":"m","tokens":[]}`)["prompt"], "")
}

// With several models a request has to name one.
func TestOnlyTheOnlyModelNeedsNoName(t *testing.T) {
	f := start(t, nil)
	f.refused("/tokenize", `{"content":"a"}`, 400, "model is missing")
	f.refused("/completion", `{"prompt":"a"}`, 400, "model is missing")
	f = start(t, only)
	expect(t, f.post("/v1/completions", `{"prompt":"a"}`)["model"], "m")
	for path, body := range map[string]string{
		"/v1/chat/completions":       `{"messages":[{"role":"user","content":"a"}]}`,
		"/v1/responses":              `{"input":"a"}`,
		"/v1/responses/input_tokens": `{"input":"a"}`,
		"/v1/messages":               `{"max_tokens":9,"messages":[{"role":"user","content":"a"}]}`,
		"/v1/embeddings":             `{"input":"a"}`,
		"/v1/score":                  `{"input":"a"}`,
		"/v1/completions/render":     `{"prompt":"a"}`,
	} {
		if response, text := f.do("POST", path, body); response.StatusCode != 200 {
			t.Error(path, text)
		}
	}
}
