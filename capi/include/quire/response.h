/*
 * Answers: what the bytes that a model writes are. A parser takes the answer in any pieces and gives its
 * parts as typed events: text, reasoning, and calls of tools with their arguments as JSON, in whatever way
 * the model's family writes them. The raw bytes of all events, joined, are the answer; what is no call is
 * text.
 *
 * How a family writes is a dialect. It is chosen by the chat template, or named; docs/chat.md lists them.
 *
 * A parser follows one answer. Any thread may use it, one at a time.
 */
#ifndef QUIRE_RESPONSE_H
#define QUIRE_RESPONSE_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a part of an answer is. */
#define QUIRE_RESPONSE_NONE 0 /* nobody asked how the text is to be read */
/* Text for the user. */
#define QUIRE_RESPONSE_TEXT 1
/* A piece of the model's reasoning. */
#define QUIRE_RESPONSE_REASONING 2
/* A call begins: its index, its name, and its id where the dialect writes one before the arguments. */
#define QUIRE_RESPONSE_CALL_BEGIN 3
/* A piece of the arguments of a call; joined, they are one JSON object once the call has ended. */
#define QUIRE_RESPONSE_ARGUMENTS 4
/* The call is whole. A call that was cut off, or that the model broke off, has no end. */
#define QUIRE_RESPONSE_CALL_END 5
/* Marks of the dialect, and the white space beside them: raw bytes without text. */
#define QUIRE_RESPONSE_MARKUP 6

/* Where reasoning begins. At the dialect's mark. */
#define QUIRE_REASONING_CLOSED 0
/* At once: the prompt has opened it. */
#define QUIRE_REASONING_OPEN 1
/* Nowhere: reasoning and its marks are text. */
#define QUIRE_REASONING_OFF 2

/** The names of all dialects, each on a line. Returns the number of bytes, or -1 on failure. */
QUIRE_API int64_t quire_response_dialects(char* out_text, size_t out_capacity, quire_error** error);

/**
 * The name of the dialect that the source of a chat template tells; where that says nothing, and `model` is
 * not NULL, that the special tokens of its vocabulary tell. "plain" has no calls. Of several templates the
 * one for tools counts. Returns the number of bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_response_detect(quire_chat_template* chat, quire_model* model, char* out_text,
                                        size_t out_capacity, quire_error** error);

/**
 * A parser for answers in the dialect that `text` names. The caller owns it. NULL on failure:
 * QUIRE_ERROR_NOT_FOUND, with the names there are.
 */
QUIRE_API quire_response_parser* quire_response_parser_create(const char* text, size_t text_len,
                                                              quire_error** error);

/**
 * The tools of the request, a JSON list as OpenAI has them: their schemas say which arguments are strings
 * where the dialect does not. Before the first byte. Returns 1, or 0 on failure: QUIRE_ERROR_FORMAT where it
 * is none.
 */
QUIRE_API int32_t quire_response_parser_set_tools(quire_response_parser* parser, const char* text,
                                                  size_t text_len, quire_error** error);

/**
 * Where reasoning begins, one of QUIRE_REASONING_*. Before the first byte. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_response_parser_set_reasoning(quire_response_parser* parser, int32_t reasoning,
                                                      quire_error** error);

/**
 * The prompt that the answer follows, or its end: the parser begins inside of the reasoning or the message
 * that it has begun. Before the first byte. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_response_parser_set_prompt(quire_response_parser* parser, const char* text,
                                                   size_t text_len, quire_error** error);

/** Takes the next bytes, cut anywhere. Returns 1, or 0 on failure: QUIRE_ERROR_INVALID_ARGUMENT after the
 * end. */
QUIRE_API int32_t quire_response_parser_feed(quire_response_parser* parser, const char* text, size_t text_len,
                                             quire_error** error);

/** There are no more bytes: what was held back comes as events. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_response_parser_finish(quire_response_parser* parser, quire_error** error);

/**
 * Goes on to the next event, which the functions below then tell. Pieces that follow each other come as one.
 * Returns 1; 0 where there is none by now; -1 on failure.
 */
QUIRE_API int32_t quire_response_parser_next(quire_response_parser* parser, quire_error** error);

/** The kind of the event, QUIRE_RESPONSE_*; -1 on failure: QUIRE_ERROR_INVALID_ARGUMENT where there is no
 * event. */
QUIRE_API int32_t quire_response_parser_kind(quire_response_parser* parser, quire_error** error);

/** Which call of the answer the event is of, from 0; -1 where it is of none, and on failure. */
QUIRE_API int64_t quire_response_parser_call_index(quire_response_parser* parser, quire_error** error);

/** Text, reasoning or arguments of the event. Returns the number of bytes, or -1 on failure. */
QUIRE_API int64_t quire_response_parser_text(quire_response_parser* parser, char* out_text,
                                             size_t out_capacity, quire_error** error);

/** The bytes of the answer that the event covers. Returns their number, or -1 on failure. */
QUIRE_API int64_t quire_response_parser_raw(quire_response_parser* parser, char* out_text,
                                            size_t out_capacity, quire_error** error);

/** The name of the tool where a call begins or ends. Returns the number of bytes, or -1 on failure. */
QUIRE_API int64_t quire_response_parser_name(quire_response_parser* parser, char* out_text,
                                             size_t out_capacity, quire_error** error);

/**
 * The id of the call where it begins or ends, as far as the answer has one by then. Returns the number of
 * bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_response_parser_id(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                           quire_error** error);

/**
 * What an answer has to be, as one constraint: reasoning, then text or calls of the tools with their
 * arguments by schema, in the words of the dialect, so that a parser of that dialect reads each answer back.
 * The rules are one JSON object: `dialect` (a name, or "auto", that of the model's own template), and of
 * OpenAI's requests `tools`, `tool_choice` ("none", "auto", "required", or a function by name),
 * `parallel_tool_calls` and `response_format` ("text", "json_object", "json_schema", and also {"type":
 * "regex", "pattern": ...}, {"type": "choice", "choices": [...]}, {"type": "gbnf" or "lark", "grammar": ...},
 * and {"type": "structural_tag", "triggers": [...], "structures": [{"begin": ..., "schema" or "format": ...,
 * "end": ...}]}: free text, and from a trigger on one of the structures); `reasoning` is "closed", "open" or
 * "off", as of a parser; without it reasoning begins where the answer of the request does that has a dialect
 * of its own (quire_job_request_set_response_dialect), and is closed else. Marks that are special tokens of
 * the model's vocabulary are those tokens and cannot be spelled. The same rules for the same model are
 * compiled once. The caller owns it. NULL on failure: QUIRE_ERROR_FORMAT where the rules are malformed,
 * QUIRE_ERROR_UNSUPPORTED naming what cannot be kept to, QUIRE_ERROR_NOT_FOUND for a dialect or a tool that
 * is not there, QUIRE_ERROR_CAPACITY naming the limit that it goes beyond.
 */
QUIRE_API quire_constraint* quire_response_constraint_create(quire_model* model, const char* text,
                                                             size_t text_len, quire_error** error);

/** Frees the handle. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_response_parser_free(quire_response_parser* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_RESPONSE_H */
