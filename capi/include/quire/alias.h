/*
 * An alias: a name to which jobs are submitted, and the cache that serves it. The cache can be exchanged
 * while jobs run. New jobs go to the new cache from the next call on. Running jobs finish on the
 * old one, which is freed once its own handle and those of its jobs are freed. A new model that cannot be
 * loaded changes nothing, since an alias only takes a created cache.
 *
 *   load the new model, create its cache; on failure keep the old one
 *   quire_alias_set_cache(alias, new_cache, &error);
 *   quire_cache_free(old_cache, &error);             do not close it: its jobs shall finish
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
 * Creates an alias with a name: UTF-8 of 1 to 256 bytes, which messages and log lines use. It has no cache
 * yet. The caller owns the result. Returns NULL on failure.
 */
QUIRE_API quire_alias* quire_alias_create(quire_runtime* runtime, const char* text, size_t text_len,
                                          quire_error** error);

/**
 * Frees the handle. Its caches stay alive while another handle or a job keeps them. NULL does nothing.
 * Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_alias_free(quire_alias* handle, quire_error** error);

/**
 * Sets the cache of the alias, replacing the current one; NULL removes it. The alias keeps its cache alive
 * like a handle. Returns 1, or 0 on failure, and then the alias is unchanged. Fails with
 * QUIRE_ERROR_INVALID_ARGUMENT for a cache of another runtime, and with QUIRE_ERROR_CLOSED for a closed
 * cache.
 */
QUIRE_API int32_t quire_alias_set_cache(quire_alias* alias, quire_cache* cache, quire_error** error);

/**
 * Appends a cache to the fallbacks, which are tried in order. A fallback is tried if the cache before it
 * refuses a job because that cache is missing, closed or full, its device is lost, the job exceeds a quota,
 * its deadline is too short, or the job is too large. At most 16 fallbacks. Returns 1, or 0 on failure.
 * Fails like quire_alias_set_cache.
 */
QUIRE_API int32_t quire_alias_add_fallback(quire_alias* alias, quire_cache* cache, quire_error** error);

/** Removes all fallbacks. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_alias_clear_fallbacks(quire_alias* alias, quire_error** error);

/**
 * Submits a job like quire_job_submit, to the cache of the alias, or to its first fallback that accepts the
 * job. If the cache is exchanged and closed during the call, the job goes to the new cache. The request is
 * read again for each cache: text is tokenized for its model, and token ids are taken as they are. Returns
 * NULL on failure. If no cache accepts the job, it fails with the error of the alias's own cache, or with
 * QUIRE_ERROR_NOT_FOUND if the alias has none.
 */
QUIRE_API quire_job* quire_alias_submit(quire_alias* alias, quire_job_request* request, quire_error** error);

/**
 * Writes the reason why the last job on a fallback did not go to the cache of the alias to out_text, as one
 * line. The text is empty if no job has gone to a fallback. Returns its length in bytes (base.h, Results),
 * or -1 on failure.
 */
QUIRE_API int64_t quire_alias_reason(quire_alias* alias, char* out_text, size_t out_capacity,
                                     quire_error** error);

/** Returns how often the cache of the alias was exchanged for another, or -1 on failure. */
QUIRE_API int64_t quire_alias_num_swaps(quire_alias* alias, quire_error** error);

/** Returns the number of jobs that went to a fallback, or -1 on failure. */
QUIRE_API int64_t quire_alias_num_fallbacks(quire_alias* alias, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_ALIAS_H */
