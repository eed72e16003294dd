/*
 * What a job is asked to do. Filled by setters, copied by quire_job_submit, so one request may be submitted
 * many times, changed between, and freed at once.
 *
 * Each setter returns 1, or 0 on failure and then the setting is as before: QUIRE_ERROR_INVALID_ARGUMENT
 * names the setting and its range. What depends on the model or the cache is checked by quire_job_submit. A
 * setting that this version of the library knows but cannot honour is refused there with
 * QUIRE_ERROR_UNSUPPORTED, never ignored. Setters on one request from several threads are done one after
 * another. One that does not count for the kind of the job (a temperature for a score) is refused at submit
 * too.
 *
 * Every default is neutral: an untouched request samples from the model's own distribution.
 */
#ifndef QUIRE_REQUEST_H
#define QUIRE_REQUEST_H

#include <quire/base.h>

/* What a job does. */
#define QUIRE_JOB_KIND_GENERATE 0 /* generates tokens after the prompt */
#define QUIRE_JOB_KIND_SCORE 1    /* computes how likely the prompt is: quire_job_scores */
#define QUIRE_JOB_KIND_WARM 2     /* computes the prompt, so that later jobs find it in the cache */
#define QUIRE_JOB_KIND_EMBED 3    /* makes one vector of the prompt: quire_job_embedding */

/* How an embedding is made of the states of a prompt: those of its tokens after the last norm of the model.
 */
#define QUIRE_POOLING_MEAN 0 /* their mean */
#define QUIRE_POOLING_LAST 1 /* the last one */

/* What happens to the events of a job when nobody takes them. The scheduler never waits for a reader. */
#define QUIRE_EVENTS_COALESCE 0 /* text grows together into one event */
#define QUIRE_EVENTS_PAUSE 1    /* the job pauses until events are taken */
#define QUIRE_EVENTS_END 2      /* the job ends with QUIRE_ERROR_SLOW_READER */

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a request with every default and no prompt. The caller owns it. NULL on failure. */
QUIRE_API quire_job_request* quire_job_request_create(quire_error** error);

/** Frees a request. Jobs made from it are not touched. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_request_free(quire_job_request* handle, quire_error** error);

/** What the job does, one of QUIRE_JOB_KIND_*. Default: QUIRE_JOB_KIND_GENERATE. */
QUIRE_API int32_t quire_job_request_set_kind(quire_job_request* request, int32_t kind, quire_error** error);

/*
 * Prompt: parts in order, added one by one. To set is to clear and to add one. A request without any part is
 * refused; a part may be empty.
 */

/** Takes all parts back. */
QUIRE_API int32_t quire_job_request_clear_prompt(quire_job_request* request, quire_error** error);

/** A part that is text; tokenized at submit, by itself, with the two settings that follow. */
QUIRE_API int32_t quire_job_request_add_prompt_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** A part that is token ids, taken as they are. */
QUIRE_API int32_t quire_job_request_add_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/**
 * A part that is one special token, given by the text that the tokenizer's file spells it with, such as
 * "<|im_end|>"; submit fails with QUIRE_ERROR_NOT_FOUND where there is none.
 */
QUIRE_API int32_t quire_job_request_add_prompt_special(quire_job_request* request, const char* text,
                                                       size_t text_len, quire_error** error);

/**
 * A part that is messages: one, or a list of them, as OpenAI has them in JSON (role, content as text or
 * parts, reasoning, tool_calls, tool_call_id). Parts of messages that follow each other are one conversation,
 * which submit makes into tokens with the chat template of the model (chat.h), on the caller's thread:
 * special tokens come from the template's words alone, and nothing is put around them. Text or tokens after
 * the messages are the beginning of the answer. QUIRE_ERROR_FORMAT for what is no JSON; submit fails with
 * QUIRE_ERROR_NOT_FOUND where there is no template.
 */
QUIRE_API int32_t quire_job_request_add_messages(quire_job_request* request, const char* text,
                                                 size_t text_len, quire_error** error);

/**
 * The tools that go with the messages, or that an answer in a dialect may call: a JSON list as OpenAI has it;
 * an empty text, the default, is none.
 */
QUIRE_API int32_t quire_job_request_set_tools(quire_job_request* request, const char* text, size_t text_len,
                                              quire_error** error);

/**
 * What else the template reads, as a JSON object, such as {"enable_thinking": false}; an empty text, the
 * default, is nothing. `add_generation_prompt` is true unless it stands here, or `continue_final_message` is
 * true, which ends the prompt inside of the last message.
 */
