/*
 * Chat templates: what turns a conversation into the text of a prompt, as the model's directory says.
 *
 * The input is one JSON object: `messages` (a list, as OpenAI has them), and whatever else the template
 * reads, such as `tools` and `add_generation_prompt`. `continue_final_message` ends the text inside of the
 * last message. docs/chat.md tells what templates can do, and their limits.
 *
 * What is rendered knows which of its parts the template wrote and which came as content. Tokens are made so
 * that special ones come from the template's words alone: text of a message is text, whatever it contains.
 *
 * Any number of threads may use one template; a setting that is changed holds for the renderings that begin
 * afterwards.
 */
#ifndef QUIRE_CHAT_H
#define QUIRE_CHAT_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A template from its source, in Jinja. The caller owns it. NULL on failure: QUIRE_ERROR_FORMAT with line and
 * column where it is none.
 */
QUIRE_API quire_chat_template* quire_chat_template_create(const char* text, size_t text_len,
                                                          quire_error** error);

/**
 * The templates of the model directory whose path `text` is: chat_template.jinja, additional_chat_templates/,
 * or what tokenizer_config.json has; with the texts of the tokenizer's special tokens. A rendering takes
 * "tool_use" where its input has tools and there is one of that name, else "default". Reads no weights and no
 * tokenizer. NULL on failure: QUIRE_ERROR_NOT_FOUND where the directory has none.
 */
QUIRE_API quire_chat_template* quire_chat_template_open(const char* text, size_t text_len,
                                                        quire_error** error);

/**
 * Takes the template of a name for all renderings; an empty name ends that. Returns 1, or 0 on failure:
 * QUIRE_ERROR_NOT_FOUND, with the names there are.
 */
QUIRE_API int32_t quire_chat_template_choose(quire_chat_template* chat, const char* text, size_t text_len,
                                             quire_error** error);

/**
 * The text of a special token, which templates know as `bos_token`, `eos_token`, `pad_token` or `unk_token`.
 * `kind` is QUIRE_TOKEN_BOS to QUIRE_TOKEN_UNK. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_chat_template_set_token(quire_chat_template* chat, int32_t kind, const char* text,
                                                size_t text_len, quire_error** error);

/**
 * What templates take for the time now, such as "2025-07-26" or "2025-07-26T14:05:09". Without it, that of
 * the system's clock, in UTC. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_chat_template_set_now(quire_chat_template* chat, const char* text, size_t text_len,
                                              quire_error** error);

/**
 * Renders the conversation that `text` is as JSON. Returns the number of bytes, or -1 on failure:
 * QUIRE_ERROR_INVALID_ARGUMENT for what the template refuses, in its own words, or cannot do;
 * QUIRE_ERROR_CAPACITY where it is over a limit; QUIRE_ERROR_FORMAT where the input is no JSON.
 */
QUIRE_API int64_t quire_chat_template_render(quire_chat_template* chat, const char* text, size_t text_len,
                                             char* out_text, size_t out_capacity, quire_error** error);

/**
 * The parts of what quire_chat_template_render gives, in bytes: in turns one of the template's words and one
 * of content, the first of the template. Any may be 0. Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_segments(quire_chat_template* chat, const char* text, size_t text_len,
                                               int64_t* out_sizes, size_t out_capacity, quire_error** error);

/**
 * The tokens of the rendered conversation, with the model's tokenizer. Nothing is put around them. Returns
 * their number, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_tokens(quire_chat_template* chat, quire_model* model, const char* text,
                                             size_t text_len, int32_t* out_tokens, size_t out_capacity,
                                             quire_error** error);

/**
 * The SHA-256 of the source of the template that was chosen, or of the default one, as 64 hexadecimal digits.
 * Returns the number of bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_hash(quire_chat_template* chat, char* out_text, size_t out_capacity,
                                           quire_error** error);

/**
 * The text that the messages of a request (request.h) become with the model's own template, or with the one
 * of the request. Returns the number of bytes, or -1 on failure: QUIRE_ERROR_INVALID_ARGUMENT where the
 * request has no messages, QUIRE_ERROR_NOT_FOUND where the model has no template; else as
 * quire_chat_template_render.
 */
QUIRE_API int64_t quire_model_render_chat(quire_model* model, quire_job_request* request, char* out_text,
                                          size_t out_capacity, quire_error** error);

/** The tokens of the whole prompt of a request, as submit makes them. Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_model_render_chat_tokens(quire_model* model, quire_job_request* request,
                                                 int32_t* out_tokens, size_t out_capacity,
                                                 quire_error** error);

/** Frees the handle. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_chat_template_free(quire_chat_template* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CHAT_H */
