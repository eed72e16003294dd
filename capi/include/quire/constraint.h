/*
 * Constraints: what a text has to be, and which tokens may come next so that it will be.
 *
 * A constraint is compiled once from a schema, a pattern or a grammar, for the vocabulary of one model, and
 * never changes; any number of threads may use one. A matcher follows one text through a constraint: it says
 * which tokens may come next, takes the one that comes, and can take steps back. Two threads must not use one
 * matcher at once.
 *
 * What is supported of each kind, and its limits, are in docs/constraints.md. What is not supported is
 * refused by name when the constraint is made; nothing is ever let through unchecked.
 */
#ifndef QUIRE_CONSTRAINT_H
#define QUIRE_CONSTRAINT_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of constraints. JSON Schema: drafts 4 to 7, 2019-09 and 2020-12. */
#define QUIRE_CONSTRAINT_JSON_SCHEMA 1
/* Any JSON object; the text is not looked at. */
#define QUIRE_CONSTRAINT_JSON_OBJECT 2
/* A regular expression that the whole text has to match. */
#define QUIRE_CONSTRAINT_REGEX 3
/* One of some texts: a JSON list of strings. */
#define QUIRE_CONSTRAINT_CHOICE 4
/* A grammar in the notation of llama.cpp (GBNF); its root is the rule "root". */
#define QUIRE_CONSTRAINT_GBNF 5
/* A grammar in Lark's notation; its root is the rule "start". */
#define QUIRE_CONSTRAINT_LARK 6

/**
 * Compiles a constraint from its source for the vocabulary of a model, of which the tokenizer is enough. The
 * same source for the same model is compiled once. The caller owns it. NULL on failure:
 * QUIRE_ERROR_FORMAT where the source is malformed, QUIRE_ERROR_UNSUPPORTED naming what is not supported,
 * QUIRE_ERROR_CAPACITY naming the limit that it goes beyond.
 */
QUIRE_API quire_constraint* quire_constraint_create(quire_model* model, int32_t kind, const char* text,
                                                    size_t text_len, quire_error** error);

/** Frees the handle; matchers made from it live on. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_constraint_free(quire_constraint* handle, quire_error** error);

/** A matcher at the beginning of a text. The caller owns it. NULL on failure. */
QUIRE_API quire_matcher* quire_matcher_create(quire_constraint* constraint, quire_error** error);

/**
 * Takes the next token. Returns 1; 0 where it may not come next, and nothing has changed; -1 on failure:
 * QUIRE_ERROR_CAPACITY where the text goes beyond a limit of the constraint.
 */
QUIRE_API int32_t quire_matcher_accept(quire_matcher* matcher, int32_t token, quire_error** error);

/**
 * The tokens that may come next, a bit each: token t is bit t % 8 of byte t / 8, the lowest bit first. A
 * token that ends a text is among them where the text may end. Returns the number of bytes (base.h: results),
 * a multiple of 4 that has room for all ids; -1 on failure.
 */
QUIRE_API int64_t quire_matcher_mask(quire_matcher* matcher, uint8_t* out_bytes, size_t out_capacity,
                                     quire_error** error);

/** Whether the text so far may be all of it: 1 or 0; -1 on failure. */
QUIRE_API int32_t quire_matcher_may_end(quire_matcher* matcher, quire_error** error);

/**
 * The text that must come next, as far as there is no choice; it may end inside of a character. Returns its
 * bytes (base.h: results), 0 where there is a choice or the text may end; -1 on failure.
 */
QUIRE_API int64_t quire_matcher_forced_text(quire_matcher* matcher, char* out_text, size_t out_capacity,
                                            quire_error** error);

/**
 * Takes back the last `num_steps` tokens that were accepted. Returns 1, or 0 on failure:
 * QUIRE_ERROR_INVALID_ARGUMENT where there were fewer.
 */
QUIRE_API int32_t quire_matcher_rollback(quire_matcher* matcher, int64_t num_steps, quire_error** error);

/** Frees the handle. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_matcher_free(quire_matcher* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CONSTRAINT_H */
