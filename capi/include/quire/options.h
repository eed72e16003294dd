/*
 * Settings of a runtime, a model and a cache. (Settings of a job: request.h.)
 *
 * An options object is filled by its setters and read when something is made from it: what is made keeps no
 * reference to it, so one object may serve many times, and it may be changed or freed at once. Setters on one
 * object from several threads are done one after another.
 *
 * Each setter returns 1, or 0 on failure and then the setting is as before: QUIRE_ERROR_INVALID_ARGUMENT
 * names the setting and its range. What depends on the model or the machine is checked when the object is
 * used.
 */
#ifndef QUIRE_OPTIONS_H
#define QUIRE_OPTIONS_H

#include <quire/base.h>

/* Levels of the log; a level includes those before it. */
#define QUIRE_LOG_OFF 0     /* nothing is logged */
#define QUIRE_LOG_ERROR 1   /* what failed */
#define QUIRE_LOG_WARNING 2 /* what works, and not as it was meant */
#define QUIRE_LOG_INFO 3    /* what happens to models and caches */
#define QUIRE_LOG_DEBUG 4   /* what only a developer of the library reads */

/* How much of a model is loaded. */
#define QUIRE_MODEL_SCOPE_FULL 0      /* all of it */
#define QUIRE_MODEL_SCOPE_TOKENIZER 1 /* the tokenizer alone: encode and decode work, nothing else */
#define QUIRE_MODEL_SCOPE_METADATA 2  /* all but the weights: it can be described and planned */

/* How keys and values are stored. */
#define QUIRE_KV_F16 0
#define QUIRE_KV_Q8 1  /* 8.5 bits an element, scales included */
#define QUIRE_KV_Q6 2  /* keys as in Q8, values as in Q4: 6.5 bits */
#define QUIRE_KV_Q4 3  /* 4.5 bits */
#define QUIRE_KV_FP8 4 /* 8 bits, without a scale */
/* The first of F16, Q8, Q6 and Q4 that there is memory for, and that every device of the model has. */
#define QUIRE_KV_AUTO 5

/* As what the products of layers take their activations. */
#define QUIRE_ACTIVATION_FULL 0 /* as exactly as the device computes: 16 bits or more */
#define QUIRE_ACTIVATION_I8 1   /* integers of 8 bits, a scale for each 128 of a token */
#define QUIRE_ACTIVATION_F8 2   /* floats of 8 bits (E4M3), a scale for each 128 of a token */

/* What the jobs of one namespace may take of a cache. */
#define QUIRE_QUOTA_RUNNING_JOBS 0 /* jobs that run at the same time; others of the namespace wait */
#define QUIRE_QUOTA_QUEUED_JOBS 1  /* jobs that wait; one more is refused with QUIRE_ERROR_QUOTA */
#define QUIRE_QUOTA_PAGES 2        /* pages that its jobs hold, a shared one once for each; the lowest wait */
#define QUIRE_QUOTA_PINNED_PAGES 3 /* pages that quire_cache_pin keeps for it */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Receives a line of the log: UTF-8, not zero-terminated, without a line break, valid during the call alone.
 * Called from any thread, several at once, without any lock held. Prompt text is never in it. See base.h for
 * what a callback may do.
 */
typedef void (*quire_log_fn)(void* user_data, int32_t level, const char* text, size_t text_len);

/**
 * Says how far a load is, in bytes of the files. Called on the thread that called quire_model_load, the last
 * time with done_bytes = total_bytes. See base.h for what a callback may do; the quire_cancel of the load
 * stops it.
 */
typedef void (*quire_progress_fn)(void* user_data, int64_t done_bytes, int64_t total_bytes);

/* Runtime. */

/** Makes the options of a runtime with every default. NULL on failure. */
QUIRE_API quire_runtime_options* quire_runtime_options_create(quire_error** error);