QUIRE_API int32_t quire_job_request_set_template_arguments(quire_job_request* request, const char* text,
                                                           size_t text_len, quire_error** error);

/** The template for the messages, as its settings are now. NULL, the default: the model's own. */
QUIRE_API int32_t quire_job_request_set_chat_template(quire_job_request* request, quire_chat_template* chat,
                                                      quire_error** error);

/** The whole prompt as one text. */
QUIRE_API int32_t quire_job_request_set_prompt_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** The whole prompt as token ids. */
QUIRE_API int32_t quire_job_request_set_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/**
 * 1, the default: a prompt gets the tokens that the model's own tokenizer puts around a text: those before it
 * where its first part is text, those after it where its last part is.
 */
QUIRE_API int32_t quire_job_request_set_add_special(quire_job_request* request, int32_t add_special,
                                                    quire_error** error);

/**
 * 1: the text of special tokens in parts that are text is read as those tokens, for templates. 0, the
 * default: it is ordinary text, so that a user's text cannot forge them.
 */
QUIRE_API int32_t quire_job_request_set_parse_special(quire_job_request* request, int32_t parse_special,
                                                      quire_error** error);

/* Length and stops. */

/** Tokens to generate at most, 1 to 2^31 - 1. Default: 256. */
QUIRE_API int32_t quire_job_request_set_max_new_tokens(quire_job_request* request, int32_t max_new_tokens,
                                                       quire_error** error);

/** Tokens before which no stop token is drawn; stop strings still end the job. Default: 0. */
QUIRE_API int32_t quire_job_request_set_min_new_tokens(quire_job_request* request, int32_t min_new_tokens,
                                                       quire_error** error);

/**
 * Tokens that end the job beside the model's own, in place of those set before; 1024 at most. Their text is
 * not part of the result. Default: none.
 */
QUIRE_API int32_t quire_job_request_set_stop_tokens(quire_job_request* request, const int32_t* tokens,
                                                    size_t num_tokens, quire_error** error);

/**
 * One more text that ends the job: 1 to 4096 bytes, 256 texts at most. Neither it nor a piece of it is ever
 * part of the result, however it falls on token boundaries.
 */
QUIRE_API int32_t quire_job_request_add_stop_text(quire_job_request* request, const char* text,
                                                  size_t text_len, quire_error** error);

/** Takes all stop texts back. */
QUIRE_API int32_t quire_job_request_clear_stop_texts(quire_job_request* request, quire_error** error);

/**
 * One more text that must not appear: 1 to 4096 bytes, 256 texts at most, not one of the stop texts. Where it
 * is complete, the tokens from the one on in which it begins are taken back, with all that they had changed,
 * and that one is not drawn there again. Text is held back as long as a banned one may begin in it, and let
 * out in whole tokens, so that no event is taken back for it. A job ends with QUIRE_ERROR_INVALID_ARGUMENT
 * where there is no other way on, and with QUIRE_ERROR_CAPACITY where more than 65536 draws were taken back.
 * In a fork whose parent was amid such a text, the first token of its own gives way.
 */
QUIRE_API int32_t quire_job_request_add_banned_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** Takes all banned texts back. */
QUIRE_API int32_t quire_job_request_clear_banned_texts(quire_job_request* request, quire_error** error);

/**
 * 1: token healing. The last token of the prompt is taken off, and the first new tokens are drawn among those
 * that begin with its text, so that a prompt which ends inside of a word goes on as that word. Its text is
 * not said again. Nothing is healed where the prompt has one token, or ends in a special one. Refused
 * together with a constraint, whose text begins anew. Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_heal_prompt(quire_job_request* request, int32_t heal_prompt,
                                                    quire_error** error);

/*
 * Guidance by a second sequence, without a classifier: the new tokens follow the negative prompt too, and
 * each is drawn from negative + scale * (positive - negative), in logarithms of the softmax.
 * Log-probabilities are those of the mixed row. Such a job takes two places and the pages of both sequences;
 * submit fails with QUIRE_ERROR_TOO_LARGE where the cache runs one sequence at a time, and with
 * QUIRE_ERROR_UNSUPPORTED together with quire_job_request_set_reserve_whole.
 */

/** What the text is to lead away from; tokenized at submit like a prompt of one text. Default: none. */
QUIRE_API int32_t quire_job_request_set_negative_prompt_text(quire_job_request* request, const char* text,
                                                             size_t text_len, quire_error** error);

