package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// Fields of other servers' requests, from their published schemas: OpenAI, vLLM 0.26, llama.cpp's server.
const (
	openAIChatFields = `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
		max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty
		prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier
		seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
		web_search_options`
	openAICompletionFields = `best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty prompt
		seed stop stream stream_options suffix temperature top_p user`
	vllmFields = `use_beam_search top_k min_p repetition_penalty watermarking length_penalty stop_token_ids
		include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens
		truncate_prompt_tokens truncation_side prompt_logprobs logprob_token_ids allowed_token_ids bad_words
		add_special_tokens structured_outputs priority request_id session_id return_tokens_as_token_ids return_token_ids
		routed_experts_prompt_start return_token_offsets return_mm_kwargs cache_salt kv_transfer_params ec_transfer_params
		vllm_xargs repetition_detection stream_interval thinking_token_budget guided_json guided_regex guided_choice
		guided_grammar guided_decoding_backend guided_whitespace_pattern logits_processors response_format`
	vllmChatFields = `include_reasoning echo add_generation_prompt continue_final_message documents chat_template
		chat_template_kwargs media_io_kwargs mm_processor_kwargs return_prompt_text`
	vllmCompletionFields = `prompt_embeds`
	llamaFields          = `temperature dynatemp_range dynatemp_exponent top_k top_p min_p n_predict n_indent n_keep n_discard
		n_cmpl n_cache_reuse stream stop typical_p repeat_penalty repeat_last_n presence_penalty frequency_penalty
		dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers xtc_probability xtc_threshold
		mirostat mirostat_tau mirostat_eta grammar json_schema seed ignore_eos logit_bias n_probs min_keep t_max_predict_ms
		id_slot cache_prompt return_tokens samplers timings_per_token return_progress sse_ping_interval
		post_sampling_probs response_fields lora top_n_sigma adaptive_target adaptive_decay backend_sampling grammar_lazy
		grammar_triggers preserved_tokens reasoning_format reasoning_control thinking_forced_open parse_tool_calls
		chat_format chat_parser`
)

var fieldsOfOthers = map[string]string{
	"/v1/chat/completions": openAIChatFields + " " + vllmFields + " " + vllmChatFields + " " + llamaFields,
	"/v1/completions":      openAICompletionFields + " " + vllmFields + " " + vllmCompletionFields + " " + llamaFields,
	"/completion":          llamaFields + " prompt",
	"/v1/responses": `background conversation include input instructions max_output_tokens max_tool_calls metadata model
		moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning
		safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p
		truncation user context_management`,
	"/v1/messages": `cache_control container inference_geo max_tokens mcp_servers messages metadata model output_config
		service_tier stop_sequences stream system temperature thinking tool_choice tools top_k top_p betas context_management
		speed`,
	"/api/chat": `model messages tools format options stream think keep_alive logprobs top_logprobs truncate shift`,
	"/api/generate": `model prompt suffix images format options system template stream raw keep_alive context think logprobs
		top_logprobs truncate shift`,
	"/api/chat#options": `num_keep seed num_predict top_k top_p min_p typical_p repeat_last_n temperature repeat_penalty
		presence_penalty frequency_penalty penalize_newline stop numa num_ctx num_batch num_gpu main_gpu use_mmap num_thread
		tfs_z mirostat mirostat_tau mirostat_eta low_vram f16_kv logits_all vocab_only use_mlock`,
	"/api/embed":     `model input truncate dimensions options keep_alive`,
	"/api/show":      `model verbose system template options`,
	"/api/pull":      `model insecure stream`,
	"/v1/embeddings": `model input encoding_format dimensions user`,
	"/v1/rerank":     `model query documents top_n return_documents max_chunks_per_doc max_tokens_per_doc rank_fields`,
	"/v1/tokenize":   `model prompt add_special_tokens return_token_strs messages content add_special parse_special with_pieces`,
}

// textPaths are those whose bodies have OpenAI's fields of texts.
var textPaths = []string{"/v1/chat/completions", "/v1/completions"}

func rulesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	rules, is := server.RulesOfFields(path)
	if !is {
		t.Fatal(path)
	}
	out := map[string]string{}
	for rule, names := range map[string][]string{"obeyed": rules.Obeyed, "refused": rules.Refused,
		"passed over": rules.PassedOver} {
		if !sort.StringsAreSorted(names) {
			t.Errorf("%s: the list of fields that are %s is in no order", path, rule)
		}
		for _, name := range names {
			if other, twice := out[name]; twice {
				t.Errorf("%s: %s is both %s and %s", path, name, other, rule)
			}
			out[name] = rule
		}
	}
	return out
}

func TestEveryFieldOfOtherServersHasARule(t *testing.T) {
	for path, names := range fieldsOfOthers {
		rules := rulesOf(t, path)
		for _, name := range strings.Fields(names) {
			has := rules[name] != ""
			for other := range rules {
				has = has || strings.HasPrefix(other, name+".")
			}
			if !has {
				t.Errorf("%s: %s has no rule", path, name)
			}
		}
	}
	if _, is := server.RulesOfFields("/v1/models"); is {
		t.Error("rules of a path without a body")
	}
}

// Paths of the bodies in docs/fields.md, under their names there.
var documentedBodies = []struct{ name, path string }{
	{"chats", "/v1/chat/completions"}, {"completions", "/v1/completions"}, {"llama.cpp", "/completion"},
	{"responses", "/v1/responses"}, {"messages", "/v1/messages"}, {"ollama chats", "/api/chat"},
	{"ollama prompts", "/api/generate"}, {"ollama options", "/api/chat#options"}, {"embeddings", "/v1/embeddings"},
	{"ollama embeddings", "/api/embed"}, {"scores", "/v1/score"}, {"rerank", "/v1/rerank"}, {"tokenize", "/v1/tokenize"},
	{"detokenize", "/v1/detokenize"}, {"conversations", "/v1/conversations"}, {"ollama models", "/api/show"}, {"ollama pulls", "/api/pull"},
}

// startAnswering starts a server that answers every path with a body.
func startAnswering(t *testing.T) *fixture {
	f, _ := startPuller(t, nil)
	return f
}

// ruleRows returns the rows of the document: | RULE | BODIES | `FIELD`, `FIELD` |.
func ruleRows(t *testing.T) []string {
	t.Helper()
	bodies := map[string][]string{} // names of bodies by a rule and a field
	for _, body := range documentedBodies {
		for name, rule := range rulesOf(t, body.path) {
			bodies[rule+" "+name] = append(bodies[rule+" "+name], body.name)
		}
	}
	fields := map[string][]string{} // by the beginning of their row
	for key, names := range bodies {
		rule, field := key[:strings.LastIndexByte(key, ' ')], key[strings.LastIndexByte(key, ' ')+1:]
		list := strings.Join(names, ", ")
		if len(names) == len(documentedBodies) {
			list = "all"
		}
		begin := "| " + rule + " | " + list + " | "
		fields[begin] = append(fields[begin], "`"+field+"`")
	}
	var rows []string
	for begin, names := range fields {
		sort.Strings(names)
		rows = append(rows, begin+strings.Join(names, ", ")+" |")
	}
	sort.Strings(rows)
	return rows
}

func TestTheDocumentListsTheRulesOfFields(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "| obeyed |") || strings.HasPrefix(line, "| passed over |") || strings.HasPrefix(line, "| refused |") {
			written = append(written, line)
		}
	}
	if rows := strings.Join(ruleRows(t), "\n"); rows != strings.Join(written, "\n") {
		t.Errorf("the table of docs/fields.md must be:\n%s", rows)
	}
}

// body returns a request for a path with further members.
func body(path, more string) string {
	switch path {
	case "/v1/completions":
		return `{"model":"m","prompt":"x"` + more + `}`
	case "/completion":
		return `{"model":"m","prompt":[120]` + more + `}`
	case "/v1/responses":
		return `{"model":"m","input":"x"` + more + `}`
	case "/v1/messages":
		return message("x", more)
	case "/api/chat":
		return ollamaChat("x", `,"stream":false`+more)
	case "/api/generate":
		return `{"model":"m","prompt":"x","stream":false` + more + `}`
	case "/api/chat#options":
		return ollamaChat("x", `,"stream":false,"options":{`+strings.TrimPrefix(more, ",")+`}`)
	case "/v1/embeddings", "/api/embed", "/v1/score":
		return `{"model":"m","input":"x"` + more + `}`
	case "/v1/rerank":
		return `{"model":"m","query":"x","documents":["x"]` + more + `}`
	case "/v1/detokenize":
		return `{"model":"m","tokens":[120]` + more + `}`
	case "/v1/tokenize":
		return `{"model":"m","prompt":"x"` + more + `}`
	case "/api/pull":
		return `{"model":"m","stream":false` + more + `}`
	case "/api/show":
		return `{"model":"m"` + more + `}`
	case "/v1/conversations":
		return `{` + strings.TrimPrefix(more, ",") + `}`
	}
	return chat("x", more)
}

