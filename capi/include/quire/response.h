/*
 * Answers: a parser takes the output of a model in pieces of any size and splits it into typed events:
 * text, reasoning, and tool calls with their arguments as JSON. It supports the output formats of many
 * model families. The raw bytes of all events, joined, are the output. Everything that is no call,
 * reasoning or markup is text.
 *
 * The output format of a model family is called a dialect. It is detected from the chat template, or given
 * by name; docs/chat.md lists the dialects.
 *
 * A parser follows one answer. Any thread may use it, but only one at a time.
 */
#ifndef QUIRE_RESPONSE_H
#define QUIRE_RESPONSE_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of parts of an answer. */
#define QUIRE_RESPONSE_NONE 0 /* no dialect was set */
/* Text for the user. */
#define QUIRE_RESPONSE_TEXT 1
/* A piece of the model's reasoning. */
#define QUIRE_RESPONSE_REASONING 2
/* Begin of a call: its index, its name, and its id if the dialect writes one before the arguments. */
#define QUIRE_RESPONSE_CALL_BEGIN 3
/* A piece of the arguments of a call. Joined, the pieces of a complete call are one JSON object that every
 * reader of JSON accepts, whatever the model wrote. */
#define QUIRE_RESPONSE_ARGUMENTS 4
/* End of a complete call. A call that was cut off, or that the model broke off, has no end. */
#define QUIRE_RESPONSE_CALL_END 5
/* Markup of the dialect and the white space next to it: raw bytes without text. */
#define QUIRE_RESPONSE_MARKUP 6

/* Places where reasoning begins. */
#define QUIRE_REASONING_CLOSED 0 /* at the dialect's marker */
/* At once: the prompt has opened it. */
#define QUIRE_REASONING_OPEN 1
/* Nowhere: reasoning and its markers are text. */
#define QUIRE_REASONING_OFF 2

/**
 * Writes the names of all dialects to out_text, one per line. Returns its length in bytes, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_response_dialects(char* out_text, size_t out_capacity, quire_error** error);

/**
 * Detects the dialect of a model and writes its name to out_text. The source of the chat template decides;
 * if it gives no hint and `model` is not NULL, the special tokens of the model's vocabulary decide. If
 * there are several templates, the one for tools counts. The result "plain" means that there are no calls.
 * Returns its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_response_detect(quire_chat_template* chat, quire_model* model, char* out_text,
                                        size_t out_capacity, quire_error** error);

/**
 * Creates a parser for answers in the dialect that `text` names. The caller owns it. Returns NULL on
 * failure. Fails with QUIRE_ERROR_NOT_FOUND, listing the names there are.
 */
QUIRE_API quire_response_parser* quire_response_parser_create(const char* text, size_t text_len,
                                                              quire_error** error);

/**
 * Sets the tools of the request, a JSON list in the format of OpenAI. Their schemas decide which arguments
 * are strings, if the dialect leaves that open. Call it before the first byte. Returns 1, or 0 on failure.
 * Fails with QUIRE_ERROR_FORMAT if the text is no such list.
 */
QUIRE_API int32_t quire_response_parser_set_tools(quire_response_parser* parser, const char* text,
                                                  size_t text_len, quire_error** error);

/**
 * Sets where reasoning begins, one of QUIRE_REASONING_*. Call it before the first byte. Returns 1, or 0 on
 * failure.
 */
QUIRE_API int32_t quire_response_parser_set_reasoning(quire_response_parser* parser, int32_t reasoning,
                                                      quire_error** error);

/**
 * Sets the prompt before the answer, or the end of the prompt. If the prompt has opened reasoning or a
 * message, the parser begins inside it. Call it before the first byte. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_response_parser_set_prompt(quire_response_parser* parser, const char* text,
                                                   size_t text_len, quire_error** error);

/**
 * Feeds the next bytes, cut anywhere. Returns 1, or 0 on failure. Fails with QUIRE_ERROR_INVALID_ARGUMENT
 * after the end. A call that fails for lack of memory changes nothing and may be repeated.
 */