/** Frees the options of a runtime. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_runtime_options_free(quire_runtime_options* handle, quire_error** error);

/** Threads that compute on the CPU, the engine's own included: 1 to 1024; 0, the default, is one per core. */
QUIRE_API int32_t quire_runtime_options_set_num_threads(quire_runtime_options* options, int32_t num_threads,
                                                        quire_error** error);

/**
 * The device of models that name none: "cpu", the default, or "cuda:0" and so on. Several, as in
 * "cuda:0,cuda:1": quire_model_options_set_device.
 */
QUIRE_API int32_t quire_runtime_options_set_device(quire_runtime_options* options, const char* text,
                                                   size_t text_len, quire_error** error);

/** The most detailed QUIRE_LOG_* that reaches the sink. Default: QUIRE_LOG_WARNING. */
QUIRE_API int32_t quire_runtime_options_set_log_level(quire_runtime_options* options, int32_t level,
                                                      quire_error** error);

/**
 * Where the log goes; NULL, the default, is nowhere. `user_data` is handed to each call and must stay valid
 * until quire_runtime_free has returned.
 */
QUIRE_API int32_t quire_runtime_options_set_log_sink(quire_runtime_options* options, quire_log_fn log_sink,
                                                     void* user_data, quire_error** error);

/**
 * Bytes of one device, given by its name ("cpu", "cuda:0"), that weights and caches of the runtime may take
 * together; a load or a cache beyond it fails with QUIRE_ERROR_OUT_OF_MEMORY before anything is taken. 0, the
 * default of each device, is no budget. By the name "pinned": bytes of pinned host memory for weights of
 * cards that stand by (QUIRE_MODEL_STATE_STANDING_BY); beyond it they come back from their files. 0 is half
 * of what the host has free.
 */
QUIRE_API int32_t quire_runtime_options_set_memory_budget(quire_runtime_options* options, const char* text,
                                                          size_t text_len, int64_t bytes,
                                                          quire_error** error);

/* Model. */

/** Makes the options of a model with every default. NULL on failure. */
QUIRE_API quire_model_options* quire_model_options_create(quire_error** error);

/** Frees the options of a model. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_model_options_free(quire_model_options* handle, quire_error** error);

/**
 * The model: a directory with config.json, tokenizer.json and *.safetensors. Or one whose directories are
 * such models, of one shape and in several precisions: that with the most bytes of weights that there is
 * memory for beside the planned cache is taken (of a lazy model: by what is free when it is declared), the
 * smallest where none is, whose failure is told; quire_model_path says which. With
 * QUIRE_MODEL_SCOPE_TOKENIZER also a tokenizer.json, *.model or *.tiktoken itself. A path of the file system
 * in UTF-8, or whatever bytes it has. Required.
 */
QUIRE_API int32_t quire_model_options_set_path(quire_model_options* options, const char* text,
                                               size_t text_len, quire_error** error);

/**
 * The device that holds and runs the model: "cpu", "cuda:0". Several, separated by commas, share its layers,
 * which run in the order of the list: "cuda:0,cuda:1", or "cpu,cuda:0", where the CPU takes the layers that
 * the card cannot hold. Default: the device of the runtime.
 */
QUIRE_API int32_t quire_model_options_set_device(quire_model_options* options, const char* text,
                                                 size_t text_len, quire_error** error);

/**
 * How the layers go to the devices: "auto", the default, by the bytes that weights and cache take and the
 * devices have free; the number of layers of each device, as in "20,12"; or the bytes of each that weights
 * and cache may take at most, as in "24G,512M", by which the layers are then dealt out as automatically. K, M
 * and G stand for KiB, MiB and GiB; every number of bytes has one.
 */
QUIRE_API int32_t quire_model_options_set_split(quire_model_options* options, const char* text,
                                                size_t text_len, quire_error** error);

/**
 * Memory of the devices that the model leaves alone, in bytes: one number for all of them, or one for each,
 * separated by commas. K, M and G after a number stand for KiB, MiB and GiB. Default: "256M", of which the
 * CPU takes no notice.
 */
