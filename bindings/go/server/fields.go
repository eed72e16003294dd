package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sort"
	"strings"
)

// form is a kind of request; a field may be in one and not in the other.
type form uint8

const (
	chatForm form = 1 << iota
	completionForm

	bothForms = chatForm | completionForm
)

// passedFields has the fields that change nothing about the answer: labels for the operator of a service, hints
// for its caches and its speed, and choices of an implementation. docs/server.md lists them.
var passedFields = []string{"backend_sampling", "cache_prompt", "guided_decoding_backend", "id_slot", "keep_alive",
	"metadata", "n_cache_reuse", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
	"request_id", "return_mm_kwargs", "safety_identifier", "service_tier", "session_id", "spaces_between_special_tokens",
	"sse_ping_interval", "store", "stream_interval", "timings_per_token", "user"}

// refusedField is a field that clients of other servers send and that this server cannot obey.
type refusedField struct {
	name    string
	in      form
	neutral string // JSON values that change nothing, separated by blanks; null and {} never do
	advice  string // way out; "" if there is none
}

// refusedFields has the fields that would change the answer. A field in no table is passed over, since clients send
// fields of later versions.
var refusedFields = []refusedField{
	{"adaptive_decay", bothForms, "", ""},
	{"adaptive_target", bothForms, "", ""},
	{"add_generation_prompt", completionForm, "", "send a conversation to /v1/chat/completions"},
	{"audio", chatForm, "", "answers are text"},
	{"banned_strings", bothForms, "[]", "use bad_words"},
	{"best_of", chatForm, "1", "use n"},
	{"cache_salt", bothForms, "", "prompts are shared only between requests of one owner; use keys"},
	{"chat_format", bothForms, "", "the configuration of the model has its dialect"},
	{"chat_parser", bothForms, "", "the configuration of the model has its dialect"},
	{"chat_template", bothForms, `""`, "the configuration of the model has its template"},
	{"chat_template_kwargs", completionForm, "", "send a conversation to /v1/chat/completions"},
	{"continue_final_message", completionForm, "false", "send a conversation to /v1/chat/completions"},
	{"custom_logit_processor", bothForms, `""`, ""},
	{"documents", completionForm, "[]", "send a conversation to /v1/chat/completions"},
	{"dry_sequence_breakers", bothForms, "", "leave it out; a repetition then ends nowhere"},
	{"early_stopping", bothForms, "false", "there is no beam search"},
	{"ebnf", bothForms, `""`, "use structured_outputs.grammar"},
	{"ec_transfer_params", bothForms, "", ""},
	{"echo", chatForm, "false", "use continue_final_message"},
	{"enable_thinking", bothForms, "", "use reasoning_effort or chat_template_kwargs"},
	{"format", bothForms, `""`, "use response_format"},
	{"function_call", completionForm, `"none"`, "send a conversation to /v1/chat/completions"},
	{"functions", completionForm, "[]", "send a conversation to /v1/chat/completions"},
	{"generation_prompt", bothForms, `""`, "use continue_final_message"},
	{"grammar_lazy", bothForms, "false", "use structured_outputs.structural_tag"},
	{"grammar_triggers", bothForms, "[]", "use structured_outputs.structural_tag"},
	{"guided_whitespace_pattern", bothForms, `""`, "use json_space"},
	{"include_reasoning", completionForm, "true false", "send a conversation to /v1/chat/completions"},
	{"kv_transfer_params", bothForms, "", ""},
	{"length_penalty", bothForms, "1 1.0", "there is no beam search"},
	{"logits_processors", bothForms, "[]", ""},
	{"logprob_token_ids", bothForms, "[]", "use top_logprobs"},
	{"lora", bothForms, "[]", ""},
	{"lora_path", bothForms, `""`, ""},
	{"max_completion_tokens", completionForm, "", "use max_tokens"},
	{"media_io_kwargs", bothForms, "", ""},
	{"messages", completionForm, "[]", "send a conversation to /v1/chat/completions"},
	{"min_keep", bothForms, "0", ""},
	{"mm_processor_kwargs", bothForms, "", ""},
	{"modalities", chatForm, `["text"] []`, "answers are text"},
	{"moderation", bothForms, "", ""},
	{"n_discard", bothForms, "0", "a prompt that is too long is refused; use truncate_prompt_tokens"},
	{"n_indent", bothForms, "0", "use structured_outputs.regex"},
	{"n_keep", bothForms, "0 -1", "a prompt that is too long is refused; use truncate_prompt_tokens"},
	{"n_probs", bothForms, "0", "use logprobs"},
	{"no_stop_trim", bothForms, "false", "use include_stop_str_in_output"},
	{"options", bothForms, "", "send its members as fields of the request"},
	{"parallel_tool_calls", completionForm, "true false", "send a conversation to /v1/chat/completions"},
	{"parse_tool_calls", bothForms, "true", "use tool_choice"},
	{"post_sampling_probs", bothForms, "false", "log-probabilities are those of the model"},
	{"preserved_tokens", bothForms, "[]", "use skip_special_tokens"},
	{"prompt", chatForm, `"" []`, "send a text to /v1/completions"},
	{"prompt_embeds", bothForms, "[]", ""},
	{"reasoning", bothForms, "", "use reasoning_effort"},
	{"reasoning_budget", completionForm, "-1", "send a conversation to /v1/chat/completions"},
	{"reasoning_budget_tokens", completionForm, "-1", "send a conversation to /v1/chat/completions"},
	{"reasoning_control", bothForms, "false", "use reasoning_budget"},
	{"reasoning_effort", completionForm, `"none"`, "send a conversation to /v1/chat/completions"},
	{"reasoning_format", bothForms, `"auto" "deepseek"`, "reasoning comes as reasoning_content"},
	{"regex", bothForms, `""`, "use structured_outputs.regex"},
	{"repetition_detection", bothForms, "", "use repetition_penalty or dry_multiplier"},
	{"response_fields", bothForms, "[]", ""},
	{"return_progress", bothForms, "false", ""},
	{"return_prompt_text", bothForms, "false", "use return_token_ids and /v1/detokenize"},
	{"return_token_offsets", bothForms, "false", "use echo and logprobs of /v1/completions"},
	{"return_tokens", bothForms, "false", "use return_token_ids"},
	{"routed_experts_prompt_start", bothForms, "0", ""},
	{"samplers", bothForms, "[]", "leave out the settings of unwanted samplers"},
	{"stop_regex", bothForms, `"" []`, "use stop"},
	{"suffix", bothForms, `""`, "write the marks of the model for infilling into the prompt"},
	{"t_max_predict_ms", bothForms, "0", "use the header x-request-timeout"},
	{"tfs_z", bothForms, "1 1.0", "use typical_p or min_p"},
	{"think", bothForms, "", "use reasoning_effort"},
	{"thinking", bothForms, "", "use reasoning_effort"},
	{"thinking_forced_open", bothForms, "false", "use chat_template_kwargs"},
	{"thinking_token_budget", completionForm, "-1", "send a conversation to /v1/chat/completions"},
	{"tool_choice", completionForm, `"none" "auto"`, "send a conversation to /v1/chat/completions"},
	{"tools", completionForm, "[]", "send a conversation to /v1/chat/completions"},
	{"top_logprobs", completionForm, "0", "use logprobs, a number here"},
	{"use_beam_search", bothForms, "false", "use best_of of /v1/completions"},
	{"verbosity", chatForm, `"medium"`, "ask for it in the messages"},
	{"vllm_xargs", bothForms, "", ""},
	{"watermarking", bothForms, "false", ""},
	{"web_search_options", chatForm, "", "give a tool for it"},
	{"whitespace_pattern", bothForms, `""`, "use json_space"},
}