// besides has the settings without which a field has no effect.
var besides = map[string]string{"adaptive_decay": `,"adaptive_target":0.5`, "dry_sequence_breakers": `,"dry_multiplier":1`,
	"penalize_nl": `,"repetition_penalty":2`, "penalize_newline": `,"repeat_penalty":2`}

// member returns a member of a body by its path.
func member(path, value string) string {
	if object, name, nested := strings.Cut(path, "."); nested && object != "speculative" {
		return fmt.Sprintf(`,%q:{%q:%s}`, object, name, value)
	}
	return fmt.Sprintf(`,%q:%s`, path, value)
}

func TestFieldsThatWouldBeIgnoredAreRefusedByName(t *testing.T) {
	f := startAnswering(t)
	for _, each := range documentedBodies {
		rules := rulesOf(t, each.path)
		rules["a_field_of_a_later_version"] = "unknown"
		path, prefix := strings.TrimSuffix(each.path, "#options"), ""
		if path != each.path {
			prefix = "options."
		}
		for name, rule := range rules {
			if rule == "obeyed" {
				continue
			}
			response, text := f.do("POST", path, body(each.path, member(name, `"x7"`)))
			if rule == "passed over" {
				if response.StatusCode != 200 {
					t.Errorf("%s: %s: %d %s", each.name, name, response.StatusCode, text)
				}
				continue
			}
			if besides[name] != "" {
				expect(t, response.StatusCode, 200)
				response, text = f.do("POST", path, body(each.path, member(name, `"x7"`)+besides[name]))
			}
			checkFieldRefusal(t, f.object(text), each.path, prefix+name, rule)
			expect(t, response.StatusCode, 400)
		}
	}
}

func TestAFieldThatAsksForNothingPasses(t *testing.T) {
	f := startAnswering(t)
	for _, each := range documentedBodies {
		for _, nothing := range []string{"null", "[]", "{ }", `""`} {
			more := ""
			for name, rule := range rulesOf(t, each.path) {
				if rule == "refused" && !strings.Contains(name, ".") {
					more += member(name, nothing)
				}
			}
			response, text := f.do("POST", strings.TrimSuffix(each.path, "#options"), body(each.path, more+member("later", nothing)))
			if response.StatusCode != 200 {
				t.Errorf("%s: %s: %d %s", each.name, nothing, response.StatusCode, text)
			}
		}
	}
}

func checkFieldRefusal(t *testing.T, answer map[string]interface{}, path, name, rule string) {
	t.Helper()
	want := name + " is not supported; "
	if rule == "unknown" {
		want = name + " is not a field of this request; "
	}
	message, _ := at(answer, "error", "message").(string)
	if text, is := answer["error"].(string); is {
		message = text // of ollama
	}
	if !strings.HasPrefix(message, want) && !strings.Contains(message, "adaptive_target is not supported") {
		t.Errorf("%s: %s: %s", path, name, message)
	}
	if param := at(answer, "error", "param"); param != nil && param != name && param != "adaptive_target" {
		t.Errorf("%s: %s: the refusal is about %v", path, name, param)
	}
}

func TestAFieldHasOneSpelling(t *testing.T) {
	f := startAnswering(t)
	for _, path := range textPaths { // encoding/json would accept it
		param, code, _ := f.refusal("POST", path, body(path, `,"Temperature":0`), 400)
		expect(t, []string{param, code}, []string{"Temperature", "unknown_parameter"})
	}
	param, _, message := f.refusal("POST", "/v1/embeddings", body("/v1/embeddings", `,"`+strings.Repeat("a", 1<<20)+`":1`), 400)
	if len(param)+len(message) > 1000 {
		t.Errorf("the refusal has %d bytes", len(param)+len(message))
	}
	param, _, _ = f.refusal("POST", "/v1/chat/completions", chat("x", `,"stream_options":{"include_usage":true,"colour":1}`), 400)
	expect(t, param, "stream_options.colour")
}

