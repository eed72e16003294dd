/*
 * The request of a job. It is filled by setters and copied by quire_job_submit, so one request may be
 * submitted many times, changed in between, and freed at once.
 *
 * Each setter returns 1, or 0 on failure, and then the setting is unchanged. QUIRE_ERROR_INVALID_ARGUMENT
 * names the setting and its range. quire_job_submit checks what depends on the model or the cache. It never
 * ignores a setting: it fails with QUIRE_ERROR_UNSUPPORTED for a setting that this version cannot apply,
 * and refuses one that does not apply to the kind of the job, such as a temperature for a score. Setters on
 * one request from several threads run one after another.
 *
 * Every default is neutral: an unchanged request samples from the model's own distribution, with a new seed
 * for each submit (docs/sampling.md).
 *
 * Long file: every setting of a request, with its meaning and range.
 */
#ifndef QUIRE_REQUEST_H
#define QUIRE_REQUEST_H

#include <quire/base.h>

/* Kinds of jobs. */
#define QUIRE_JOB_KIND_GENERATE 0 /* generates tokens after the prompt */
#define QUIRE_JOB_KIND_SCORE 1    /* computes how likely the prompt is: quire_job_scores */
#define QUIRE_JOB_KIND_WARM 2     /* computes the prompt, so that later jobs find it in the cache */
#define QUIRE_JOB_KIND_EMBED 3    /* computes one vector from the prompt: quire_job_embedding */

/* Ways to compute an embedding from the hidden states of a prompt, taken after the last norm of the
 * model. */
#define QUIRE_POOLING_MEAN 0 /* their mean */
#define QUIRE_POOLING_LAST 1 /* the last one */

/* Policies for the events of a job that are not taken. The scheduler never waits for a reader. */
#define QUIRE_EVENTS_COALESCE 0 /* text is merged into one event */
#define QUIRE_EVENTS_PAUSE 1    /* the job pauses until events are taken */
#define QUIRE_EVENTS_END 2      /* the job ends with QUIRE_ERROR_SLOW_READER */

/* Orders of the members of an object. */
#define QUIRE_JSON_ORDER_SCHEMA 0 /* the order of the schema; members that it does not name come last */
#define QUIRE_JSON_ORDER_ANY 1    /* any order */

/* White space in JSON. */
#define QUIRE_JSON_SPACE_SPACED 0  /* one blank after a colon and a comma: {"a": 1, "b": [2, 3]} */
#define QUIRE_JSON_SPACE_COMPACT 1 /* none */
#define QUIRE_JSON_SPACE_PRINTED 2 /* as any printer writes it, on one line or indented */