QUIRE_API int32_t quire_model_options_set_reserve(quire_model_options* options, const char* text,
                                                  size_t text_len, quire_error** error);

/**
 * The cache that the load leaves room for on its devices; its settings are copied. NULL, the default: an
 * automatic split leaves room for 8192 tokens, and a load looks at the room for the weights alone.
 */
QUIRE_API int32_t quire_model_options_set_planned_cache(quire_model_options* options,
                                                        quire_cache_options* cache, quire_error** error);

/** One of QUIRE_MODEL_SCOPE_*. Default: QUIRE_MODEL_SCOPE_FULL. */
QUIRE_API int32_t quire_model_options_set_scope(quire_model_options* options, int32_t scope,
                                                quire_error** error);

/**
 * 1: the load reads configuration, tokenizer and headers and plans, and the weights come with the first job
 * of a cache, or with quire_model_wake; the model stands by until then. Of the full scope alone. Default: 0.
 */
QUIRE_API int32_t quire_model_options_set_lazy(quire_model_options* options, int32_t lazy,
                                               quire_error** error);

/** Called as the load goes on; NULL, the default, is nobody. `user_data` is handed to each call. */
QUIRE_API int32_t quire_model_options_set_progress(quire_model_options* options, quire_progress_fn progress,
                                                   void* user_data, quire_error** error);

/**
 * Into how many shards each layer is cut, 1 to 64: each has its own columns of every matrix and its own heads
 * of the cache, and they compute side by side. 1, the default: layers are whole. On the CPU shards share its
 * threads out, and answers are those of one shard to the last bit; on the devices of other backends
 * quire_model_load and quire_plan_create refuse more than one with QUIRE_ERROR_UNSUPPORTED in this version.
 */
QUIRE_API int32_t quire_model_options_set_num_shards(quire_model_options* options, int32_t num_shards,
                                                     quire_error** error);

/**
 * One of QUIRE_ACTIVATION_*. QUIRE_ACTIVATION_I8 makes prompts and batches faster and results less exact, in
 * products with matrices of EXL2, GPTQ, AWQ and the other formats of integer codes, on the CPU.
 * QUIRE_ACTIVATION_F8 does so with matrices of FP8 (E4M3) whose scales are shared by all rows or by multiples
 * of 128, on NVIDIA cards of compute capability 9.0; experts stay as they are. All others, and the one that
 * gives logits, stay too. Results still depend on nothing but the job. A device that cannot: quire_model_load
 * refuses it with QUIRE_ERROR_UNSUPPORTED. Default: QUIRE_ACTIVATION_FULL.
 */
QUIRE_API int32_t quire_model_options_set_activation_dtype(quire_model_options* options,
                                                           int32_t activation_dtype, quire_error** error);

/* Cache. */

/** Makes the options of a cache with every default. NULL on failure. */
QUIRE_API quire_cache_options* quire_cache_options_create(quire_error** error);

/** Frees the options of a cache. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cache_options_free(quire_cache_options* handle, quire_error** error);

/** How metrics and log lines name the cache: UTF-8 of up to 256 bytes. Default: empty, its number. */
QUIRE_API int32_t quire_cache_options_set_name(quire_cache_options* options, const char* text,
                                               size_t text_len, quire_error** error);

/**
 * Tokens that all jobs together can hold in the cache, rounded up to whole pages. 0, the default, is room for
 * one job of max_seq_len tokens, or for 8192 tokens where that is more.
 */
QUIRE_API int32_t quire_cache_options_set_max_tokens(quire_cache_options* options, int64_t max_tokens,
                                                     quire_error** error);

/**
 * Makes a cache that grows and shrinks while it is used: it has memory for at least min_tokens, which it
 * promises to jobs (a job that could need more is refused), and for more as far as jobs need it and the
 * device and its budget have room, up to max_tokens. What nobody used for a while it gives back, and what no
 * job holds where another model or cache needs the bytes. 0, the default, takes max_tokens at once.
 */
QUIRE_API int32_t quire_cache_options_set_min_tokens(quire_cache_options* options, int64_t min_tokens,
                                                     quire_error** error);