/** The same as token ids, in place of what was set before. */
QUIRE_API int32_t quire_job_request_set_negative_prompt_tokens(quire_job_request* request,
                                                               const int32_t* tokens, size_t num_tokens,
                                                               quire_error** error);

/**
 * 0 to 100. Above 1 the text is led away from the negative prompt, below 1 towards it. Refused at submit
 * unless a negative prompt and another scale than 1, the default, are both set.
 */
QUIRE_API int32_t quire_job_request_set_guidance_scale(quire_job_request* request, double scale,
                                                       quire_error** error);

/** 1: the end-of-sequence tokens of the model do not end the job. 0, the default: they do. */
QUIRE_API int32_t quire_job_request_set_ignore_eos(quire_job_request* request, int32_t ignore_eos,
                                                   quire_error** error);

/**
 * Ends the job with QUIRE_FINISH_LOOP once its newest tokens are the same 1 to max_period tokens, at least
 * min_repeats times in a row. max_period 1 to 1024 and min_repeats 2 to 1024, or both 0, the default: off.
 */
QUIRE_API int32_t quire_job_request_set_loop_guard(quire_job_request* request, int32_t max_period,
                                                   int32_t min_repeats, quire_error** error);

/**
 * What the text has to be (constraint.h): no token is drawn that leads elsewhere, and the model's end tokens
 * are drawn only where the text may be over. A job ends with QUIRE_ERROR_INVALID_ARGUMENT where its
 * constraint cannot be met any more, and with QUIRE_FINISH_COMPLETED where nothing may follow and no end
 * token is left. The constraint has to be of the vocabulary of the cache's model, which submit checks. The
 * request and its jobs keep what they need of it alive. NULL, the default: any text.
 */
QUIRE_API int32_t quire_job_request_set_constraint(quire_job_request* request, quire_constraint* constraint,
                                                   quire_error** error);

/*
 * Sampling, in the order of its work. What a draw takes goes with the job, is taken back by
 * quire_job_rewind, and copied by a fork.
 */

/**
 * All settings of a preset, in place of those set before; what is set afterwards counts. "neutral", "greedy",
 * "precise", "balanced" or "creative". The seed, biases and banned tokens stay.
 */
QUIRE_API int32_t quire_job_request_set_sampling_preset(quire_job_request* request, const char* text,
                                                        size_t text_len, quire_error** error);

/**
 * The same with what the authors of a model recommend in its generation_config.json; QUIRE_ERROR_NOT_FOUND
 * where it has none.
 */
QUIRE_API int32_t quire_job_request_set_sampling_of_model(quire_job_request* request, quire_model* model,
                                                          quire_error** error);

/** 1: each submit draws a seed of its own (quire_job_seed tells it). 0, the default: the seed set below. */
QUIRE_API int32_t quire_job_request_set_random_seed(quire_job_request* request, int32_t random_seed,
                                                    quire_error** error);

/** Same seed, same prompt, same settings: same tokens. Default: 0. */
QUIRE_API int32_t quire_job_request_set_seed(quire_job_request* request, uint64_t seed, quire_error** error);

/**
 * Once per distinct token in range: a positive logit is divided by it, any other multiplied. 0.01 to 100.
 * Default: 1, off.
 */
QUIRE_API int32_t quire_job_request_set_repetition_penalty(quire_job_request* request, double penalty,
                                                           quire_error** error);

/** Taken off a token's logit once per occurrence in range. -100 to 100. Default: 0. */
QUIRE_API int32_t quire_job_request_set_frequency_penalty(quire_job_request* request, double penalty,
                                                          quire_error** error);

/** Taken off a token's logit once where it occurs in range. -100 to 100. Default: 0. */
QUIRE_API int32_t quire_job_request_set_presence_penalty(quire_job_request* request, double penalty,
                                                         quire_error** error);

/** The range of the three: the last tokens, prompt included; -1, the default, is all of them. */
QUIRE_API int32_t quire_job_request_set_penalty_range(quire_job_request* request, int32_t range_tokens,
                                                      quire_error** error);

/** Over how many older tokens the penalties fade to nothing. Default: 0. */
QUIRE_API int32_t quire_job_request_set_penalty_decay(quire_job_request* request, int32_t fade_tokens,
                                                      quire_error** error);

