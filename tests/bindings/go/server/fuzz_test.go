package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// echoEngine answers every generation with a reasoning, a text and a call. It fails a test if the server
// passes on what is not JSON.
type echoEngine struct{ t *testing.T }

func (e echoEngine) Open(context.Context, string) (server.Model, error) { return echoModel{e.t}, nil }

type echoModel struct{ t *testing.T }

func (m echoModel) check(p *server.Prompt) {
	for name, text := range map[string]json.RawMessage{"messages": p.Messages, "tools": p.Tools, "arguments": p.TemplateArgs} {
		if text != nil && !json.Valid(text) {
			m.t.Errorf("the %s are not JSON: %q", name, text)
		}
	}
}

func (m echoModel) Submit(_ context.Context, g *server.Generation) (server.Stream, error) {
	m.check(&g.Prompt)
	if g.ResponseFormat != nil && !json.Valid(g.ResponseFormat) {
		m.t.Errorf("the format is not JSON: %q", g.ResponseFormat)
	}
	token := server.TokenLogProb{Token: "a", Bytes: []byte("a"), Log: -1}
	return &echoStream{pieces: []server.Piece{
		{Kind: server.PieceReasoning, Text: "so"},
		{Kind: server.PieceText, Text: "a", LogProbs: []server.TokenLogProb{token}},
		{Kind: server.PieceCallBegun, CallID: "call_1", Name: "f"},
		{Kind: server.PieceArguments, Text: "{}"},
		{Kind: server.PieceCallEnded},
	}}, nil
}

func (m echoModel) Embed(_ context.Context, p server.Prompt, _ server.Scheduling) (server.Embedding, error) {
	m.check(&p)
	return server.Embedding{Vector: []float32{1, 0.5}}, nil
}

func (m echoModel) Score(_ context.Context, p server.Prompt, _ server.Scheduling) (server.Scores, error) {
	m.check(&p)
	return server.Scores{Tokens: []int32{1, 2}, LogProbs: []float64{-1}}, nil
}

func (m echoModel) PromptLogProbs(_ context.Context, g *server.Generation, top int) ([]server.TokenLogProb, server.Usage, error) {
	m.check(&g.Prompt)
	entry := server.TokenLogProb{ID: 1, Token: "a", Bytes: []byte("a"), Log: -1, Rank: 1}
	for i := 0; i < top; i++ {
		entry.Top = append(entry.Top, entry)
	}
	return []server.TokenLogProb{{ID: 2, Log: math.NaN(), Special: true}, entry}, server.Usage{Prompt: 2}, nil
}

func (m echoModel) Tokenize(string, bool) ([]int32, error) { return []int32{1, 2}, nil }

func (m echoModel) Detokenize([]int32) (string, error) { return "a", nil }

func (m echoModel) TokenizeMarkup(string, bool) ([]int32, error) { return []int32{1, 2}, nil }

func (m echoModel) TokenBytes(int32) ([]byte, error) { return []byte{0xff}, nil }

func (m echoModel) FindToken(string) (int32, error) { return 1, nil }

func (m echoModel) PromptText(g *server.Generation) (string, error) {
	m.check(&g.Prompt)
	return "a", nil
}

func (m echoModel) PromptTokens(g *server.Generation) ([]int32, error) {
	m.check(&g.Prompt)
	return []int32{1, 2}, nil
}

func (m echoModel) PromptChanges(g *server.Generation) (json.RawMessage, error) {
	m.check(&g.Prompt)
	return json.RawMessage("[]"), nil
}

func (m echoModel) Info() server.ModelInfo {
	return server.ModelInfo{ContextTokens: 4096, VocabSize: 256, HasTemplate: true}
}

func (m echoModel) LongestToken() (int, error) { return 16, nil }

func (m echoModel) Close() {}

type echoStream struct{ pieces []server.Piece }

func (s *echoStream) Progress() server.Progress { return server.Progress{} }