/** How long a cache that grows keeps what no job uses. 0: until others need it. Default: one minute. */
QUIRE_API int32_t quire_cache_options_set_page_idle_ns(quire_cache_options* options, int64_t page_idle_ns,
                                                       quire_error** error);

/** Tokens of a page, 1 to 4096. Prompts that share whole pages share their work. Default: 256. */
QUIRE_API int32_t quire_cache_options_set_page_tokens(quire_cache_options* options, int32_t page_tokens,
                                                      quire_error** error);

/** Jobs that run at the same time, 1 to 4096; others wait. Default: 64. */
QUIRE_API int32_t quire_cache_options_set_max_batch_size(quire_cache_options* options, int32_t max_batch_size,
                                                         quire_error** error);

/**
 * Jobs whose windows the cache holds at the same time, up to 4096, in layers that see the last tokens alone:
 * these give pages back before their window, and a longer context costs them nothing. 0, the default, is
 * max_batch_size, so that no job waits for a window. Fewer make the cache smaller, and jobs wait where that
 * does not suffice. Models without windows, and caches so small that every page may lie in one, take no
 * notice.
 */
QUIRE_API int32_t quire_cache_options_set_window_sequences(quire_cache_options* options,
                                                           int32_t window_sequences, quire_error** error);

/**
 * Tokens of one step, 1 to 65536: a longer prompt is processed in chunks between the tokens of other jobs.
 * Larger is faster for prompts and slower to answer others. Default: 512.
 */
QUIRE_API int32_t quire_cache_options_set_max_chunk_tokens(quire_cache_options* options,
                                                           int32_t max_chunk_tokens, quire_error** error);

/**
 * Tokens that one job may have, prompt and generated ones together. 0, the default, is what the model was
 * made for, or max_tokens where that is less.
 */
QUIRE_API int32_t quire_cache_options_set_max_seq_len(quire_cache_options* options, int64_t max_seq_len,
                                                      quire_error** error);

/** Jobs that may wait, 1 to 1000000; one more is refused with QUIRE_ERROR_CAPACITY. Default: 1024. */
QUIRE_API int32_t quire_cache_options_set_max_queue(quire_cache_options* options, int32_t max_queue,
                                                    quire_error** error);

/**
 * One of QUIRE_KV_*; QUIRE_ERROR_UNSUPPORTED from quire_cache_create where the device cannot. With
 * QUIRE_KV_AUTO models that nobody uses leave before a smaller format is taken; quire_cache_kv_format tells
 * which it is. Default: QUIRE_KV_F16.
 */
QUIRE_API int32_t quire_cache_options_set_kv_format(quire_cache_options* options, int32_t kv_format,
                                                    quire_error** error);

/**
 * One of QUIRE_QUOTA_* for every namespace that has none of its own: 0 to 2^31 - 1. 0, the default, is no
 * limit. A job that could never keep to QUIRE_QUOTA_PAGES is refused at submit with QUIRE_ERROR_TOO_LARGE.
 * quire_cache_set_quota changes it later.
 */
QUIRE_API int32_t quire_cache_options_set_quota(quire_cache_options* options, int32_t quota, int32_t limit,
                                                quire_error** error);

/**
 * One of QUIRE_QUOTA_* for one namespace, given by its name, in place of what quire_cache_options_set_quota
 * says; 0 is no limit. At most 1024 namespaces have quotas or weights of their own.
 */
QUIRE_API int32_t quire_cache_options_set_namespace_quota(quire_cache_options* options, const char* text,
                                                          size_t text_len, int32_t quota, int32_t limit,
                                                          quire_error** error);

/**
 * The share of one namespace where several have jobs that wait: twice the weight is twice the tokens. Above
 * 0, up to 1000000. Default: 1.
 */
QUIRE_API int32_t quire_cache_options_set_namespace_weight(quire_cache_options* options, const char* text,
                                                           size_t text_len, double weight,
                                                           quire_error** error);