/**
 * DRY: a token that has followed an earlier occurrence of the newest L tokens gets multiplier * base ^ (L -
 * allowed_length) taken off its logit, L the longest such length, where that is allowed_length or more. 0
 * to 100. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_dry_multiplier(quire_job_request* request, double multiplier,
                                                       quire_error** error);

/** 1 to 8. Default: 1.75. */
QUIRE_API int32_t quire_job_request_set_dry_base(quire_job_request* request, double base,
                                                 quire_error** error);

/** 1 to 1024. Default: 2. */
QUIRE_API int32_t quire_job_request_set_dry_allowed_length(quire_job_request* request, int32_t length_tokens,
                                                           quire_error** error);

/** Tokens that are compared at most, allowed_length to 1024. Default: 64. */
QUIRE_API int32_t quire_job_request_set_dry_max_length(quire_job_request* request, int32_t length_tokens,
                                                       quire_error** error);

/** How many of the last tokens DRY looks at, prompt included; -1, the default, is all of them. */
QUIRE_API int32_t quire_job_request_set_dry_range(quire_job_request* request, int32_t range_tokens,
                                                  quire_error** error);

/** Tokens over which no repetition reaches, in place of those set before. Default: none. */
QUIRE_API int32_t quire_job_request_set_dry_breakers(quire_job_request* request, const int32_t* tokens,
                                                     size_t num_tokens, quire_error** error);

/**
 * Added to the logit of one token, in place of what was set for it before. -1e30 to 1e30. 4096 tokens at
 * most.
 */
QUIRE_API int32_t quire_job_request_add_logit_bias(quire_job_request* request, int32_t token, double bias,
                                                   quire_error** error);

/** The same bias for each of several tokens, in place of all that was set before. */
QUIRE_API int32_t quire_job_request_set_logit_biases(quire_job_request* request, const int32_t* tokens,
                                                     size_t num_tokens, double bias, quire_error** error);

/** Takes all biases back. */
QUIRE_API int32_t quire_job_request_clear_logit_biases(quire_job_request* request, quire_error** error);

/** Tokens that are never drawn, in place of those set before. Default: none. */
QUIRE_API int32_t quire_job_request_set_banned_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/** Divides the logits, 0 to 100. Below 0.01 the likeliest token is taken always. Default: 1. */
QUIRE_API int32_t quire_job_request_set_temperature(quire_job_request* request, double temperature,
                                                    quire_error** error);

/**
 * Quadratic sampling: a logit that lies d below the largest comes to lie d * d * factor below it, before
 * temperature. 0 to 100. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_smoothing_factor(quire_job_request* request, double factor,
                                                         quire_error** error);

/**
 * With a maximum above the minimum the temperature follows the entropy H of the candidates: minimum +
 * (maximum - minimum) * (H / largest H) ^ exponent; the fixed temperature then only says whether the draw
 * is greedy. 0.01 to 100. Default of both: 0.01, off.
 */
QUIRE_API int32_t quire_job_request_set_min_temperature(quire_job_request* request, double temperature,
                                                        quire_error** error);

/** See quire_job_request_set_min_temperature. */
QUIRE_API int32_t quire_job_request_set_max_temperature(quire_job_request* request, double temperature,
                                                        quire_error** error);

/** 0.01 to 100. Default: 1. */
QUIRE_API int32_t quire_job_request_set_temperature_exponent(quire_job_request* request, double exponent,
                                                             quire_error** error);

/**
 * Keeps tokens whose logit lies at most this many standard deviations of all logits below the largest. 0 to
 * 1000. Default: 0, all.
 */
QUIRE_API int32_t quire_job_request_set_top_n_sigma(quire_job_request* request, double num_sigma,
                                                    quire_error** error);

/** Keeps the k likeliest tokens. Default: 0, all. */
QUIRE_API int32_t quire_job_request_set_top_k(quire_job_request* request, int32_t top_k, quire_error** error);

/**
 * Keeps the fewest tokens, likeliest first, that together have this probability; above 0, up to 1. Default:
 * 1, all.
 */
QUIRE_API int32_t quire_job_request_set_top_p(quire_job_request* request, double top_p, quire_error** error);

/** Keeps tokens of at least a times the square of the largest probability; 0 to 1. Default: 0, all. */
QUIRE_API int32_t quire_job_request_set_top_a(quire_job_request* request, double top_a, quire_error** error);