func (s *echoStream) Hold(bool) {}

func (s *echoStream) Next(context.Context) (server.Piece, error) {
	if len(s.pieces) == 0 {
		return server.Piece{}, io.EOF
	}
	piece := s.pieces[0]
	s.pieces = s.pieces[1:]
	return piece, nil
}

func (s *echoStream) Result() server.Result { return server.Result{} }

func (s *echoStream) Close() {}

func fuzzConfig(t testing.TB) *server.Config {
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	return config
}

// sendAny sends any body to a path. The server answers in JSON or with a stream, refuses with a message, and
// never fails inside.
func sendAny(t *testing.T, config *server.Config, path string, body []byte) *httptest.ResponseRecorder {
	var log bytes.Buffer
	s := server.New(echoEngine{t}, config, server.NewLogger(&log))
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	text := answer.Body.Bytes()
	if answer.Code >= 500 || strings.Contains(log.String(), "failed inside the server") {
		t.Fatalf("%d %s\n%s", answer.Code, text, log.String())
	}
	if strings.HasPrefix(answer.Header().Get("Content-Type"), "text/event-stream") {
		return answer
	}
	if answer.Header().Get("Content-Type") == "application/x-ndjson" {
		for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			if !json.Valid(line) {
				t.Fatalf("a line is not JSON: %q", line)
			}
		}
		return answer
	}
	if !json.Valid(text) {
		t.Fatalf("%d: the answer is not JSON: %q", answer.Code, text)
	}
	if answer.Code != http.StatusOK && strings.HasPrefix(path, "/api/") {
		checkOllamaRefusal(t, answer.Code, text)
	} else if answer.Code != http.StatusOK {
		checkRefusal(t, answer.Code, text)
	}
	return answer
}

func fuzzRequests(f *testing.F, path string, bodies ...string) {
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	config := fuzzConfig(f)
	f.Fuzz(func(t *testing.T, body []byte) { sendAny(t, config, path, body) })
}

func checkRefusal(t *testing.T, status int, text []byte) {
	var refusal struct {
		Error struct {
			Message string
			Type    string
		}
	}
	if err := json.Unmarshal(text, &refusal); err != nil || refusal.Error.Message == "" || refusal.Error.Type == "" {
		t.Fatalf("%d without a message: %s", status, text)
	}
}

func checkOllamaRefusal(t *testing.T, status int, text []byte) {
	var refusal struct{ Error string }
	if err := json.Unmarshal(text, &refusal); err != nil || refusal.Error == "" {
		t.Fatalf("%d without a message: %s", status, text)
	}
}

const (
	fuzzMessages = `"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
		{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
		{"role": "tool", "tool_call_id": "c1", "content": "2"}]`
	fuzzTools    = `"tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]`
	fuzzSampling = `"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 7, "frequency_penalty": 0.1, "presence_penalty": -0.1,
		"repetition_penalty": 1.1, "logit_bias": {"5": -100}, "stop": ["\n", "x"], "max_tokens": 3, "n": 2, "user": "u"`
)

func FuzzChatCompletions(f *testing.F) {
	fuzzRequests(f, "/v1/chat/completions",
		`{"model": "m", `+fuzzMessages+`}`,
		`{"model": "m", "stream": true, "stream_options": {"include_usage": true}, `+fuzzMessages+`, `+fuzzTools+`, "tool_choice": "auto"}`,
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "logprobs": true, "top_logprobs": 2, `+fuzzSampling+`}`,
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
			"reasoning_effort": "none", "chat_template_kwargs": {"a": 1}, "parallel_tool_calls": false}`,
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], `+fuzzTools+`, "tool_choice": {"type": "function", "function": {"name": "f"}}}`,
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "functions": [{"name": "f", "parameters": {}}], "function_call": {"name": "f"},
			"structured_outputs": {"json": {"type": "object"}, "disable_any_whitespace": true}, "prompt_logprobs": 1, "return_token_ids": true}`,
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], `+fuzzTools+`, "truncate_prompt_tokens": 1, "min_tokens": 1, "bad_words": ["x"],
			"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}}}`,
		`{"model": "m", "messages": []}`)
}