func TestDefaultsOfRefusedFieldsPass(t *testing.T) {
	f := startAnswering(t)
	for path, more := range map[string]string{
		"/v1/chat/completions": `,"use_beam_search":false,"length_penalty":1.0,"echo":false,"modalities":[ "text" ],
			"audio":null,"best_of":1,"n_keep":0,"verbosity":"medium","web_search_options":{},"lora":[],"n_probs":0,"suffix":"",
			"stream_options":{"include_obfuscation":false,"continuous_usage_stats":false}`,
		"/v1/completions": `,"tools":[],"tool_choice":"auto","messages":[],"vllm_xargs":{},"suffix":"","top_logprobs":0,
			"logits_processors":null`,
		"/completion":   `,"adaptive_target":-1.0,"samplers":[],"t_max_predict_ms":0,"penalize_nl":true,"logprobs":0`,
		"/v1/responses": `,"prompt":null,"context_management":[],"reasoning":{"summary":"auto"},"stream_options":{"include_obfuscation":true}`,
		"/v1/messages":  `,"container":null,"mcp_servers":[]`,
		"/api/chat":     `,"options":{"tfs_z":1,"num_ctx":4096,"vocab_only":false}`,
	} {
		response, text := f.do("POST", path, body(path, more))
		if response.StatusCode != 200 {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// generationOf returns the generation that a request becomes.
func (f *fixture) generationOf(path, more string) *server.Generation {
	f.t.Helper()
	f.post(path, body(path, more))
	return f.engine.Last()
}

func TestFieldsReachTheEngine(t *testing.T) {
	f := startAnswering(t)
	type checks func(g *server.Generation) interface{}
	cases := []struct {
		more string
		get  checks
		want interface{}
	}{
		{`,"min_tokens":3,"max_tokens":9`, func(g *server.Generation) interface{} { return g.MinNewTokens }, 3},
		{`,"stop_token_ids":[7,8]`, func(g *server.Generation) interface{} { return g.StopTokens }, []int32{7, 8}},
		{`,"include_stop_str_in_output":true`, func(g *server.Generation) interface{} { return g.KeepStop }, true},
		{`,"bad_words":["a b"]`, func(g *server.Generation) interface{} { return g.BannedTexts }, []string{"a b"}},
		{`,"allowed_token_ids":[1]`, func(g *server.Generation) interface{} { return g.AllowedTokens }, []int32{1}},
		{`,"skip_special_tokens":false`, func(g *server.Generation) interface{} { return g.KeepSpecial }, true},
		{`,"skip_special_tokens":true`, func(g *server.Generation) interface{} { return g.KeepSpecial }, false},
		{`,"n_predict":5`, func(g *server.Generation) interface{} { return g.MaxNewTokens }, 5},
		{`,"n_predict":-1`, func(g *server.Generation) interface{} { return g.MaxNewTokens }, 0},
		{`,"seed":-1`, func(g *server.Generation) interface{} { return g.Seed == nil }, true},
		{`,"seed":0`, func(g *server.Generation) interface{} { return *g.Seed }, 0},
		{`,"repeat_penalty":1.5`, func(g *server.Generation) interface{} { return *g.RepetitionPenalty }, 1.5},
		{`,"repeat_last_n":64`, func(g *server.Generation) interface{} { return *g.PenaltyRange }, 64},
		{`,"repeat_last_n":0,"repeat_penalty":2`, func(g *server.Generation) interface{} { return *g.RepetitionPenalty }, 1},
		{`,"typical_p":0.5`, func(g *server.Generation) interface{} { return *g.Typical }, 0.5},
		{`,"top_n_sigma":-1`, func(g *server.Generation) interface{} { return *g.TopNSigma }, 0},
		{`,"mirostat":2`, func(g *server.Generation) interface{} { return []float64{*g.MirostatTau, *g.MirostatEta} }, []float64{5, 0.1}},
		{`,"mirostat_tau":3`, func(g *server.Generation) interface{} { return g.MirostatTau == nil }, true},
		{`,"dry_multiplier":0.8,"dry_penalty_last_n":0`, func(g *server.Generation) interface{} { return *g.DRYMultiplier }, 0},
		{`,"dynatemp_range":0.5,"temperature":1`, func(g *server.Generation) interface{} {
			return []float64{*g.MinTemperature, *g.MaxTemperature}
		}, []float64{0.5, 1.5}},
		{`,"logit_bias":[[5,2],[6,false]]`, func(g *server.Generation) interface{} { return g.LogitBias }, map[string]float64{"5": 2, "6": -1e30}},
		{`,"return_token_ids":true`, func(g *server.Generation) interface{} { return g.TokenIDs }, true},
		{`,"json_order":"any","json_closed":false,"json_plain_integers":false,"json_space":"compact"`,
			func(g *server.Generation) interface{} { return g.JSON }, server.JSONForm{AnyOrder: true, Open: true, AnyIntegers: true, Space: "compact"}},
		{`,"json_order":"schema","json_closed":true,"json_plain_integers":true`,
			func(g *server.Generation) interface{} { return g.JSON }, server.JSONForm{}},
	}
	for _, path := range textPaths {
		for _, each := range cases {
			got := each.get(f.generationOf(path, each.more))
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(each.want)
			if string(g) != string(w) {
				t.Errorf("%s %s: %s, not %s", path, each.more, g, w)
			}
		}
	}
	g := f.generationOf("/v1/chat/completions", `,"add_generation_prompt":false,"documents":[{"text":"d"}],"chat_template_kwargs":{"a":1},
		"thinking_token_budget":7`)
	expect(t, []interface{}{g.NoGenerationPrompt, g.ContinueFinal, *g.ReasoningBudget}, []interface{}{true, false, 7})
	expect(t, string(g.TemplateArgs), `{"a":1,"documents":[{"text":"d"}]}`)
	expect(t, f.generationOf("/v1/chat/completions", `,"continue_final_message":true`).ContinueFinal, true)
	expect(t, f.generationOf("/v1/chat/completions", `,"reasoning_budget_tokens":-1`).ReasoningBudget == nil, true)
	expect(t, f.generationOf("/v1/completions", `,"add_special_tokens":false`).NoSpecial, true)
}

func TestZeroIsAValue(t *testing.T) {
	f := startAnswering(t)
	g := f.generationOf("/v1/chat/completions", `,"temperature":0,"min_p":0,"top_k":0,"frequency_penalty":0,"presence_penalty":0,
		"xtc_probability":0,"top_logprobs":0`)
	for name, set := range map[string]bool{"temperature": g.Temperature != nil, "min_p": g.MinP != nil, "top_k": g.TopK != nil,
		"frequency_penalty": g.FrequencyPenalty != nil, "presence_penalty": g.PresencePenalty != nil, "xtc_probability": g.XTCProbability != nil} {
		if !set {
			t.Errorf("%s of 0 was taken for none", name)
		}
	}
	for _, more := range []string{`,"top_k":null,"min_p":null,"temperature":null`, ""} {
		g = f.generationOf("/v1/chat/completions", more)
		if g.MinP != nil || g.TopK != nil || g.Temperature != nil {
			t.Errorf("%s was taken for a value", more)
		}
	}
}

func TestFieldsOutOfRangeAreRefusedByName(t *testing.T) {
	f := startAnswering(t)
	for more, param := range map[string]string{
		`,"min_tokens":-1`:                                       "min_tokens",
		`,"min_tokens":5,"max_tokens":4`:                         "min_tokens",
		`,"min_tokens":"x"`:                                      "min_tokens",
		`,"allowed_token_ids":[]`:                                "allowed_token_ids",
		`,"allowed_token_ids":["a"]`:                             "allowed_token_ids",
		`,"bad_words":[""]`:                                      "bad_words",
		`,"bad_words":"a"`:                                       "bad_words",
		`,"stop_token_ids":{}`:                                   "stop_token_ids",
		`,"repetition_penalty":0`:                                "repetition_penalty",
		`,"repetition_penalty":2,"repeat_penalty":3`:             "repeat_penalty",
		`,"typical_p":0`:                                         "typical_p",
		`,"mirostat":1`:                                          "mirostat",
		`,"repeat_last_n":-2`:                                    "repeat_last_n",
		`,"dynatemp_range":1`:                                    "dynatemp_range",
		`,"n":2,"n_cmpl":3`:                                      "n_cmpl",
		`,"n_predict":4,"max_tokens":5`:                          "n_predict",
		`,"n_predict":-2`:                                        "max_tokens",
		`,"logit_bias":[[1]]`:                                    "logit_bias",
		`,"logit_bias":[["a",1]]`:                                "logit_bias",
		`,"truncate_prompt_tokens":0`:                            "truncate_prompt_tokens",
		`,"truncate_prompt_tokens":4,"truncation_side":"middle"`: "truncation_side",
		`,"prompt_logprobs":-1`:                                  "prompt_logprobs",
		`,"prompt_logprobs":1,"stream":true`:                     "prompt_logprobs",
		`,"json_order":"up"`:                                     "json_order",
		`,"json_space":"wide"`:                                   "json_space",
		`,"stream_options":{"continuous_usage_stats":true}`:      "stream_options.continuous_usage_stats",
	} {
		for _, path := range textPaths {
			response, text := f.do("POST", path, body(path, more))
			if response.StatusCode != 400 || at(f.object(text), "error", "param") != param {
				t.Errorf("%s %s: %d %s", path, more, response.StatusCode, text)
			}
		}
	}
	for more, param := range map[string]string{
		`,"continue_final_message":true,"add_generation_prompt":true`: "continue_final_message",
		`,"add_special_tokens":true`:                                  "add_special_tokens",
		`,"reasoning_budget":1,"thinking_token_budget":2`:             "thinking_token_budget",
		`,"thinking_token_budget":-2`:                                 "thinking_token_budget",
		`,"tools":{}`:                                                 "tools",
		`,"tools":[{"type":"custom","custom":{"name":"f"}}]`:          "tools",
		`,"functions":[],"tools":[]`:                                  "functions",
		`,"functions":3`:                                              "functions",
		`,"functions":[],"function_call":"f"`:                         "function_call",
		`,"function_call":{"name":"f"}`:                               "function_call",
		`,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`:                                "tool_choice",
		`,"tool_choice":{"type":"allowed_tools"}`:                                                                                       "tool_choice",
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`:                                            "tool_choice",
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"mcp","server_label":"s"}]}}`:           "tool_choice",
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[{"type":"function","function":{"name":"f"}}]}}`: "tool_choice",
	} {
		response, text := f.do("POST", "/v1/chat/completions", chat("x", more))
		if response.StatusCode != 400 || at(f.object(text), "error", "param") != param {
			t.Errorf("%s: %d %s", more, response.StatusCode, text)
		}
	}
}

func TestOneConstraintReachesTheEngineWhateverItsField(t *testing.T) {
	f := startAnswering(t)
	schema := `{"type":"object","properties":{"a":{"type":"integer"}}}`
	ofSchema := `{"json_schema":{"name":"answer","schema":` + schema + `},"type":"json_schema"}`
	quoted, _ := json.Marshal(schema)
	tag := `{"type":"structural_tag","structures":[{"begin":"<a>","schema":{},"end":"</a>"}],"triggers":["<a>"]}`
	quotedTag, _ := json.Marshal(tag)
	for _, each := range []struct{ more, field, want string }{
		{`"response_format":{"type":"json_object","schema":` + schema + `}`, "response_format", ofSchema},
		{`"response_format":{"type":"json_schema","schema":` + schema + `}`, "response_format", ofSchema},
		{`"response_format":{"type":"json_object"}`, "response_format", `{"type":"json_object"}`},
		{`"response_format":` + tag, "response_format", tag},
		{`"structured_outputs":{"json":` + schema + `,"regex":null}`, "structured_outputs.json", ofSchema},
		{`"structured_outputs":{"json":` + string(quoted) + `}`, "structured_outputs.json", ofSchema},
		{`"structured_outputs":{"regex":"a+"}`, "structured_outputs.regex", `{"pattern":"a+","type":"regex"}`},
		{`"structured_outputs":{"choice":["a","b"]}`, "structured_outputs.choice", `{"choices":["a","b"],"type":"choice"}`},
		{`"structured_outputs":{"grammar":"root ::= \"a\""}`, "structured_outputs.grammar", `{"grammar":"root ::= \"a\"","type":"gbnf"}`},
		{`"structured_outputs":{"grammar":"start: \"a\""}`, "structured_outputs.grammar", `{"grammar":"start: \"a\"","type":"lark"}`},
		{`"structured_outputs":{"json_object":true}`, "structured_outputs.json_object", `{"type":"json_object"}`},
		{`"structured_outputs":{"structural_tag":` + string(quotedTag) + `}`, "structured_outputs.structural_tag", tag},
		{`"guided_json":` + schema, "guided_json", ofSchema},
		{`"guided_regex":"a+"`, "guided_regex", `{"pattern":"a+","type":"regex"}`},
		{`"guided_choice":["a"]`, "guided_choice", `{"choices":["a"],"type":"choice"}`},
		{`"guided_grammar":"root ::= \"a\""`, "guided_grammar", `{"grammar":"root ::= \"a\"","type":"gbnf"}`},
		{`"json_schema":` + schema, "json_schema", ofSchema},
		{`"response_format":{"type":"text"},"json_schema":` + schema, "json_schema", ofSchema},
	} {
		for _, path := range textPaths {
			g := f.generationOf(path, ","+each.more)
			if string(g.ResponseFormat) != each.want || g.ResponseField != each.field {
				t.Errorf("%s: %s of %s", each.more, g.ResponseFormat, g.ResponseField)
			}
		}
	}
	g := f.generationOf("/v1/chat/completions", `,"structured_outputs":{"json":{},"disable_any_whitespace":true,"disable_additional_properties":true}`)
	expect(t, g.JSON.Space, "compact")
	expect(t, f.generationOf("/v1/completions", `,"grammar":"root ::= \"a\""`).Grammar, `root ::= "a"`)
	if g := f.generationOf("/v1/chat/completions", `,"response_format":{"type":"text"}`); g.ResponseFormat != nil {
		t.Error(string(g.ResponseFormat))
	}
}

func TestConstraintsThatCannotBeObeyedAreRefusedByName(t *testing.T) {
	f := startAnswering(t)
	for more, param := range map[string]string{
		`"json_schema":{},"response_format":{"type":"json_object"}`:                        "json_schema",
		`"guided_json":{},"guided_regex":"a"`:                                              "guided_regex",
		`"grammar":"root ::= \"a\"","structured_outputs":{"regex":"a"}`:                    "grammar",
		`"structured_outputs":{"json":{},"regex":"a"}`:                                     "structured_outputs",
		`"structured_outputs":{}`:                                                          "structured_outputs",
		`"structured_outputs":[]`:                                                          "structured_outputs",
		`"structured_outputs":{"json":"{"}`:                                                "structured_outputs.json",
		`"structured_outputs":{"json":{},"whitespace_pattern":" "}`:                        "structured_outputs.whitespace_pattern",
		`"structured_outputs":{"json":{},"colour":1}`:                                      "structured_outputs.colour",
		`"structured_outputs":{"choice":[]}`:                                               "structured_outputs.choice",
		`"structured_outputs":{"regex":7}`:                                                 "structured_outputs.regex",
		`"structured_outputs":{"structural_tag":{"type":"structural_tag","format":{}}}`:    "structured_outputs.structural_tag",
		`"guided_choice":"a"`:                                                              "guided_choice",
		`"guided_json":"{"`:                                                                "guided_json",
		`"guided_whitespace_pattern":" "`:                                                  "guided_whitespace_pattern",
		`"response_format":[]`:                                                             "response_format",
		`"response_format":{"type":"json_schema","json_schema":{"schema":{}},"schema":{}}`: "response_format",
	} {
		for _, path := range textPaths {
			response, text := f.do("POST", path, body(path, ","+more))
			if response.StatusCode != 400 || at(f.object(text), "error", "param") != param {
				t.Errorf("%s: %d %s", more, response.StatusCode, text)
			}
		}
	}
}
