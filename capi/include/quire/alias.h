/*
 * An alias: a name that jobs are submitted to, and the cache behind it, which can be exchanged while jobs
 * run. New jobs go to the new cache from the next call on; running ones finish on the old one, which leaves
 * when its own handle and those of its jobs are freed. A new model that cannot be loaded changes nothing:
 * what has not become a cache cannot be put behind an alias.
 *
 *   load the new model, create its cache; on failure go on with the old one
 *   quire_alias_set_cache(alias, new_cache, &error);
 *   quire_cache_free(old_cache, &error);             not close: its jobs are to finish
 *
 * Any number of threads may use one alias at the same time.
 */
#ifndef QUIRE_ALIAS_H
#define QUIRE_ALIAS_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes an alias with a name: UTF-8 of 1 to 256 bytes, by which messages and log lines call it. There is no
 * cache behind it yet. The caller owns the result. NULL on failure.
 */
QUIRE_API quire_alias* quire_alias_create(quire_runtime* runtime, const char* text, size_t text_len,
                                          quire_error** error);

/**
 * Frees the handle. The caches behind it live on while something else keeps them. NULL does nothing. Returns
 * 1, or 0 on failure.
 */
QUIRE_API int32_t quire_alias_free(quire_alias* handle, quire_error** error);

/**
 * Puts a cache behind the alias, in place of the one that was there; NULL takes that away. The alias keeps
 * its cache alive as a handle would. Returns 1, or 0 on failure: QUIRE_ERROR_INVALID_ARGUMENT for a cache of
 * another runtime, QUIRE_ERROR_CLOSED for one that is closed; the alias stays as it was then.
 */
QUIRE_API int32_t quire_alias_set_cache(quire_alias* alias, quire_cache* cache, quire_error** error);

/**
 * Adds a cache to the end of the chain that is tried in turn where the one before it refuses a job for a
 * reason of its own: there is none, it is closed or its device is lost, it is full, the job is beyond a
 * quota, its deadline, or too large for it. At most 16. Returns 1, or 0 on failure as above.
 */
QUIRE_API int32_t quire_alias_add_fallback(quire_alias* alias, quire_cache* cache, quire_error** error);

/** Takes all fallbacks away. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_alias_clear_fallbacks(quire_alias* alias, quire_error** error);

/**
 * quire_job_submit to the cache behind the alias, else to the first of its fallbacks that takes the job. A
 * cache that is exchanged and closed in the meantime costs no job: the one in its place gets it. The request
 * is read for each cache: text becomes tokens of its model, token ids are taken as they are. NULL on failure,
 * with the error of the cache behind the alias; QUIRE_ERROR_NOT_FOUND where there is none.
 */
QUIRE_API quire_job* quire_alias_submit(quire_alias* alias, quire_job_request* request, quire_error** error);

/**
 * Why the last job that did not go to the cache behind the alias went to a fallback, as one line; empty where
 * none has. Returns its bytes (base.h: results), -1 on failure.
 */
QUIRE_API int64_t quire_alias_reason(quire_alias* alias, char* out_text, size_t out_capacity,
                                     quire_error** error);

/** How often the cache behind the alias was exchanged for another; -1 on failure. */
QUIRE_API int64_t quire_alias_num_swaps(quire_alias* alias, quire_error** error);

/** Jobs that went to a fallback; -1 on failure. */
QUIRE_API int64_t quire_alias_num_fallbacks(quire_alias* alias, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_ALIAS_H */