/**
 * The share of the cache in the time of its devices, where other caches of the runtime want them at the same
 * time: twice the weight is twice the time. Above 0, up to 1000000. Default: 1. quire_cache_set_device_weight
 * changes it later.
 */
QUIRE_API int32_t quire_cache_options_set_device_weight(quire_cache_options* options, double weight,
                                                        quire_error** error);

/**
 * How many times longer than a step of the running streams alone one may take that also computes prompts, by
 * what steps took lately: 1 to 1000. Larger is faster for prompts, smaller keeps the rhythm of the streams.
 * It counts for the streams of other caches on the same device too. Where more jobs wait for their first
 * token than generate, steps may take 100 ms until no more than one waits for eight that generate. 0 is no
 * bound but max_chunk_tokens. Default: 2.5.
 */
QUIRE_API int32_t quire_cache_options_set_step_stretch(quire_cache_options* options, double stretch,
                                                       quire_error** error);

/**
 * Bytes of host memory for pages of prefixes that leave the cache: a later prompt that begins with their
 * tokens, in the same namespace, takes them back instead of computing them, with the same bits. They count in
 * the memory budget of "cpu"; what was used last stays longest. Pages computed with an adapter are not kept.
 * Models with layers that have a window: quire_cache_create refuses more than 0 with QUIRE_ERROR_UNSUPPORTED.
 * 0, the default: pages that leave are gone.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_bytes(quire_cache_options* options, int64_t bytes,
                                                       quire_error** error);

/**
 * A directory for pages that find no room in host memory, and at close for all whole pages, as far as half of
 * close_timeout_ns goes: later caches of the same model, also in later processes, take them from there. The
 * path is in UTF-8, and the directory exists. A file is believed only where its model, tokens and checksum
 * are right; damaged ones are removed, and their pages computed. Who can write there can change what jobs
 * say, and who can read there can read prompts. quire_cache_create reads all weights of the model once more
 * to know them again, and refuses as quire_cache_options_set_prefix_bytes says. Default: empty, none.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_directory(quire_cache_options* options, const char* text,
                                                           size_t text_len, quire_error** error);

/**
 * Bytes that all pages in the directory may take, whoever wrote them; the oldest are removed first. 0, the
 * default, is 4 GiB.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_directory_bytes(quire_cache_options* options, int64_t bytes,
                                                                 quire_error** error);

/** Pages that quire_cache_pin keeps for all namespaces together; 0, the default, is a quarter of the cache.
 */
QUIRE_API int32_t quire_cache_options_set_max_pinned_pages(quire_cache_options* options,
                                                           int32_t max_pinned_pages, quire_error** error);

/**
 * How often later jobs may begin before one for which there is no room yet; then all wait for it. 0 to
 * 2^31 - 1. Default: 16.
 */
QUIRE_API int32_t quire_cache_options_set_max_overtakes(quire_cache_options* options, int32_t max_overtakes,
                                                        quire_error** error);

/**
 * Nanoseconds of waiting that are worth one priority, so that no job waits for ever for others of higher
 * priority; 0 is never. Default: ten seconds.
 */
QUIRE_API int32_t quire_cache_options_set_ageing_ns(quire_cache_options* options, int64_t ageing_ns,
                                                    quire_error** error);

/**
 * Nanoseconds after which a step counts as hanging: every live job then ends with QUIRE_ERROR_DEVICE_LOST,
 * and later calls fail with it. It must be longer than the longest step of a healthy device. 0, the default,
 * is never.
 */
QUIRE_API int32_t quire_cache_options_set_step_timeout_ns(quire_cache_options* options,
                                                          int64_t step_timeout_ns, quire_error** error);

/**
 * Nanoseconds that quire_cache_close waits for the step in progress before it gives up a device
 * that hangs. Default: two seconds.
 */
QUIRE_API int32_t quire_cache_options_set_close_timeout_ns(quire_cache_options* options,
                                                           int64_t close_timeout_ns, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_OPTIONS_H */