/** Keeps tokens at least this share as likely as the likeliest; 0 to 1. Default: 0, all. */
QUIRE_API int32_t quire_job_request_set_min_p(quire_job_request* request, double min_p, quire_error** error);

/**
 * Tail-free sampling: keeps the likeliest tokens up to the one at which the curvature of the sorted
 * probabilities, summed and normalised, passes z. 0 to 1. Default: 1, all.
 */
QUIRE_API int32_t quire_job_request_set_tail_free(quire_job_request* request, double z, quire_error** error);

/**
 * Locally typical sampling: keeps the tokens whose information lies closest to the entropy, the fewest
 * whose probability together reaches this; above 0, up to 1. Default: 1, all.
 */
QUIRE_API int32_t quire_job_request_set_typical(quire_job_request* request, double mass, quire_error** error);

/**
 * Mirostat 2: keeps tokens whose surprise in bits is at most mu, the likeliest always; mu begins at 2 tau
 * and moves by eta * (tau - surprise of the drawn token) with each token. 0 to 100. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_mirostat_tau(quire_job_request* request, double tau,
                                                     quire_error** error);

/** 0 to 1. Default: 0.1. */
QUIRE_API int32_t quire_job_request_set_mirostat_eta(quire_job_request* request, double eta,
                                                     quire_error** error);

/**
 * Exclude top choices: with this probability, drawn for each token, all tokens as likely as the threshold
 * or likelier go but the least likely of them. 0 to 1. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_xtc_probability(quire_job_request* request, double probability,
                                                        quire_error** error);

/** 0 to 1. Default: 0.1. */
QUIRE_API int32_t quire_job_request_set_xtc_threshold(quire_job_request* request, double threshold,
                                                      quire_error** error);

/**
 * Tokens that never go by the exclusion of top choices, and are not counted among them, in place of those
 * set before. Default: none.
 */
QUIRE_API int32_t quire_job_request_set_xtc_ignored(quire_job_request* request, const int32_t* tokens,
                                                    size_t num_tokens, quire_error** error);

/**
 * Draws from the candidates in order of probability with u ^ exp(-skew) in place of the uniform u: above 0
 * the less likely ones gain. -5 to 5. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_skew(quire_job_request* request, double skew, quire_error** error);

/**
 * The order of what shapes the candidates, such as "top_k, temperature, xtc": each at most once, and those
 * that are switched on have to be among them. Names: temperature, top_n_sigma, top_k, top_p, top_a, min_p,
 * tail_free, typical, mirostat, xtc; they stand here in the order that an empty text, the default, means.
 */
QUIRE_API int32_t quire_job_request_set_sampler_order(quire_job_request* request, const char* text,
                                                      size_t text_len, quire_error** error);

/* Results. */

/**
 * How the model writes its answer: the name of a dialect (response.h), or "auto", the one that the chat
 * template of the request or of the model tells, or the special tokens of its vocabulary. TEXT events then
 * say of what kind their text is (quire_event_response_kind), and the text of special tokens is part of it.
 * The tools of the request say which arguments are strings where the dialect does not. An empty text, the
 * default: text is text. QUIRE_ERROR_NOT_FOUND where there is no such dialect.
 */
QUIRE_API int32_t quire_job_request_set_response_dialect(quire_job_request* request, const char* text,
                                                         size_t text_len, quire_error** error);

/**
 * With a dialect: where reasoning begins, one of QUIRE_REASONING_* of response.h. Default:
 * QUIRE_REASONING_CLOSED, unless the prompt has opened it: the words of the template for messages, or else
 * the text of the prompt.
 */
QUIRE_API int32_t quire_job_request_set_reasoning(quire_job_request* request, int32_t reasoning,
                                                  quire_error** error);

/**
 * With a dialect: tokens of reasoning at most, from 0 on; -1, the default: no limit. After so many, and a
 * character that is whole, the tokens come with which reasoning ends and text begins; where a constraint does
 * not let them through at that place, it has its way. Later reasoning counts too.
 */
QUIRE_API int32_t quire_job_request_set_reasoning_budget(quire_job_request* request, int32_t reasoning_budget,
                                                         quire_error** error);

/** 1: the text of special tokens is part of the text. 0, the default: it is left out. */
QUIRE_API int32_t quire_job_request_set_emit_special(quire_job_request* request, int32_t emit_special,
                                                     quire_error** error);

/** 1: events carry the log-probability of each token. Default: 0. */
QUIRE_API int32_t quire_job_request_set_log_probs(quire_job_request* request, int32_t log_probs,
                                                  quire_error** error);

