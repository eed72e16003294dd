/*
 * Chat templates: they turn a conversation into the text of a prompt, as the files of the model define.
 *
 * The input is one JSON object: `messages` (a list in the format of OpenAI), and any other variable that
 * the template reads, such as `tools` and `add_generation_prompt`. `continue_final_message` ends the text
 * inside the last message. docs/chat.md describes the supported template features and their limits.
 *
 * Rendering tracks which parts of the text the template wrote and which are content. When tokens are made,
 * special tokens come only from the template's own text. The text of a message stays text, even if it
 * contains the text of a special token.
 *
 * Any number of threads may use one template. A changed setting applies to renderings that begin
 * afterwards.
 */
#ifndef QUIRE_CHAT_H
#define QUIRE_CHAT_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Creates a template from its source in Jinja. The caller owns it. Returns NULL on failure. Fails with
 * QUIRE_ERROR_FORMAT and the line and column if the source is malformed.
 */
QUIRE_API quire_chat_template* quire_chat_template_create(const char* text, size_t text_len,
                                                          quire_error** error);

/**
 * Loads the templates of the model whose path is `text`, with the texts of the tokenizer's special tokens: of
 * a directory, chat_template.jinja, additional_chat_templates/, or those in tokenizer_config.json; of a GGUF
 * file, those in its metadata. A rendering uses the template "tool_use" if its input has tools and a template
 * of that name exists, otherwise "default". Reads no weights and no tokenizer. The caller owns the result.
 * Returns NULL on failure. Fails with QUIRE_ERROR_NOT_FOUND if the model has no template.
 */
QUIRE_API quire_chat_template* quire_chat_template_open(const char* text, size_t text_len,
                                                        quire_error** error);

/**
 * Selects the template of a given name for all renderings; an empty name ends the selection. Returns 1, or
 * 0 on failure. Fails with QUIRE_ERROR_NOT_FOUND, listing the names there are.
 */
QUIRE_API int32_t quire_chat_template_choose(quire_chat_template* chat, const char* text, size_t text_len,
                                             quire_error** error);

/**
 * Sets the text of a special token, which templates read as `bos_token`, `eos_token`, `pad_token` or
 * `unk_token`. `kind` is QUIRE_TOKEN_BOS to QUIRE_TOKEN_UNK. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_chat_template_set_token(quire_chat_template* chat, int32_t kind, const char* text,
                                                size_t text_len, quire_error** error);

/**
 * Sets the current time for templates, such as "2025-07-26" or "2025-07-26T14:05:09". Without it, templates
 * get the time of the system clock in UTC. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_chat_template_set_now(quire_chat_template* chat, const char* text, size_t text_len,
                                              quire_error** error);

/**
 * Sets whether a conversation is given the form that the template needs before it is rendered
 * (docs/chat.md), for example the arguments of calls as text or as object: 1 or 0. Default: 1. Returns 1, or
 * 0 on failure.
 */
QUIRE_API int32_t quire_chat_template_set_adapts_history(quire_chat_template* chat, int32_t adapts,
                                                         quire_error** error);

/**
 * Renders the conversation given as JSON in `text` and writes the prompt to out_text. Returns its length in
 * bytes, or -1 on failure. Fails with QUIRE_ERROR_INVALID_ARGUMENT if the template raises an error (the
 * message is the template's own) or uses an unsupported feature, with QUIRE_ERROR_CAPACITY if a limit is
 * exceeded, and with QUIRE_ERROR_FORMAT if the input is no JSON.
 */
QUIRE_API int64_t quire_chat_template_render(quire_chat_template* chat, const char* text, size_t text_len,
                                             char* out_text, size_t out_capacity, quire_error** error);

/**
 * Writes the changes by which quire_chat_template_render gives the conversation the form that the template
 * needs to out_text, as a JSON list of objects with `field`, such as "messages[1].content", and `change`, a
 * name of docs/chat.md. The list is empty if the conversation is rendered as it is given. Returns its length
 * in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_changes(quire_chat_template* chat, const char* text, size_t text_len,
                                              char* out_text, size_t out_capacity, quire_error** error);

/**
 * Writes the sizes of the parts of a quire_chat_template_render result to out_sizes, in bytes. The parts
 * alternate between template text and content, beginning with template text. A size may be 0. Returns their
 * number, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_segments(quire_chat_template* chat, const char* text, size_t text_len,
                                               int64_t* out_sizes, size_t out_capacity, quire_error** error);

/**
 * Converts the rendered conversation to tokens of the model and writes them to out_tokens, without adding
 * tokens before or after. Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_tokens(quire_chat_template* chat, quire_model* model, const char* text,
                                             size_t text_len, int32_t* out_tokens, size_t out_capacity,
                                             quire_error** error);

/**
 * Writes the SHA-256 of the source of the selected template, or of the default one, to out_text as 64
 * hexadecimal digits. Returns its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_chat_template_hash(quire_chat_template* chat, char* out_text, size_t out_capacity,
                                           quire_error** error);

/**
 * Renders the messages of a request (request.h) with the model's own template, or with that of the request,
 * and writes the text to out_text. Returns its length in bytes, or -1 on failure. Fails with
 * QUIRE_ERROR_INVALID_ARGUMENT if the request has no messages, with QUIRE_ERROR_NOT_FOUND if the model has
 * no template, and otherwise like quire_chat_template_render.
 */
QUIRE_API int64_t quire_model_render_chat(quire_model* model, quire_job_request* request, char* out_text,
                                          size_t out_capacity, quire_error** error);

/**
 * Writes the changes by which quire_model_render_chat gives the messages of a request the form that the
 * template needs to out_text, in the format of quire_chat_template_changes. Returns its length in bytes, or
 * -1 on failure.
 */
QUIRE_API int64_t quire_model_render_chat_changes(quire_model* model, quire_job_request* request,
                                                  char* out_text, size_t out_capacity, quire_error** error);

/**
 * Writes the tokens of the whole prompt of a request to out_tokens, as submit makes them. Returns their
 * number, or -1 on failure.
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