#ifdef __cplusplus
extern "C" {
#endif

/** Creates a request with every default and no prompt. The caller owns it. Returns NULL on failure. */
QUIRE_API quire_job_request* quire_job_request_create(quire_error** error);

/** Frees a request. Jobs created from it are not affected. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_request_free(quire_job_request* handle, quire_error** error);

/** Sets the kind of the job, one of QUIRE_JOB_KIND_*. Default: QUIRE_JOB_KIND_GENERATE. */
QUIRE_API int32_t quire_job_request_set_kind(quire_job_request* request, int32_t kind, quire_error** error);

/*
 * Prompt: a list of parts, appended one by one. A setter replaces all parts by one. A request without any
 * part is refused; a part may be empty.
 */

/** Removes all parts of the prompt. */
QUIRE_API int32_t quire_job_request_clear_prompt(quire_job_request* request, quire_error** error);

/**
 * Appends a text. Submit tokenizes it separately from other parts, as quire_job_request_set_add_special and
 * quire_job_request_set_parse_special define.
 */
QUIRE_API int32_t quire_job_request_add_prompt_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** Appends token ids without a change. */
QUIRE_API int32_t quire_job_request_add_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/**
 * Appends one special token, given by its text in the tokenizer's file, such as "<|im_end|>". Submit fails
 * with QUIRE_ERROR_NOT_FOUND if there is no such token.
 */
QUIRE_API int32_t quire_job_request_add_prompt_special(quire_job_request* request, const char* text,
                                                       size_t text_len, quire_error** error);

/**
 * Appends messages: one message, or a list of them, as JSON in the format of OpenAI (role, content as text
 * or parts, reasoning, tool_calls, tool_call_id). Adjacent message parts form one conversation. Submit
 * converts it to tokens with the chat template of the model (chat.h), on the caller's thread. Special
 * tokens come only from the template's own text, and no tokens are added around it. Text or tokens after
 * the messages are the beginning of the answer. Fails with QUIRE_ERROR_FORMAT if the text is no JSON;
 * submit fails with QUIRE_ERROR_NOT_FOUND if there is no template.
 */
QUIRE_API int32_t quire_job_request_add_messages(quire_job_request* request, const char* text,
                                                 size_t text_len, quire_error** error);

/**
 * Sets the tools that go with the messages, or that an answer in a dialect may call: a JSON list in the
 * format of OpenAI. An empty text, the default, means none.
 */
QUIRE_API int32_t quire_job_request_set_tools(quire_job_request* request, const char* text, size_t text_len,
                                              quire_error** error);

/**
 * Sets further variables for the template as a JSON object, such as {"enable_thinking": false}. An empty
 * text, the default, means none. `add_generation_prompt` is true unless it is set here. It is also not true
 * if `continue_final_message` is true, which ends the prompt inside the last message.
 */
QUIRE_API int32_t quire_job_request_set_template_arguments(quire_job_request* request, const char* text,
                                                           size_t text_len, quire_error** error);

/**
 * Sets the template for the messages, copied with its current settings. NULL, the default, means the
 * model's own template.
 */
QUIRE_API int32_t quire_job_request_set_chat_template(quire_job_request* request, quire_chat_template* chat,
                                                      quire_error** error);

/** Sets the whole prompt to one text. */
QUIRE_API int32_t quire_job_request_set_prompt_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** Sets the whole prompt to token ids. */
QUIRE_API int32_t quire_job_request_set_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/**
 * Sets whether a prompt gets the tokens that the model's tokenizer puts around a text: 1 or 0. Default: 1.
 * The tokens before a text are added if the first part of the prompt is text, and those after a text if the
 * last part is.
 */
QUIRE_API int32_t quire_job_request_set_add_special(quire_job_request* request, int32_t add_special,
                                                    quire_error** error);

/**
 * Sets whether the text of special tokens in text parts becomes those tokens, as templates need: 1 or 0.
 * Default: 0. With the default it stays ordinary text, so that user input cannot forge special tokens.
 */
QUIRE_API int32_t quire_job_request_set_parse_special(quire_job_request* request, int32_t parse_special,
                                                      quire_error** error);

/* Length and stops. */

/** Sets the maximum number of tokens to generate, 1 to 2^31 - 1. Default: 256. */
QUIRE_API int32_t quire_job_request_set_max_new_tokens(quire_job_request* request, int32_t max_new_tokens,
                                                       quire_error** error);

/**
 * Sets the maximum number of draft tokens of the job in one step: 0 for none, at most that of the cache.
 * Default: that of the cache. The answer does not depend on it.
 */
QUIRE_API int32_t quire_job_request_set_max_drafts(quire_job_request* request, int32_t max_drafts,
                                                   quire_error** error);

/**
 * Sets the number of tokens before which no stop token is sampled. Stop strings still end the job. Default:
 * 0.
 */
QUIRE_API int32_t quire_job_request_set_min_new_tokens(quire_job_request* request, int32_t min_new_tokens,
                                                       quire_error** error);

/**
 * Sets the tokens that end the job in addition to the model's own, replacing those set before; at most
 * 1024. Their text is not part of the result. Default: none.
 */
QUIRE_API int32_t quire_job_request_set_stop_tokens(quire_job_request* request, const int32_t* tokens,
                                                    size_t num_tokens, quire_error** error);

/**
 * Adds a text that ends the job: 1 to 4096 bytes, at most 256 texts. No part of it appears in the result,
 * for any split into tokens.
 */
QUIRE_API int32_t quire_job_request_add_stop_text(quire_job_request* request, const char* text,
                                                  size_t text_len, quire_error** error);

/** Removes all stop texts. */
QUIRE_API int32_t quire_job_request_clear_stop_texts(quire_job_request* request, quire_error** error);

/**
 * Adds a text that must not appear in the result: 1 to 4096 bytes, at most 256 texts, and none of the stop
 * texts. When it is complete, all tokens from the one in which it begins are removed, with all their
 * effects, and that token is not sampled there again. Text is held back while a banned text may begin in
 * it, and released in whole tokens, so no event has to be withdrawn. In a fork whose parent was inside
 * such a text, the first token of the fork is replaced. The job ends with QUIRE_ERROR_INVALID_ARGUMENT if
 * no other continuation is left, and with QUIRE_ERROR_CAPACITY if more than 65536 sampled tokens were
 * removed.
 */
QUIRE_API int32_t quire_job_request_add_banned_text(quire_job_request* request, const char* text,
                                                    size_t text_len, quire_error** error);

/** Removes all banned texts. */
QUIRE_API int32_t quire_job_request_clear_banned_texts(quire_job_request* request, quire_error** error);

/**
 * Sets whether token healing is applied: 1 or 0. Default: 0. Healing removes the last token of the prompt
 * and samples the first new tokens among those that begin with its text. A prompt that ends inside a word
 * then continues that word. The removed text is not repeated in the result. Nothing is healed if the prompt
 * has one token, or ends in a special one. Submit refuses healing together with a constraint, since the
 * constraint would have to match text of the prompt.
 */
QUIRE_API int32_t quire_job_request_set_heal_prompt(quire_job_request* request, int32_t heal_prompt,
                                                    quire_error** error);

/*
 * Classifier-free guidance by a second sequence. The new tokens also follow the negative prompt, and each
 * is sampled from negative + scale * (positive - negative), computed on log-softmax values. Reported
 * log-probabilities are those of the mixed distribution. Such a job counts as two jobs and takes the pages
 * of both sequences. Submit fails with QUIRE_ERROR_TOO_LARGE if the cache runs one job at a time, and with
 * QUIRE_ERROR_UNSUPPORTED together with quire_job_request_set_reserve_whole.
 */

/**
 * Sets the text that guidance leads away from; submit tokenizes it like a prompt of one text. Default:
 * none.
 */
QUIRE_API int32_t quire_job_request_set_negative_prompt_text(quire_job_request* request, const char* text,
                                                             size_t text_len, quire_error** error);

/** Sets the negative prompt as token ids, replacing what was set before. */
QUIRE_API int32_t quire_job_request_set_negative_prompt_tokens(quire_job_request* request,
                                                               const int32_t* tokens, size_t num_tokens,
                                                               quire_error** error);

/**
 * Sets the guidance scale, 0 to 100. A scale above 1 moves the text away from the negative prompt, one below
 * 1 towards it. Default: 1. Submit refuses a scale other than 1 without a negative prompt, and a negative
 * prompt without such a scale.
 */
QUIRE_API int32_t quire_job_request_set_guidance_scale(quire_job_request* request, double scale,
                                                       quire_error** error);

/**
 * Sets whether the end-of-sequence tokens of the model are ignored and do not end the job: 1 or 0. Default:
 * 0.
 */
QUIRE_API int32_t quire_job_request_set_ignore_eos(quire_job_request* request, int32_t ignore_eos,
                                                   quire_error** error);

/**
 * Sets a guard that ends the job with QUIRE_FINISH_LOOP once its newest tokens are the same 1 to max_period
 * tokens, at least min_repeats times in a row. max_period is 1 to 1024 and min_repeats 2 to 1024; both 0,
 * the default, means off.
 */
QUIRE_API int32_t quire_job_request_set_loop_guard(quire_job_request* request, int32_t max_period,
                                                   int32_t min_repeats, quire_error** error);

/**
 * Sets the constraint that the text must match (constraint.h). Only tokens that continue a matching text
 * are sampled, and end tokens only if the text may be complete. The constraint must be compiled for the
 * vocabulary of the cache's model, which submit checks. The request and its jobs keep its data
 * alive. A job ends with QUIRE_ERROR_INVALID_ARGUMENT if its constraint can no longer be met, and with
 * QUIRE_FINISH_COMPLETED if nothing may follow and no end token is left. NULL, the default, means any text.
 */
QUIRE_API int32_t quire_job_request_set_constraint(quire_job_request* request, quire_constraint* constraint,
                                                   quire_error** error);

/*
 * The form of JSON in constrained text. A schema allows a value in many spellings, also ones that its author
 * did not think of. Jobs draw the spelling that people mean; each setting allows more. Constraints without
 * JSON ignore these settings. docs/constraints.md describes them.
 */

/** Sets the order of the members of an object, one of QUIRE_JSON_ORDER_*. Default: QUIRE_JSON_ORDER_SCHEMA.
 */
QUIRE_API int32_t quire_job_request_set_json_order(quire_job_request* request, int32_t json_order,
                                                   quire_error** error);

/**
 * Sets whether objects whose schema lists members have no other ones, unless the schema allows them in its
 * own words, such as `additionalProperties`: 1 or 0. Default: 1. An object that no value would satisfy then
 * stays open.
 */
QUIRE_API int32_t quire_job_request_set_json_closed(quire_job_request* request, int32_t json_closed,
                                                    quire_error** error);

/** Sets whether integers have neither a fraction of zeros nor an exponent: 1 or 0. Default: 1. */
QUIRE_API int32_t quire_job_request_set_json_plain_integers(quire_job_request* request,
                                                            int32_t json_plain_integers, quire_error** error);

/** Sets the white space in JSON, one of QUIRE_JSON_SPACE_*. Default: QUIRE_JSON_SPACE_SPACED. */
QUIRE_API int32_t quire_job_request_set_json_space(quire_job_request* request, int32_t json_space,
                                                   quire_error** error);

/*
 * Sampling, in the order of its stages. The state of the samplers belongs to the job: quire_job_rewind
 * restores it, and a fork copies it.
 */

/**
 * Replaces all sampling settings by a preset: "neutral", "greedy", "precise", "balanced" or "creative".
 * Later setters override it. The seed, biases and banned tokens stay.
 */
QUIRE_API int32_t quire_job_request_set_sampling_preset(quire_job_request* request, const char* text,
                                                        size_t text_len, quire_error** error);

/**
 * Replaces all sampling settings by those that the authors of a model recommend in its
 * generation_config.json. Later setters override them. The seed, biases and banned tokens stay. Fails with
 * QUIRE_ERROR_NOT_FOUND if the model has no such file, or if the file has no `do_sample`.
 */
QUIRE_API int32_t quire_job_request_set_sampling_of_model(quire_job_request* request, quire_model* model,
                                                          quire_error** error);

/**
 * Sets whether each submit takes a random seed, which quire_job_seed returns, instead of the one set below:
 * 1 or 0. Default: 1 unless a seed is set. A fork without a seed has that of its parent.
 */
QUIRE_API int32_t quire_job_request_set_random_seed(quire_job_request* request, int32_t random_seed,
                                                    quire_error** error);

/** Sets the seed. The same seed, prompt and settings give the same tokens. Default: a random one. */
QUIRE_API int32_t quire_job_request_set_seed(quire_job_request* request, uint64_t seed, quire_error** error);

/**
 * Sets the repetition penalty, 0.01 to 100. It applies once per distinct token in range: a positive logit
 * is divided by it, any other multiplied. Default: 1, off.
 */
QUIRE_API int32_t quire_job_request_set_repetition_penalty(quire_job_request* request, double penalty,
                                                           quire_error** error);

/**
 * Sets the penalty that is subtracted from a token's logit for each occurrence in range, -100 to 100.
 * Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_frequency_penalty(quire_job_request* request, double penalty,
                                                          quire_error** error);

/**
 * Sets the penalty that is subtracted once from the logit of a token that occurs in range, -100 to 100.
 * Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_presence_penalty(quire_job_request* request, double penalty,
                                                         quire_error** error);

/**
 * Sets the range of the three penalties: the number of last tokens, prompt included. -1, the default, means
 * all.
 */
QUIRE_API int32_t quire_job_request_set_penalty_range(quire_job_request* request, int32_t range_tokens,
                                                      quire_error** error);

/** Sets the number of tokens before the range over which the penalties fade to zero. Default: 0. */
QUIRE_API int32_t quire_job_request_set_penalty_decay(quire_job_request* request, int32_t fade_tokens,
                                                      quire_error** error);

/**
 * Sets the multiplier of DRY, which penalizes repeated sequences; 0 to 100. Let L be the longest length
 * such that the newest L tokens occurred before, followed by a token t. If L is at least allowed_length,
 * multiplier * base ^ (L - allowed_length) is subtracted from the logit of t. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_dry_multiplier(quire_job_request* request, double multiplier,
                                                       quire_error** error);

/** Sets the base of DRY, 1 to 8. Default: 1.75. */
QUIRE_API int32_t quire_job_request_set_dry_base(quire_job_request* request, double base,
                                                 quire_error** error);

/** Sets the allowed length of DRY, 1 to 1024 tokens. Default: 2. */
QUIRE_API int32_t quire_job_request_set_dry_allowed_length(quire_job_request* request, int32_t length_tokens,
                                                           quire_error** error);

/** Sets the maximum number of tokens that DRY compares, allowed_length to 1024. Default: 64. */
QUIRE_API int32_t quire_job_request_set_dry_max_length(quire_job_request* request, int32_t length_tokens,
                                                       quire_error** error);

/** Sets the number of last tokens that DRY considers, prompt included. -1, the default, means all. */
QUIRE_API int32_t quire_job_request_set_dry_range(quire_job_request* request, int32_t range_tokens,
                                                  quire_error** error);

/** Sets the tokens at which a repetition of DRY ends, replacing those set before. Default: none. */
QUIRE_API int32_t quire_job_request_set_dry_breakers(quire_job_request* request, const int32_t* tokens,
                                                     size_t num_tokens, quire_error** error);

/**
 * Sets the value that is added to the logit of one token, replacing the one set for it before; -1e30 to
 * 1e30. At most 4096 tokens.
 */
QUIRE_API int32_t quire_job_request_add_logit_bias(quire_job_request* request, int32_t token, double bias,
                                                   quire_error** error);

/** Sets the same bias for each of several tokens, replacing all biases set before. */
QUIRE_API int32_t quire_job_request_set_logit_biases(quire_job_request* request, const int32_t* tokens,
                                                     size_t num_tokens, double bias, quire_error** error);

/** Removes all biases. */
QUIRE_API int32_t quire_job_request_clear_logit_biases(quire_job_request* request, quire_error** error);

/** Sets the tokens that are never sampled, replacing those set before. Default: none. */
QUIRE_API int32_t quire_job_request_set_banned_tokens(quire_job_request* request, const int32_t* tokens,
                                                      size_t num_tokens, quire_error** error);

/**
 * Sets the temperature, which divides the logits; 0 to 100. Below 0.01 the likeliest token is always taken.
 * Default: 1.
 */
QUIRE_API int32_t quire_job_request_set_temperature(quire_job_request* request, double temperature,
                                                    quire_error** error);

/**
 * Sets the factor of quadratic sampling: a logit that is d below the largest moves to d * d * factor below
 * it, before temperature. 0 to 100. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_smoothing_factor(quire_job_request* request, double factor,
                                                         quire_error** error);

/**
 * Sets the minimum of the dynamic temperature, 0.01 to 100. If the maximum is above the minimum, the
 * temperature follows the entropy H of the candidates: minimum + (maximum - minimum) * (H / largest H) ^
 * exponent. The fixed temperature then only decides whether sampling is greedy. Default of both: 0.01, off.
 */
QUIRE_API int32_t quire_job_request_set_min_temperature(quire_job_request* request, double temperature,
                                                        quire_error** error);

/** Sets the maximum of the dynamic temperature; see quire_job_request_set_min_temperature. */
QUIRE_API int32_t quire_job_request_set_max_temperature(quire_job_request* request, double temperature,
                                                        quire_error** error);

/** Sets the exponent of the dynamic temperature, 0.01 to 100. Default: 1. */
QUIRE_API int32_t quire_job_request_set_temperature_exponent(quire_job_request* request, double exponent,
                                                             quire_error** error);

/**
 * Keeps tokens whose logit is at most this many standard deviations of all logits below the largest. 0 to
 * 1000. Default: 0, all.
 */
QUIRE_API int32_t quire_job_request_set_top_n_sigma(quire_job_request* request, double num_sigma,
                                                    quire_error** error);

/** Keeps the k likeliest tokens. Default: 0, all. */
QUIRE_API int32_t quire_job_request_set_top_k(quire_job_request* request, int32_t top_k, quire_error** error);

/**
 * Keeps the smallest set of likeliest tokens that together have this probability; above 0, up to 1.
 * Default: 1, all.
 */
QUIRE_API int32_t quire_job_request_set_top_p(quire_job_request* request, double top_p, quire_error** error);

/**
 * Keeps tokens whose probability is at least top_a times the square of the largest one; 0 to 1. Default: 0,
 * all.
 */
QUIRE_API int32_t quire_job_request_set_top_a(quire_job_request* request, double top_a, quire_error** error);

/** Keeps tokens whose probability is at least min_p times the largest one; 0 to 1. Default: 0, all. */
QUIRE_API int32_t quire_job_request_set_min_p(quire_job_request* request, double min_p, quire_error** error);

/**
 * Sets the threshold z of tail-free sampling: keeps the likeliest tokens up to the one at which the summed,
 * normalized curvature of the sorted probabilities exceeds z. 0 to 1. Default: 1, all.
 */
QUIRE_API int32_t quire_job_request_set_tail_free(quire_job_request* request, double z, quire_error** error);

/**
 * Sets the probability of locally typical sampling: keeps the tokens whose information content is closest
 * to the entropy, as few as together reach this probability. Above 0, up to 1. Default: 1, all.
 */
QUIRE_API int32_t quire_job_request_set_typical(quire_job_request* request, double mass, quire_error** error);

/**
 * Sets tau of Mirostat 2: keeps tokens whose surprise in bits is at most mu, and always the likeliest. mu
 * begins at 2 tau and moves by eta * (tau - surprise of the sampled token) with each token. 0 to 100.
 * Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_mirostat_tau(quire_job_request* request, double tau,
                                                     quire_error** error);

/** Sets eta of Mirostat 2, 0 to 1. Default: 0.1. */
QUIRE_API int32_t quire_job_request_set_mirostat_eta(quire_job_request* request, double eta,
                                                     quire_error** error);

/**
 * Sets the probability of exclude top choices (XTC), drawn for each token. When it applies, all tokens at
 * least as likely as the threshold are removed except the least likely of them. 0 to 1. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_xtc_probability(quire_job_request* request, double probability,
                                                        quire_error** error);

/** Sets the threshold of XTC, 0 to 1. Default: 0.1. */
QUIRE_API int32_t quire_job_request_set_xtc_threshold(quire_job_request* request, double threshold,
                                                      quire_error** error);

/** Sets the tokens that XTC neither removes nor counts, replacing those set before. Default: none. */
QUIRE_API int32_t quire_job_request_set_xtc_ignored(quire_job_request* request, const int32_t* tokens,
                                                    size_t num_tokens, quire_error** error);

/**
 * Sets the skew: sampling from the candidates in order of probability uses u ^ exp(-skew) instead of the
 * uniform number u. Above 0, less likely tokens gain. -5 to 5. Default: 0, off.
 */
QUIRE_API int32_t quire_job_request_set_skew(quire_job_request* request, double skew, quire_error** error);

/**
 * Sets the order of the sampling stages, such as "top_k, temperature, xtc". Each stage may appear once, and
 * every stage that is switched on must appear. An empty text, the default, means this order: temperature,
 * top_n_sigma, top_k, top_p, top_a, min_p, tail_free, typical, mirostat, xtc.
 */
QUIRE_API int32_t quire_job_request_set_sampler_order(quire_job_request* request, const char* text,
                                                      size_t text_len, quire_error** error);

/* Results. */

/**
 * Sets the dialect of the answer: a name (response.h), or "auto", which takes the dialect of the chat
 * template of the request or model, or of the special tokens of the model's vocabulary. TEXT events then
 * have a kind (quire_event_response_kind), and their text includes that of special tokens. The tools of the
 * request decide which arguments are strings if the dialect leaves that open. An empty text, the default,
 * means plain text. Fails with QUIRE_ERROR_NOT_FOUND if there is no such dialect.
 */
QUIRE_API int32_t quire_job_request_set_response_dialect(quire_job_request* request, const char* text,
                                                         size_t text_len, quire_error** error);

/**
 * Sets where reasoning begins in an answer with a dialect, one of QUIRE_REASONING_* of response.h. Default:
 * QUIRE_REASONING_CLOSED, unless the prompt has opened reasoning. For messages, the template's text decides
 * that, otherwise the text of the prompt. If an answer to messages has a constraint of
 * quire_response_constraint_create and the template contains no name and no marker of reasoning, the default
 * is QUIRE_REASONING_OFF.
 */
QUIRE_API int32_t quire_job_request_set_reasoning(quire_job_request* request, int32_t reasoning,
                                                  quire_error** error);

/**
 * Sets the maximum number of reasoning tokens in an answer with a dialect, 0 or more. -1, the default,
 * means no limit. At the limit, and after a whole character, the tokens that end reasoning and begin text
 * are inserted. A constraint that does not allow them at that place takes precedence. Reasoning later in
 * the answer counts too.
 */
QUIRE_API int32_t quire_job_request_set_reasoning_budget(quire_job_request* request, int32_t reasoning_budget,
                                                         quire_error** error);

/** Sets whether the text of special tokens is part of the text: 1 or 0. Default: 0. */
QUIRE_API int32_t quire_job_request_set_emit_special(quire_job_request* request, int32_t emit_special,
                                                     quire_error** error);

/** Sets whether events contain the log-probability of each token: 1 or 0. Default: 0. */
QUIRE_API int32_t quire_job_request_set_log_probs(quire_job_request* request, int32_t log_probs,
                                                  quire_error** error);

/**
 * Sets the number of likeliest tokens that events contain for each token, 0 to 64. Above 0 it implies
 * quire_job_request_set_log_probs. Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_top_log_probs(quire_job_request* request, int32_t num_top,
                                                      quire_error** error);

/**
 * Sets whether a QUIRE_JOB_KIND_SCORE job keeps all logits, at most 1 GiB, for quire_job_raw_logits: 1 or
 * 0. Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_raw_logits(quire_job_request* request, int32_t raw_logits,
                                                   quire_error** error);

/**
 * Sets how a QUIRE_JOB_KIND_EMBED job computes its vector, one of QUIRE_POOLING_*. Default: as the model's
 * modules.json declares it, otherwise QUIRE_POOLING_MEAN.
 */
QUIRE_API int32_t quire_job_request_set_pooling(quire_job_request* request, int32_t pooling,
                                                quire_error** error);

/** Sets whether the vector of a QUIRE_JOB_KIND_EMBED job is scaled to length 1: 1 or 0. Default: 1. */
QUIRE_API int32_t quire_job_request_set_normalize(quire_job_request* request, int32_t normalize,
                                                  quire_error** error);

/** Sets a number that every event of the job carries. Default: 0. */
QUIRE_API int32_t quire_job_request_set_user_data(quire_job_request* request, uint64_t user_data,
                                                  quire_error** error);

/** Sets the difference of the user data of adjacent completions that are submitted together. Default: 0. */
QUIRE_API int32_t quire_job_request_set_user_data_step(quire_job_request* request, uint64_t user_data_step,
                                                       quire_error** error);

/**
 * Sets the queue that receives the events of the job (queue.h). The request and its jobs keep the queue
 * alive. The queue must belong to the runtime of the cache. NULL, the default, means that events are taken
 * with quire_job_poll.
 */
QUIRE_API int32_t quire_job_request_set_queue(quire_job_request* request, quire_queue* queue,
                                              quire_error** error);

/** Sets the policy for events that are not taken, one of QUIRE_EVENTS_*. Default: QUIRE_EVENTS_COALESCE. */
QUIRE_API int32_t quire_job_request_set_event_policy(quire_job_request* request, int32_t event_policy,
                                                     quire_error** error);

/** Sets the number of events that may wait before the policy applies, 2 to 65536. Default: 64. */
QUIRE_API int32_t quire_job_request_set_max_unread_events(quire_job_request* request,
                                                          int32_t max_unread_events, quire_error** error);

/** Sets whether the job emits QUIRE_EVENT_PROGRESS events: 1 or 0. Default: 0. */
QUIRE_API int32_t quire_job_request_set_progress_events(quire_job_request* request, int32_t progress_events,
                                                        quire_error** error);

/* Scheduling. */

/**
 * Sets the namespace of the job, such as a tenant: UTF-8, up to 256 bytes. Jobs share cached prefixes only
 * within a namespace. Default: empty.
 */
QUIRE_API int32_t quire_job_request_set_namespace(quire_job_request* request, const char* text,
                                                  size_t text_len, quire_error** error);

/** Sets the priority; larger goes first. -1000 to 1000. Default: 0. */
QUIRE_API int32_t quire_job_request_set_priority(quire_job_request* request, int32_t priority,
                                                 quire_error** error);

/**
 * Sets the nanoseconds after submit by which work on the job must begin; otherwise the job ends with
 * QUIRE_ERROR_DEADLINE. 0, the default, means no deadline.
 */
QUIRE_API int32_t quire_job_request_set_queue_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                          quire_error** error);

