/*
 * Constraints: a schema, pattern or grammar that generated text must match, and the tokens that may come
 * next so that it will.
 *
 * A constraint is compiled once from its source for the vocabulary of one model, and never changes; any
 * number of threads may use one. A matcher accepts all texts that the source allows. A job draws JSON in one
 * form of them (quire_job_request_set_json_order and the settings after it). A matcher follows one text
 * through a constraint: it computes the tokens that may come next, accepts tokens, and can roll back. Two
 * threads must not use one matcher at once.
 *
 * docs/constraints.md lists the supported features of each kind and its limits. An unsupported feature is
 * rejected by name when the constraint is created; it is never silently ignored.
 */
#ifndef QUIRE_CONSTRAINT_H
#define QUIRE_CONSTRAINT_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of constraints. */
#define QUIRE_CONSTRAINT_JSON_SCHEMA 1 /* a JSON Schema of the drafts 4 to 7, 2019-09 or 2020-12 */
/* Any JSON object; the source is ignored. */
#define QUIRE_CONSTRAINT_JSON_OBJECT 2
/* A regular expression that the whole text must match. */
#define QUIRE_CONSTRAINT_REGEX 3
/* One of several texts; the source is a JSON list of strings. */
#define QUIRE_CONSTRAINT_CHOICE 4
/* A grammar in the notation of llama.cpp (GBNF); its root is the rule "root". */
#define QUIRE_CONSTRAINT_GBNF 5
/* A grammar in Lark's notation; its root is the rule "start". */
#define QUIRE_CONSTRAINT_LARK 6

/**
 * Compiles a constraint from its source for the vocabulary of a model; a model loaded as a tokenizer
 * suffices. The same source for the same model is compiled once. The caller owns the result. Returns NULL
 * on failure. Fails with QUIRE_ERROR_FORMAT if the source is malformed, with QUIRE_ERROR_UNSUPPORTED naming
 * the unsupported feature, and with QUIRE_ERROR_CAPACITY naming the limit that is exceeded.
 */
QUIRE_API quire_constraint* quire_constraint_create(quire_model* model, int32_t kind, const char* text,
                                                    size_t text_len, quire_error** error);

/**
 * Frees the handle; matchers created from it stay usable. NULL does nothing. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_constraint_free(quire_constraint* handle, quire_error** error);

/** Creates a matcher at the beginning of a text. The caller owns it. Returns NULL on failure. */
QUIRE_API quire_matcher* quire_matcher_create(quire_constraint* constraint, quire_error** error);

/**
 * Accepts the next token. Returns 1 if it was accepted. Returns 0, and changes nothing, if the token may
 * not come next. Returns -1 on failure. Fails with QUIRE_ERROR_CAPACITY if the text exceeds a limit of the
 * constraint.
 */
QUIRE_API int32_t quire_matcher_accept(quire_matcher* matcher, int32_t token, quire_error** error);

/**
 * Writes a bit mask of the tokens that may come next to out_bytes: token t is bit t % 8 of byte t / 8,
 * lowest bit first. If the text may end, end tokens are included. Returns their number, a multiple of 4
 * that covers all ids (base.h, Results), or -1 on failure.
 */
QUIRE_API int64_t quire_matcher_mask(quire_matcher* matcher, uint8_t* out_bytes, size_t out_capacity,
                                     quire_error** error);

/** Returns 1 if the text so far may be complete, otherwise 0, or -1 on failure. */
QUIRE_API int32_t quire_matcher_may_end(quire_matcher* matcher, quire_error** error);

/**
 * Writes the text that must come next to out_text, up to the first place with a choice. It may end inside a
 * character. It is empty if there is a choice already or the text may end. Returns its length in bytes
 * (base.h, Results), or -1 on failure.
 */
QUIRE_API int64_t quire_matcher_forced_text(quire_matcher* matcher, char* out_text, size_t out_capacity,
                                            quire_error** error);

/**
 * Takes back the last `num_steps` accepted tokens. Returns 1, or 0 on failure. Fails with
 * QUIRE_ERROR_INVALID_ARGUMENT if fewer were accepted.
 */
QUIRE_API int32_t quire_matcher_rollback(quire_matcher* matcher, int64_t num_steps, quire_error** error);

/** Frees the handle. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_matcher_free(quire_matcher* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CONSTRAINT_H */