// changesNothing reports whether a value of the field is its default.
func (f *refusedField) changesNothing(value json.RawMessage) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return false
	}
	text := compact.String()
	for _, neutral := range append(strings.Fields(f.neutral), "null", "{}") {
		if text == neutral {
			return true
		}
	}
	return false
}

// readRequest decodes a body like read, and refuses fields that would be ignored although they change the
// answer.
func (c *call) readRequest(into interface{}, of form) error {
	text, err := c.body()
	if err != nil {
		return err
	}
	if err := decode(text, into); err != nil {
		return err
	}
	return refuseFields(text, of)
}

// refuseFields refuses fields of a body that would be ignored although they change the answer.
func refuseFields(text []byte, of form) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(text, &given) != nil {
		return nil // null has no fields
	}
	for i := range refusedFields {
		field := &refusedFields[i]
		value, has := given[field.name]
		if !has || field.in&of == 0 || field.changesNothing(value) {
			continue
		}
		if field.advice == "" {
			return invalid(field.name, "%s is not supported", field.name)
		}
		return invalid(field.name, "%s is not supported; %s", field.name, field.advice)
	}
	return nil
}

// FieldRules lists the fields of a request by their treatment, each list in alphabetical order. Fields in none of
// the lists are passed over too.
type FieldRules struct {
	Obeyed, Refused, PassedOver []string
}

// RulesOfFields returns the rules for /v1/chat/completions or /v1/completions, and false for other paths.
func RulesOfFields(path string) (FieldRules, bool) {
	var of form
	var request interface{}
	switch path {
	case "/v1/chat/completions":
		of, request = chatForm, chatRequest{}
	case "/v1/completions":
		of, request = completionForm, completionRequest{}
	default:
		return FieldRules{}, false
	}
	rules := FieldRules{PassedOver: append([]string{}, passedFields...)}
	for name := range fieldNames(reflect.TypeOf(request)) {
		rules.Obeyed = append(rules.Obeyed, name)
	}
	for _, field := range refusedFields {
		if field.in&of != 0 {
			rules.Refused = append(rules.Refused, field.name)
		}
	}
	sort.Strings(rules.Obeyed)
	return rules, true
}