/**
 * How many of the likeliest tokens events carry beside each token, 0 to 64; above 0 it implies
 * quire_job_request_set_log_probs. Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_top_log_probs(quire_job_request* request, int32_t num_top,
                                                      quire_error** error);

/** 1: a QUIRE_JOB_KIND_SCORE job keeps all logits, 1 GiB at most, for quire_job_raw_logits. Default: 0. */
QUIRE_API int32_t quire_job_request_set_raw_logits(quire_job_request* request, int32_t raw_logits,
                                                   quire_error** error);

/** How a QUIRE_JOB_KIND_EMBED job makes its vector, one of QUIRE_POOLING_*. Default: QUIRE_POOLING_MEAN. */
QUIRE_API int32_t quire_job_request_set_pooling(quire_job_request* request, int32_t pooling,
                                                quire_error** error);

/** 1, the default: the vector of a QUIRE_JOB_KIND_EMBED job has length 1. */
QUIRE_API int32_t quire_job_request_set_normalize(quire_job_request* request, int32_t normalize,
                                                  quire_error** error);

/** Any number; every event of the job carries it. Default: 0. */
QUIRE_API int32_t quire_job_request_set_user_data(quire_job_request* request, uint64_t user_data,
                                                  quire_error** error);

/** Of completions that are submitted together each has this much more than the one before it. Default: 0. */
QUIRE_API int32_t quire_job_request_set_user_data_step(quire_job_request* request, uint64_t user_data_step,
                                                       quire_error** error);

/**
 * Events of the job come to this queue (queue.h). The request and its jobs keep the queue alive. NULL, the
 * default: they are taken with quire_job_poll. The queue must be of the runtime of the cache.
 */
QUIRE_API int32_t quire_job_request_set_queue(quire_job_request* request, quire_queue* queue,
                                              quire_error** error);

/** One of QUIRE_EVENTS_*. Default: QUIRE_EVENTS_COALESCE. */
QUIRE_API int32_t quire_job_request_set_event_policy(quire_job_request* request, int32_t event_policy,
                                                     quire_error** error);

/** Events that may wait before the policy acts, 2 to 65536. Default: 64. */
QUIRE_API int32_t quire_job_request_set_max_unread_events(quire_job_request* request,
                                                          int32_t max_unread_events, quire_error** error);

/** 1: the job yields QUIRE_EVENT_PROGRESS events. Default: 0. */
QUIRE_API int32_t quire_job_request_set_progress_events(quire_job_request* request, int32_t progress_events,
                                                        quire_error** error);

/* Scheduling. */

/** Jobs share cached prefixes only within a namespace, such as a tenant: UTF-8, up to 256 bytes. Default:
 * empty. */
QUIRE_API int32_t quire_job_request_set_namespace(quire_job_request* request, const char* text,
                                                  size_t text_len, quire_error** error);

/** Larger goes first; -1000 to 1000. Default: 0. */
QUIRE_API int32_t quire_job_request_set_priority(quire_job_request* request, int32_t priority,
                                                 quire_error** error);

/**
 * Nanoseconds after submit by which work on the job must have begun; it ends with QUIRE_ERROR_DEADLINE else.
 * 0, the default, is no deadline, here and below.
 */
QUIRE_API int32_t quire_job_request_set_queue_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                          quire_error** error);

/** Nanoseconds after submit by which the first token must be there. */
QUIRE_API int32_t quire_job_request_set_first_token_deadline_ns(quire_job_request* request,
                                                                int64_t deadline_ns, quire_error** error);

/** Nanoseconds after submit by which the job must be over. */
QUIRE_API int32_t quire_job_request_set_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                    quire_error** error);

/**
 * 1: room for the prompt and max_new_tokens is taken at once, so that the job never has to give it to others.
 * Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_reserve_whole(quire_job_request* request, int32_t reserve_whole,
                                                      quire_error** error);

/** 1, the default: the job starts from what the cache has of its prompt. 0: it computes all of it. */
QUIRE_API int32_t quire_job_request_set_reuse_prefix(quire_job_request* request, int32_t reuse_prefix,
                                                     quire_error** error);

/** 1, the default: later jobs may start from what this one computed. */
QUIRE_API int32_t quire_job_request_set_publish_pages(quire_job_request* request, int32_t publish_pages,
                                                      quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_REQUEST_H */
