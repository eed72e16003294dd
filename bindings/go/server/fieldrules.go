package server

// fieldRule is what becomes of a field that clients of other servers send and that this server does not obey.
type fieldRule struct {
	name    string // path in the body, such as "stream_options.include_obfuscation"
	in      form
	neutral string    // JSON values that change nothing, separated by blanks, besides null and empty ones; or anyValue
	advice  string    // way out; "" if the field can only be left out
	beside  []setting // without all of which it has no effect
}

// setting is another field, and the value at which it is off.
type setting struct{ name, off string }

// penalties has the settings without which line breaks are not penalized either.
var penalties = []setting{{"repeat_penalty", "1"}, {"repetition_penalty", "1"}}

// anyValue marks a field that is passed over: no value of it changes the answer.
const anyValue = "*"

// optionsPrefix is the path of ollama's options.
const optionsPrefix = "options."

// useChats is the way out for fields that belong to a conversation.
const useChats = "send a conversation to /v1/chat/completions"

// fieldRules has the fields that are not obeyed. A field that is in no rule, and that its body does not have, is refused:
// it might constrain the answer.
var fieldRules = []fieldRule{
	// Labels, and hints for caches, speed, memory and reports.
	{name: "metadata", in: everyForm, neutral: anyValue},
	{name: "prompt_cache_key", in: everyForm, neutral: anyValue},
	{name: "prompt_cache_options", in: everyForm, neutral: anyValue},
	{name: "prompt_cache_retention", in: everyForm, neutral: anyValue},
	{name: "request_id", in: everyForm, neutral: anyValue},
	{name: "safety_identifier", in: everyForm, neutral: anyValue},
	{name: "service_tier", in: everyForm, neutral: anyValue},
	{name: "session_id", in: everyForm, neutral: anyValue},
	{name: "user", in: everyForm, neutral: anyValue},
	{name: "access_programs", in: responsesForm, neutral: anyValue},
	{name: "background_options", in: responsesForm, neutral: anyValue},
	{name: "backend_sampling", in: textForms, neutral: anyValue},
	{name: "cache_prompt", in: textForms, neutral: anyValue},
	{name: "guided_decoding_backend", in: textForms, neutral: anyValue},
	{name: "id_slot", in: textForms, neutral: anyValue},
	{name: "keep_alive", in: textForms, neutral: anyValue},
	{name: "n_cache_reuse", in: textForms, neutral: anyValue},
	{name: "prediction", in: openAIForms, neutral: anyValue},
	{name: "return_mm_kwargs", in: openAIForms, neutral: anyValue},
	{name: "slot_id", in: llamaForm, neutral: anyValue},
	{name: "spaces_between_special_tokens", in: textForms, neutral: anyValue},
	{name: "speculative.n_max", in: textForms, neutral: anyValue},
	{name: "speculative.n_min", in: textForms, neutral: anyValue},
	{name: "speculative.p_min", in: textForms, neutral: anyValue},
	{name: "sse_ping_interval", in: textForms, neutral: anyValue},
	{name: "store", in: openAIForms, neutral: anyValue},
	{name: "stream_interval", in: textForms, neutral: anyValue},
	{name: "stream_options.include_obfuscation", in: openAIForms | llamaForm | responsesForm, neutral: anyValue},
	{name: "stream_options.continuous_usage_stats", in: openAIForms | llamaForm | responsesForm, neutral: "false",
		advice: "use stream_options.include_usage"},
	{name: "timings_per_token", in: textForms, neutral: anyValue},
	{name: "verbose", in: textForms | showForm, neutral: anyValue},

	// A prompt that is too long is refused, so no token is ever discarded.
	{name: "n_discard", in: textForms, neutral: anyValue},
	{name: "n_keep", in: textForms, neutral: anyValue},
	{name: "num_keep", in: textForms, neutral: anyValue},

	// The configuration decides how a model is loaded.
	{name: "f16_kv", in: textForms, neutral: anyValue},
	{name: "low_vram", in: textForms, neutral: anyValue},
	{name: "main_gpu", in: textForms, neutral: anyValue},
	{name: "num_batch", in: textForms, neutral: anyValue},
	{name: "num_ctx", in: textForms, neutral: anyValue},
	{name: "num_gpu", in: textForms, neutral: anyValue},
	{name: "num_thread", in: textForms, neutral: anyValue},
	{name: "numa", in: textForms, neutral: anyValue},
	{name: "use_mlock", in: textForms, neutral: anyValue},
	{name: "use_mmap", in: textForms, neutral: anyValue},

	// Anthropic's.
	{name: "betas", in: messagesForm, neutral: anyValue},
	{name: "billing_policy", in: messagesForm, neutral: anyValue},
	{name: "cache_control", in: messagesForm, neutral: anyValue},
	{name: "diagnostics", in: messagesForm, neutral: anyValue},
	{name: "fallback_credit_token", in: messagesForm, neutral: anyValue},
	{name: "fallbacks", in: messagesForm, neutral: anyValue},
	{name: "inference_geo", in: messagesForm, neutral: anyValue},
	{name: "speed", in: messagesForm, neutral: anyValue},
	{name: "user_profile_id", in: messagesForm, neutral: anyValue},
	{name: "workspace_id", in: messagesForm, neutral: anyValue},
	{name: "compaction", in: messagesForm, advice: "shorten the messages in the client"},
	{name: "container", in: messagesForm, advice: "the server runs no code"},
	{name: "mcp_servers", in: messagesForm, advice: "the server connects to no others; give their tools as custom tools"},
	{name: "response_format", in: messagesForm, advice: "use output_config.format"},
	{name: "stop", in: messagesForm, advice: "use stop_sequences"},

	// OpenAI's responses. They have the reasoning itself.
	{name: "reasoning.generate_summary", in: responsesForm, neutral: anyValue},
	{name: "reasoning.summary", in: responsesForm, neutral: anyValue},
	{name: "context_management", in: responsesForm, advice: "compact the input in the client, or set truncation to auto"},
	{name: "image", in: responsesForm, advice: "the server makes no images"},
	{name: "max_completion_tokens", in: responsesForm, advice: "use max_output_tokens"},
	{name: "max_tokens", in: responsesForm, advice: "use max_output_tokens"},
	{name: "messages", in: responsesForm, advice: "use input"},
	{name: "moderation", in: openAIForms | llamaForm | responsesForm, advice: "there is no model for moderation"},
	{name: "personality", in: responsesForm, advice: "write it into instructions"},
	{name: "prompt", in: responsesForm, advice: "templates of prompts are not stored here; send the text as input"},
	{name: "reasoning_effort", in: responsesForm, advice: "use reasoning.effort"},
	{name: "response_format", in: responsesForm, advice: "use text.format"},

	// Fields that belong to a conversation.
	{name: "add_generation_prompt", in: completionForm | llamaForm, advice: useChats},
	{name: "chat_template_kwargs", in: completionForm | llamaForm, advice: useChats},
	{name: "continue_final_message", in: completionForm | llamaForm, neutral: "false", advice: useChats},
	{name: "documents", in: completionForm | llamaForm, advice: useChats},
	{name: "function_call", in: completionForm | llamaForm, neutral: `"none"`, advice: useChats},
	{name: "functions", in: completionForm | llamaForm, advice: useChats},
	{name: "include_reasoning", in: completionForm | llamaForm, neutral: "true false", advice: useChats},
	{name: "messages", in: completionForm | llamaForm, advice: useChats},
	{name: "parallel_tool_calls", in: completionForm | llamaForm, neutral: "true false", advice: useChats},
	{name: "reasoning_budget", in: completionForm | llamaForm, neutral: "-1", advice: useChats},
	{name: "reasoning_budget_tokens", in: completionForm | llamaForm, neutral: "-1", advice: useChats},
	{name: "reasoning_effort", in: completionForm | llamaForm, neutral: `"none"`, advice: useChats},
	{name: "thinking_token_budget", in: completionForm | llamaForm, neutral: "-1", advice: useChats},
	{name: "tool_choice", in: completionForm | llamaForm, neutral: `"none" "auto"`, advice: useChats},
	{name: "tools", in: completionForm | llamaForm, advice: useChats},

	// Fields of one form of OpenAI's and llama.cpp's requests that another has under another name, or not at all.
	{name: "audio", in: chatForm, advice: "answers are text"},
	{name: "best_of", in: chatForm | llamaForm, neutral: "1", advice: "use n of /v1/chat/completions, or best_of of /v1/completions"},
	{name: "echo", in: chatForm | llamaForm, neutral: "false", advice: "use continue_final_message of a chat, or echo of /v1/completions"},
	{name: "logprobs", in: llamaForm, neutral: "0 false", advice: "use n_probs"},
	{name: "max_completion_tokens", in: completionForm | llamaForm, advice: "use max_tokens"},
	{name: "modalities", in: chatForm, neutral: `["text"]`, advice: "answers are text"},
	{name: "n_probs", in: openAIForms, neutral: "0", advice: "use logprobs"},
	{name: "prompt", in: chatForm, advice: "send a text to /v1/completions"},
	{name: "suffix", in: openAIForms | llamaForm, advice: "send input_prefix and input_suffix to /infill"},
	{name: "top_logprobs", in: completionForm | llamaForm, neutral: "0", advice: "use logprobs, a number, of /v1/completions"},
	{name: "verbosity", in: chatForm, neutral: `"medium"`, advice: "ask for it in the messages"},
	{name: "web_search_options", in: chatForm, advice: "give a tool for it"},
	{name: "add_special_tokens", in: llamaForm | embeddingsForm | scoreForm, neutral: "true", advice: "send token ids"},
	{name: "prompt_logprobs", in: llamaForm, advice: "use prompt_logprobs of /v1/completions"},
	{name: "return_token_ids", in: llamaForm, neutral: "false", advice: "use return_token_ids of /v1/completions"},
	{name: "return_tokens_as_token_ids", in: llamaForm, neutral: "false", advice: "use return_tokens_as_token_ids of /v1/completions"},

	// Templates, dialects and reasoning.
	{name: "chat_format", in: textForms, advice: "the configuration of the model has its dialect"},
	{name: "chat_parser", in: textForms, advice: "the configuration of the model has its dialect"},
	{name: "chat_template", in: textForms | tokenizeForm, advice: "the configuration of the model has its template"},
	{name: "enable_thinking", in: textForms, advice: "use reasoning_effort or chat_template_kwargs"},
	{name: "generation_prompt", in: textForms, advice: "use continue_final_message"},
	{name: "parse_tool_calls", in: textForms, neutral: "true", advice: "use tool_choice"},
	{name: "preserved_tokens", in: textForms, advice: "use skip_special_tokens"},
	{name: "reasoning", in: textForms, advice: "use reasoning_effort"},
	{name: "reasoning_control", in: textForms, neutral: "false", advice: "use reasoning_budget"},
	{name: "reasoning_format", in: textForms, neutral: `"auto" "deepseek"`, advice: "reasoning comes as reasoning_content"},
	{name: "think", in: textForms, advice: "use reasoning_effort"},
	{name: "thinking", in: textForms, advice: "use reasoning_effort"},
	{name: "thinking_forced_open", in: textForms, neutral: "false", advice: "use chat_template_kwargs"},

	// Constraints.
	{name: "banned_strings", in: textForms, advice: "use bad_words"},
	{name: "ebnf", in: textForms, advice: "use structured_outputs.grammar"},
	{name: "format", in: textForms, advice: "use response_format"},
	{name: "grammar_lazy", in: textForms, neutral: "false", advice: "use structured_outputs.structural_tag"},
	{name: "grammar_triggers", in: textForms, advice: "use structured_outputs.structural_tag"},
	{name: "guided_whitespace_pattern", in: textForms, advice: "use json_space"},
	{name: "n_indent", in: textForms, neutral: "0", advice: "use structured_outputs.regex"},
	{name: "no_stop_trim", in: textForms, neutral: "false", advice: "use include_stop_str_in_output"},
	{name: "regex", in: textForms, advice: "use structured_outputs.regex"},
	{name: "stop_regex", in: textForms, advice: "use stop"},
	{name: "t_max_predict_ms", in: textForms, neutral: "0 -1", advice: "use the header x-request-timeout"},
	{name: "whitespace_pattern", in: textForms, advice: "use json_space"},

	// Samplers.
	{name: "adaptive_decay", in: textForms, beside: []setting{{"adaptive_target", "-1"}}, advice: "use mirostat"},
	{name: "adaptive_target", in: textForms, neutral: "-1", advice: "use mirostat"},
	{name: "custom_logit_processor", in: textForms, advice: "use logit_bias"},
	{name: "dry_sequence_breakers", in: textForms, beside: []setting{{"dry_multiplier", "0"}},
		advice: "leave it out; a repetition then ends nowhere"},
	{name: "early_stopping", in: textForms, neutral: "false", advice: "there is no beam search"},
	{name: "length_penalty", in: textForms, neutral: "1", advice: "there is no beam search"},
	{name: "logits_processors", in: textForms, advice: "use logit_bias"},
	{name: "min_keep", in: textForms, neutral: "0", advice: "loosen top_p or min_p"},
	{name: "penalize_newline", in: textForms, neutral: "true", beside: penalties, advice: "use logit_bias"},
	{name: "penalize_nl", in: textForms, neutral: "true", beside: penalties, advice: "use logit_bias"},
	{name: "post_sampling_probs", in: textForms, neutral: "false", advice: "log-probabilities are those of the model"},
	{name: "repetition_detection", in: textForms, advice: "use repetition_penalty or dry_multiplier"},
	{name: "samplers", in: textForms, advice: "leave out the settings of unwanted samplers"},
	{name: "tfs_z", in: textForms, neutral: "1", advice: "use typical_p or min_p"},
	{name: "use_beam_search", in: textForms, neutral: "false", advice: "use best_of of /v1/completions"},
	{name: "watermarking", in: textForms, neutral: "false"},

	// What an answer reports.
	{name: "logits_all", in: textForms, neutral: "false", advice: "use /v1/score"},
	{name: "logprob_token_ids", in: textForms, advice: "use top_logprobs"},
	{name: "response_fields", in: textForms, advice: "take the fields from the whole answer"},
	{name: "return_progress", in: textForms, neutral: "false"},
	{name: "return_prompt_text", in: textForms, neutral: "false", advice: "use return_token_ids and /v1/detokenize"},
	{name: "return_token_offsets", in: textForms, neutral: "false", advice: "use echo and logprobs of /v1/completions"},
	{name: "return_tokens", in: textForms, neutral: "false", advice: "use return_token_ids of /v1/completions"},
	{name: "vocab_only", in: textForms, neutral: "false"},

	// Adapters, media, and transfers between servers.
	{name: "cache_salt", in: textForms, advice: "prompts are shared only between requests of one owner; use keys"},
	{name: "ec_transfer_params", in: textForms},
	{name: "image_data", in: llamaForm, advice: "prompts are text"},
	{name: "kv_transfer_params", in: textForms},
	{name: "lora", in: textForms, advice: "configure a model that contains the adapter"},
	{name: "lora_path", in: textForms, advice: "configure a model that contains the adapter"},
	{name: "media_io_kwargs", in: textForms, advice: "prompts are text"},
	{name: "mm_processor_kwargs", in: textForms | tokenizeForm, advice: "prompts are text"},
	{name: "options", in: openAIForms | llamaForm, advice: "send its members as fields of the request"},
	{name: "prompt_embeds", in: textForms, advice: "send the text or its token ids"},
	{name: "routed_experts_prompt_start", in: textForms, neutral: "0"},
	{name: "system_prompt", in: llamaForm, advice: "write it into the prompt"},
	{name: "vllm_xargs", in: textForms},

	// ollama's bodies. A prompt that is too long is refused, and an answer ends with the context.
	{name: "context", in: ollamaForm, advice: "send the conversation to /api/chat"},
	{name: "images", in: ollamaForm, advice: "prompts are text"},
	{name: "shift", in: ollamaForm, neutral: anyValue},
	{name: "template", in: ollamaForm, advice: "render the prompt yourself and send it with raw"},
	{name: "truncate", in: ollamaForm, neutral: anyValue},

	// Bodies without an answer.
	{name: "max_chunks_per_doc", in: rerankForm, advice: "documents are not divided; use max_tokens_per_doc"},
	{name: "insecure", in: showForm, neutral: anyValue}, // the environment of the server names the hub
	{name: "messages", in: embeddingsForm | scoreForm, advice: "send the text as input"},
	{name: "options", in: showForm, neutral: anyValue},
	{name: "system", in: showForm, neutral: anyValue},
	{name: "template", in: showForm, neutral: anyValue},
	{name: "truncate_prompt_tokens", in: rerankForm, advice: "use max_tokens_per_doc"},
	{name: "truncate_prompt_tokens", in: embeddingsForm | scoreForm, advice: "shorten the input"},
}

// rulesByName has the rules of each name, which differ by their forms.
var rulesByName = func() map[string][]*fieldRule {
	out := map[string][]*fieldRule{}
	for i := range fieldRules {
		out[fieldRules[i].name] = append(out[fieldRules[i].name], &fieldRules[i])
	}
	return out
}()

// ruleOf returns the rule of a field in a form; nil if there is none.
func ruleOf(name string, of form) *fieldRule {
	for _, rule := range rulesByName[name] {
		if rule.in&of != 0 {
			return rule
		}
	}
	return nil
}