/**
 * Sets the nanoseconds after submit by which the first token must be generated; otherwise the job ends with
 * QUIRE_ERROR_DEADLINE. 0, the default, means no deadline.
 */
QUIRE_API int32_t quire_job_request_set_first_token_deadline_ns(quire_job_request* request,
                                                                int64_t deadline_ns, quire_error** error);

/**
 * Sets the nanoseconds after submit by which the job must end; otherwise it ends with QUIRE_ERROR_DEADLINE.
 * 0, the default, means no deadline.
 */
QUIRE_API int32_t quire_job_request_set_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                    quire_error** error);

/**
 * Sets whether the pages for the prompt and max_new_tokens are reserved at once, so that the job is never
 * preempted: 1 or 0. Default: 0.
 */
QUIRE_API int32_t quire_job_request_set_reserve_whole(quire_job_request* request, int32_t reserve_whole,
                                                      quire_error** error);

/**
 * Sets whether the job reuses cached pages of its prompt: 1 or 0. Default: 1. With 0 it computes the whole
 * prompt.
 */
QUIRE_API int32_t quire_job_request_set_reuse_prefix(quire_job_request* request, int32_t reuse_prefix,
                                                     quire_error** error);

/** Sets whether later jobs may reuse the pages of this one: 1 or 0. Default: 1. */
QUIRE_API int32_t quire_job_request_set_publish_pages(quire_job_request* request, int32_t publish_pages,
                                                      quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_REQUEST_H */