func FuzzCompletions(f *testing.F) {
	fuzzRequests(f, "/v1/completions",
		`{"model": "m", "prompt": "hi", "stream": true}`,
		`{"model": "m", "prompt": ["hi", "there"], "echo": true, "logprobs": 2, `+fuzzSampling+`}`,
		`{"model": "m", "prompt": [1, 2, 3], "suffix": "x"}`,
		`{"model": "m", "prompt": [1, 2, 3], "echo": true, "logprobs": 1, "max_tokens": 0, "return_tokens_as_token_ids": true}`,
		`{"model": "m", "prompt": "hi", "logit_bias": [[1, 2], [3, false]], "mirostat": 2, "dynatemp_range": 0.5, "temperature": 1, "n_predict": 3,
			"best_of": 2, "guided_choice": ["a", "b"], "truncate_prompt_tokens": -1, "stop_token_ids": [1]}`,
		`{"model": "m", "prompt": [[1, 2], [3]], "best_of": 1, "grammar": "root ::= \"a\""}`)
}

func FuzzEmbeddings(f *testing.F) {
	fuzzRequests(f, "/v1/embeddings",
		`{"model": "m", "input": "hi"}`,
		`{"model": "m", "input": ["hi", "there"], "encoding_format": "base64", "dimensions": 2}`,
		`{"model": "m", "input": [[1, 2], [3]]}`)
}

func FuzzResponses(f *testing.F) {
	fuzzRequests(f, "/v1/responses",
		`{"model": "m", "input": "hi", "instructions": "be brief", "store": true}`,
		`{"model": "m", "stream": true, "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
			{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c1", "output": "2"}, {"type": "reasoning", "summary": []}],
			"tools": [{"type": "function", "name": "f", "parameters": {}}], "reasoning": {"effort": "low"}}`,
		`{"model": "m", "input": "hi", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}, "previous_response_id": "resp_1"}`,
		`{"model": "m", "input": [{"type": "item_reference", "id": "i"}], "conversation": {"id": "c"}, "background": true, "truncation": "auto"}`,
		`{"model": "m", "input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
			"include": ["message.output_text.logprobs"], "top_logprobs": 2, "truncation": "auto", "max_output_tokens": 5, "metadata": {"a": "b"},
			"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}}`)
}

func FuzzMessages(f *testing.F) {
	fuzzRequests(f, "/v1/messages",
		`{"model": "m", "max_tokens": 5, "system": "be brief", "messages": [{"role": "user", "content": "hi"}]}`,
		`{"model": "m", "max_tokens": 5, "stream": true, "system": [{"type": "text", "text": "s"}], "messages": [
			{"role": "user", "content": [{"type": "text", "text": "hi"}]},
			{"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "2"}], "is_error": false}]}],
			"tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
			"thinking": {"type": "enabled", "budget_tokens": 1024}, "stop_sequences": ["x"], "temperature": 1, "top_k": 3, "metadata": {"user_id": "u"}}`,
		`{"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], "thinking": {"type": "adaptive", "display": "omitted"},
			"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}, "context_management": {"edits": []}}`)
}