QUIRE_API int32_t quire_response_parser_feed(quire_response_parser* parser, const char* text, size_t text_len,
                                             quire_error** error);

/**
 * Ends the answer; bytes held back become events. A call that lacks only closing brackets or markers is
 * complete; if a limit cut the answer off, disregard ends of calls that come after this. Returns 1, or 0 on
 * failure. A call that fails for lack of memory changes nothing and may be repeated.
 */
QUIRE_API int32_t quire_response_parser_finish(quire_response_parser* parser, quire_error** error);

/**
 * Advances to the next event, which the functions below then describe. Adjacent pieces of one kind are
 * merged. Returns 1 if there is an event. Returns 0, so far, if there is none. Returns -1 on failure.
 */
QUIRE_API int32_t quire_response_parser_next(quire_response_parser* parser, quire_error** error);

/**
 * Returns the kind of the event, one of QUIRE_RESPONSE_*, or -1 on failure. Fails with
 * QUIRE_ERROR_INVALID_ARGUMENT if there is no event.
 */
QUIRE_API int32_t quire_response_parser_kind(quire_response_parser* parser, quire_error** error);

/**
 * Returns the index of the tool call of the answer that the event belongs to, from 0, or -1 if there is
 * none. Also returns -1, with an error, on failure.
 */
QUIRE_API int64_t quire_response_parser_call_index(quire_response_parser* parser, quire_error** error);

/**
 * Writes the text, reasoning or arguments of the event to out_text. Returns its length in bytes, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_response_parser_text(quire_response_parser* parser, char* out_text,
                                             size_t out_capacity, quire_error** error);

/**
 * Writes the bytes of the answer that the event covers to out_text. Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_response_parser_raw(quire_response_parser* parser, char* out_text,
                                            size_t out_capacity, quire_error** error);

/**
 * Writes the name of the tool to out_text if a call begins or ends. Returns its length in bytes, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_response_parser_name(quire_response_parser* parser, char* out_text,
                                             size_t out_capacity, quire_error** error);

/**
 * Writes the id of the call to out_text if a call begins or ends and the answer has an id by then. Returns
 * its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_response_parser_id(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                           quire_error** error);

/**
 * Compiles a constraint for a whole answer: reasoning, then text or calls of the tools with arguments that
 * match their schemas, in the format of the dialect. A parser of that dialect can read every such answer.
 * The same rules for the same model are compiled once. The caller owns the result. Returns NULL on failure.
 *
 * `text` is one JSON object with these rules:
 *   - `dialect`: a name, or "auto", which takes that of the model's own template;
 *   - `tools`, `parallel_tool_calls` and `tool_choice` ("none", "auto", "required", or a function by name),
 *     as in requests of OpenAI;
 *   - `response_format`: "text", "json_object" or "json_schema", as in requests of OpenAI, or one of the
 *     objects {"type": "regex", "pattern": ...}, {"type": "choice", "choices": [...]}, {"type": "gbnf" or
 *     "lark", "grammar": ...} and {"type": "structural_tag", "triggers": [...], "structures": [{"begin":
 *     ..., "schema" or "format": ..., "end": ...}]}, which allows free text and requires one of the
 *     structures after a trigger;
 *   - `reasoning`: "closed", "open" or "off", as for a parser. Without it, reasoning begins as in the
 *     answer of the request if the request has a dialect (quire_job_request_set_response_dialect), and is
 *     otherwise closed.
 *
 * Markers that are special tokens of the model's vocabulary must be generated as those tokens and cannot be
 * spelled out as text. Fails with QUIRE_ERROR_FORMAT if the rules are malformed, with
 * QUIRE_ERROR_UNSUPPORTED naming the rule that cannot be enforced, with QUIRE_ERROR_NOT_FOUND for an
 * unknown dialect or tool, and with QUIRE_ERROR_CAPACITY naming the limit that is exceeded.
 */
QUIRE_API quire_constraint* quire_response_constraint_create(quire_model* model, const char* text,
                                                             size_t text_len, quire_error** error);

/** Frees the handle. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_response_parser_free(quire_response_parser* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_RESPONSE_H */