func FuzzOllamaChat(f *testing.F) {
	fuzzRequests(f, "/api/chat",
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false}`,
		`{"model": "m:latest", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi", "images": []},
			{"role": "assistant", "content": "", "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
			{"role": "tool", "tool_name": "f", "content": "2"}], `+fuzzTools+`, "think": "high", "format": {"type": "object"}, "keep_alive": "5m",
			"options": {"num_predict": 3, "temperature": 0.5, "stop": ["x"], "seed": -1, "num_ctx": 9, "mirostat": 0, "repeat_last_n": 64}}`,
		`{"model": "m", "messages": [], "keep_alive": 0}`)
}

func FuzzOllamaGenerate(f *testing.F) {
	fuzzRequests(f, "/api/generate",
		`{"model": "m", "prompt": "hi", "system": "s", "format": "json", "think": false}`,
		`{"model": "m", "prompt": "hi", "raw": true, "stream": false, "options": {"top_k": 3, "repeat_penalty": 1.1}, "logprobs": true, "top_logprobs": 1}`,
		`{"model": "m", "prompt": "hi", "suffix": "x", "stream": false, "context": [1], "template": "t", "images": ["x"]}`)
}

func FuzzLlamaCompletion(f *testing.F) {
	fuzzRequests(f, "/completion",
		`{"prompt": "hi", "n_predict": 3, "stream": true, "n_probs": 2, "logit_bias": [[5, 1.5], [6, false]], "cache_prompt": true}`,
		`{"prompt": ["a", [1, "b"], {"prompt_string": "c"}], "json_schema": {"type": "object"}, "repeat_penalty": 1.1, "samplers": []}`,
		`{"prompt": [1, 2, "x"], "grammar": "root ::= \"a\"", "logit_bias": {"5": 1}, "seed": 4294967295, "typical_p": 1.0}`)
}

func FuzzRerank(f *testing.F) {
	fuzzRequests(f, "/v1/rerank",
		`{"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": true}`,
		`{"query": "q", "documents": ["a"], "max_tokens_per_doc": 3, "rank_fields": ["text"], "max_chunks_per_doc": 1}`)
}

func FuzzSmallRequests(f *testing.F) {
	paths := []string{"/v1/tokenize", "/v1/detokenize", "/v1/score", "/v1/messages/count_tokens",
		"/v1/chat/completions/render", "/v1/completions/render", "/v1/responses/input_tokens", "/v1/conversations", "/infill",
		"/apply-template", "/api/embed", "/api/embeddings", "/api/show", "/api/pull"}
	for i := range paths {
		for _, body := range []string{`{"model": "m", "prompt": "hi", "text": "hi", "tokens": [1, 2], "input": "hi", "add_special_tokens": true}`,
			`{"content": "hi", "with_pieces": true, "parse_special": false, "input_prefix": "a", "input_suffix": "b", "input_extra":
				[{"filename": "f", "text": "t"}], "dimensions": 2, "truncate": true, "name": "m", "messages": [{"role": "user", "content": "x"}]}`,
			`{"model": "m", "max_tokens": 5, ` + fuzzMessages + `, ` + fuzzTools + `}`,
			`{"items": [{"role": "user", "content": "hi"}], "metadata": {"a": "b"}}`} {
			f.Add(byte(i), []byte(body))
		}
	}
	config := fuzzConfig(f)
	f.Fuzz(func(t *testing.T, path byte, body []byte) { sendAny(t, config, paths[int(path)%len(paths)], body) })
}

// Mutations of refused bodies would reach little of the server.
func TestTheServerAcceptsBodiesThatItsFuzzersBeginWith(t *testing.T) {
	config := fuzzConfig(t)
	for path, body := range map[string]string{
		"/v1/chat/completions":      `{"model": "m", ` + fuzzMessages + `, ` + fuzzTools + `}`,
		"/v1/completions":           `{"model": "m", "prompt": "hi", ` + strings.Replace(fuzzSampling, `"n": 2, `, "", 1) + `}`,
		"/v1/messages/count_tokens": `{"model": "m", "messages": [{"role": "user", "content": "hi"}]}`,
		"/v1/tokenize":              `{"model": "m", "prompt": "hi"}`,
	} {
		if answer := sendAny(t, config, path, []byte(body)); answer.Code != http.StatusOK {
			t.Error(path, ": ", answer.Code, " ", answer.Body)
		}
	}
}
