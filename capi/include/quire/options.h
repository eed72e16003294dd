/*
 * Settings of a runtime, a model and a cache. The settings of a job are in request.h.
 *
 * An options object is filled by its setters and read when something is created from it. The created object
 * keeps no reference to it, so one options object may be used many times, and may be changed or freed at
 * once. Setters on one object from several threads run one after another.
 *
 * Each setter returns 1, or 0 on failure, and then the setting is unchanged. QUIRE_ERROR_INVALID_ARGUMENT
 * names the setting and its range. Settings that depend on the model or the machine are checked when the
 * object is used.
 */
#ifndef QUIRE_OPTIONS_H
#define QUIRE_OPTIONS_H

#include <quire/base.h>

/* Levels of the log; a level includes those before it. */
#define QUIRE_LOG_OFF 0     /* nothing */
#define QUIRE_LOG_ERROR 1   /* failures */
#define QUIRE_LOG_WARNING 2 /* unexpected conditions that do not stop the work */
#define QUIRE_LOG_INFO 3    /* lifecycle of models and caches */
#define QUIRE_LOG_DEBUG 4   /* details for developers of the library */

/* Parts of a model that are loaded. */
#define QUIRE_MODEL_SCOPE_FULL 0      /* everything */
#define QUIRE_MODEL_SCOPE_TOKENIZER 1 /* only the tokenizer: encode and decode work, nothing else */
#define QUIRE_MODEL_SCOPE_METADATA 2  /* all but the weights: enough to describe and plan */

/* Storage formats of keys and values. */
#define QUIRE_KV_F16 0  /* 16-bit floats */
#define QUIRE_KV_Q8 1   /* 8.5 bits per element, including scales */
#define QUIRE_KV_Q6 2   /* keys as in Q8, values as in Q4: 6.5 bits on average */
#define QUIRE_KV_Q4 3   /* 4.5 bits */
#define QUIRE_KV_FP8 4  /* 8 bits, without a scale */
#define QUIRE_KV_AUTO 5 /* the first of F16, Q8, Q6 and Q4 that fits and that every device supports */

/* Formats in which the matrix products of layers take their activations. */
#define QUIRE_ACTIVATION_FULL 0 /* as exact as the device computes: 16 bits or more */
#define QUIRE_ACTIVATION_I8 1   /* 8-bit integers, with one scale per 128 elements of a token */
#define QUIRE_ACTIVATION_F8 2   /* 8-bit floats (E4M3), with one scale per 128 elements of a token */

/* Drafters of speculative decoding: what proposes tokens for a step to verify. None changes an answer. */
#define QUIRE_DRAFTER_AUTO 0    /* the draft network of the model if it has one, otherwise n-grams */
#define QUIRE_DRAFTER_NONE 1    /* no tokens are proposed */
#define QUIRE_DRAFTER_NGRAM 2   /* what followed the last tokens earlier in prompt or answer */
#define QUIRE_DRAFTER_NETWORK 3 /* the draft network of quire_model_options_set_drafter */

/* Quotas of one namespace in a cache. */
#define QUIRE_QUOTA_RUNNING_JOBS 0 /* jobs that run at the same time; other jobs of the namespace wait */
#define QUIRE_QUOTA_QUEUED_JOBS 1  /* jobs that wait; a further one fails with QUIRE_ERROR_QUOTA */
#define QUIRE_QUOTA_PAGES 2        /* pages of its jobs, a shared one counts per job; lowest priority waits */
#define QUIRE_QUOTA_PINNED_PAGES 3 /* pages that quire_cache_pin keeps for it */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Receives one log line: UTF-8, not zero-terminated, without a line break, valid only during the call.
 * Called from any thread, possibly from several at once, without any lock held. The line never contains
 * prompt text. base.h lists what a callback may do.
 */
typedef void (*quire_log_fn)(void* user_data, int32_t level, const char* text, size_t text_len);

/**
 * Receives the progress of a load, in bytes of the files, on the thread that called quire_model_load. In the
 * last call done_bytes equals total_bytes. base.h lists what a callback may do; a quire_cancel ends the load.
 */
typedef void (*quire_progress_fn)(void* user_data, int64_t done_bytes, int64_t total_bytes);

/* Runtime. */

/** Creates the options of a runtime with every default. Returns NULL on failure. */
QUIRE_API quire_runtime_options* quire_runtime_options_create(quire_error** error);

/** Frees the options of a runtime. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_runtime_options_free(quire_runtime_options* handle, quire_error** error);

/** Sets the number of CPU threads, including the engine thread: 1 to 1024. 0, the default: one per core. */
QUIRE_API int32_t quire_runtime_options_set_num_threads(quire_runtime_options* options, int32_t num_threads,
                                                        quire_error** error);

/**
 * Sets the device of models that name none: "cpu", the default, "cuda:0" and so on, or beside one of these a
 * stage (quire_runtime_options_set_stages). Several devices are separated by commas, as in "cuda:0,cuda:1";
 * see quire_model_options_set_device.
 */
QUIRE_API int32_t quire_runtime_options_set_device(quire_runtime_options* options, const char* text,
                                                   size_t text_len, quire_error** error);

/**
 * Sets the stages that the runtime may use: devices of processes on other hosts (`quire stage`), by address,
 * separated by commas: "tcp://10.0.0.2:7430". Stages among the default devices need not be repeated here. A
 * model uses a stage that its devices name, as in "cpu,tcp://10.0.0.2:7430": it has layers of the model,
 * while the embedding, the head and all draws stay in this process. The runtime connects to a stage when it
 * is first used. Default: none, and then the library opens no socket. A malformed address, or a stage without
 * a key, fails with QUIRE_ERROR_INVALID_ARGUMENT when the runtime is created.
 */
QUIRE_API int32_t quire_runtime_options_set_stages(quire_runtime_options* options, const char* text,
                                                   size_t text_len, quire_error** error);

/**
 * Sets the file of the key that this process and the stages share: 32 to 4,096 bytes, without white space at
 * its ends. It is read when the runtime is created. Default: none.
 */
QUIRE_API int32_t quire_runtime_options_set_stage_key_file(quire_runtime_options* options, const char* text,
                                                           size_t text_len, quire_error** error);

/**
 * Sets how activations travel to the stages: "auto" (default), "tcp" or "nccl". "auto" takes NCCL, neither
 * authenticated nor encrypted, between CUDA devices if both processes have the same libnccl.so.2.
 */
QUIRE_API int32_t quire_runtime_options_set_stage_transport(quire_runtime_options* options, const char* text,
                                                            size_t text_len, quire_error** error);

/** Sets the most detailed QUIRE_LOG_* that reaches the sink. Default: QUIRE_LOG_WARNING. */
QUIRE_API int32_t quire_runtime_options_set_log_level(quire_runtime_options* options, int32_t level,
                                                      quire_error** error);

/**
 * Sets the function that receives the log; NULL, the default, discards it. `user_data` is passed to each
 * call and must stay valid until quire_runtime_free has returned.
 */
QUIRE_API int32_t quire_runtime_options_set_log_sink(quire_runtime_options* options, quire_log_fn log_sink,
                                                     void* user_data, quire_error** error);

/**
 * Sets the bytes that the weights and caches of the runtime may take together on one device, given by its
 * name ("cpu", "cuda:0"). A load or a cache beyond the budget fails with QUIRE_ERROR_OUT_OF_MEMORY before
 * any memory is taken. 0, the default of each device, means no limit. For the name "pinned", the bytes
 * limit the pinned host memory that holds weights of CUDA devices on standby
 * (QUIRE_MODEL_STATE_STANDING_BY); weights beyond it are read from their files again. For "pinned", 0 means
 * half of the free host memory.
 */
QUIRE_API int32_t quire_runtime_options_set_memory_budget(quire_runtime_options* options, const char* text,
                                                          size_t text_len, int64_t bytes,
                                                          quire_error** error);

/* Model. */

/** Creates the options of a model with every default. Returns NULL on failure. */
QUIRE_API quire_model_options* quire_model_options_create(quire_error** error);

/** Frees the options of a model. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_model_options_free(quire_model_options* handle, quire_error** error);

/**
 * Sets the path of the model: a directory with config.json, tokenizer.json and *.safetensors, or a GGUF file
 * (of several, NAME-00001-of-0000N.gguf, the first). Required. The path is UTF-8, or any bytes that the file
 * system accepts.
 *
 * A directory may instead contain several such model directories: one model of one shape in several
 * precisions. The load then takes the one with the most bytes of weights that fits into memory next to the
 * planned cache; a lazy model decides by the memory that is free when quire_model_load is called. If none
 * fits, it takes the smallest and reports its failure. quire_model_path returns the chosen one.
 *
 * With QUIRE_MODEL_SCOPE_TOKENIZER it may be a tokenizer.json, *.model, *.tiktoken or tekken.json file.
 */
QUIRE_API int32_t quire_model_options_set_path(quire_model_options* options, const char* text,
                                               size_t text_len, quire_error** error);

/**
 * Sets the device that holds and runs the model: "cpu", "cuda:0". Several devices, separated by commas,
 * split its layers and run them in the order of the list. Examples: "cuda:0,cuda:1", or "cpu,cuda:0", where
 * the CPU takes the layers that do not fit on the card. Default: the device of the runtime.
 */
QUIRE_API int32_t quire_model_options_set_device(quire_model_options* options, const char* text,
                                                 size_t text_len, quire_error** error);

/**
 * Sets how the layers are split over the devices. "auto", the default, decides by the bytes that weights
 * and cache take and that the devices have free. "20,12" gives the number of layers of each device.
 * "24G,512M" gives the maximum bytes that weights and cache may take on each device; the layers are then
 * split automatically within these limits. K, M and G mean KiB, MiB and GiB; every number of bytes needs
 * such a suffix.
 */
QUIRE_API int32_t quire_model_options_set_split(quire_model_options* options, const char* text,
                                                size_t text_len, quire_error** error);

/**
 * Sets which layers of a mixture of experts (MoE) have their experts in host memory, where the CPU computes
 * them, while everything else of the layer is on its card: router, experts, shared expert and their norm.
 * "none", the default, which an empty text means as well; "all"; a number of layers such as "24", the first
 * ones that have experts; or "auto": none if the model fits on its cards, otherwise as few layers as needed.
 * If the devices do not name cpu, it is added as the last device and takes no whole layers. A layer that is
 * on the CPU itself computes there as before. Answers are the same for a choice, but may differ between
 * choices as between devices.
 *
 * quire_model_load and quire_plan_create fail with QUIRE_ERROR_UNSUPPORTED, unless the choice is "none" or
 * "auto", if the model has no experts, if their block reads more than the residual stream (parallel layers,
 * several streams), or with quire_model_options_set_num_shards above 1.
 */
QUIRE_API int32_t quire_model_options_set_host_experts(quire_model_options* options, const char* text,
                                                       size_t text_len, quire_error** error);

/**
 * Sets the device memory that the model leaves free, in bytes: one number for all devices, or one for each,
 * separated by commas. The suffixes K, M and G mean KiB, MiB and GiB. Default: "256M", which does not apply
 * to the CPU.
 */
QUIRE_API int32_t quire_model_options_set_reserve(quire_model_options* options, const char* text,
                                                  size_t text_len, quire_error** error);

/**
 * Sets the cache that the load leaves memory for on its devices; its settings are copied. NULL, the
 * default: an automatic split leaves memory for 8192 tokens, and a load only checks that the weights fit.
 */
QUIRE_API int32_t quire_model_options_set_planned_cache(quire_model_options* options,
                                                        quire_cache_options* cache, quire_error** error);

/**
 * Sets which parts of the model are loaded, one of QUIRE_MODEL_SCOPE_*. Default: QUIRE_MODEL_SCOPE_FULL.
 */
QUIRE_API int32_t quire_model_options_set_scope(quire_model_options* options, int32_t scope,
                                                quire_error** error);

/**
 * Sets whether the model is loaded lazily: 1 or 0. Default: 0. A lazy load only reads the configuration,
 * tokenizer and headers and plans the memory. The model is on standby until the first job of a cache, or
 * quire_model_wake, loads the weights. Only for QUIRE_MODEL_SCOPE_FULL.
 */
QUIRE_API int32_t quire_model_options_set_lazy(quire_model_options* options, int32_t lazy,
                                               quire_error** error);

/**
 * Sets the function that receives the progress of the load; NULL, the default, means none. `user_data` is
 * passed to each call.
 */
QUIRE_API int32_t quire_model_options_set_progress(quire_model_options* options, quire_progress_fn progress,
                                                   void* user_data, quire_error** error);

/**
 * Sets the number of shards that each layer is cut into for tensor parallelism, 1 to 64, on cards 1 to 8.
 * Each shard has its own columns of every matrix and its own heads of the cache; shards compute in parallel.
 * 1, the default, keeps layers whole. Results equal those of one shard bit for bit. On the CPU, shards divide
 * the threads between them. Several cards have one shard each: two cards and two shards are one stage, four
 * cards and two shards are two stages of half the layers. A split by layers then has one number for each
 * stage. A stage on another host has the shards that it was started with. quire_model_load and
 * quire_plan_create fail with QUIRE_ERROR_INVALID_ARGUMENT if a row of cards is no multiple of the shards.
 */
QUIRE_API int32_t quire_model_options_set_num_shards(quire_model_options* options, int32_t num_shards,
                                                     quire_error** error);

/**
 * Sets the format of the activations, one of QUIRE_ACTIVATION_*. Default: QUIRE_ACTIVATION_FULL. Results
 * still depend only on the job. quire_model_load fails with QUIRE_ERROR_UNSUPPORTED if a device does
 * not support the format.
 *
 * QUIRE_ACTIVATION_I8 makes prompts and batches faster and results less exact. It applies on the CPU, to
 * matrices of EXL2, GPTQ, AWQ and the other integer formats. QUIRE_ACTIVATION_F8 does the same on NVIDIA
 * cards of compute capability 9.0, for FP8 (E4M3) matrices whose scales are shared by all rows or by
 * multiples of 128 rows, except those of MoE experts. All other matrices, and the output matrix for the
 * logits, use full precision.
 */
QUIRE_API int32_t quire_model_options_set_activation_dtype(quire_model_options* options,
                                                           int32_t activation_dtype, quire_error** error);

/**
 * Sets the draft network that is loaded with the model: a network that proposes tokens for the steps of its
 * caches to verify (quire_cache_options_set_drafter). No answer depends on it. Its weights take device memory
 * next to those of the model and leave and return with them, and its keys and values are in the pages of the
 * caches.
 *
 * "auto", the default, which an empty text means as well, loads the multi-token prediction (MTP) heads of the
 * checkpoint if it has any and the model is on the CPU, otherwise no network. "none" loads no network. "mtp"
 * loads the MTP heads. Any other text is the path of a draft model or of an EAGLE-3 network for this model, a
 * directory or a file like that of a model; write "./mtp" for a directory with that name. quire_model_drafter
 * returns what was loaded.
 *
 * quire_model_load and quire_plan_create fail with QUIRE_ERROR_NOT_FOUND if the path does not exist, and with
 * QUIRE_ERROR_UNSUPPORTED or QUIRE_ERROR_FORMAT if the checkpoint has no MTP heads or the network does not
 * fit the model, such as one with another vocabulary. QUIRE_MODEL_SCOPE_TOKENIZER ignores the setting.
 */
QUIRE_API int32_t quire_model_options_set_drafter(quire_model_options* options, const char* text,
                                                  size_t text_len, quire_error** error);

/* Cache. */

/** Creates the options of a cache with every default. Returns NULL on failure. */
QUIRE_API quire_cache_options* quire_cache_options_create(quire_error** error);

/** Frees the options of a cache. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cache_options_free(quire_cache_options* handle, quire_error** error);

/**
 * Sets the name of the cache in metrics and log lines: UTF-8 of up to 256 bytes. Default: empty, which uses
 * the number of the cache.
 */
QUIRE_API int32_t quire_cache_options_set_name(quire_cache_options* options, const char* text,
                                               size_t text_len, quire_error** error);

/**
 * Sets the number of tokens that all jobs together can hold in the cache, rounded up to whole pages. 0, the
 * default, means one job of max_seq_len tokens, or 8192 tokens if that is more.
 */
QUIRE_API int32_t quire_cache_options_set_max_tokens(quire_cache_options* options, int64_t max_tokens,
                                                     quire_error** error);

/**
 * Makes the cache elastic: it grows and shrinks during use. It always has memory for at least min_tokens,
 * and a job that could need more is refused. It grows up to max_tokens as jobs need it and the device and
 * its budget allow. It frees pages that were not used for a while (quire_cache_options_set_page_idle_ns).
 * It also frees pages that no job holds if another model or cache needs the memory. 0, the default, takes
 * the memory of max_tokens at once.
 */
QUIRE_API int32_t quire_cache_options_set_min_tokens(quire_cache_options* options, int64_t min_tokens,
                                                     quire_error** error);
/**
 * Sets how long an elastic cache keeps pages that no job uses. 0 means until others need the memory.
 * Default: one minute.
 */
QUIRE_API int32_t quire_cache_options_set_page_idle_ns(quire_cache_options* options, int64_t page_idle_ns,
                                                       quire_error** error);

/**
 * Sets the number of tokens of a page, 1 to 4096. Prompts share the computation of the whole pages that
 * they have in common. Default: 256.
 */
QUIRE_API int32_t quire_cache_options_set_page_tokens(quire_cache_options* options, int32_t page_tokens,
                                                      quire_error** error);

/** Sets the number of jobs that run at the same time, 1 to 4096; other jobs wait. Default: 64. */
QUIRE_API int32_t quire_cache_options_set_max_batch_size(quire_cache_options* options, int32_t max_batch_size,
                                                         quire_error** error);

/**
 * Sets how many jobs can have pages in sliding-window layers at the same time, up to 4096. These layers see
 * only the last tokens. They free pages that fall out of the window, so a longer context costs them no
 * memory. 0, the default, means max_batch_size, so that no job waits for a window. A lower number makes the
 * cache smaller, and jobs wait if it does not suffice. It has no effect on models without sliding windows,
 * or on caches so small that every page may lie in a window. In models with recurrent layers it is the
 * number of sequences that have states; some more run in the slots of snapshots.
 */
QUIRE_API int32_t quire_cache_options_set_window_sequences(quire_cache_options* options,
                                                           int32_t window_sequences, quire_error** error);

/**
 * Sets the number of tokens of one step, 1 to 65536. A longer prompt is computed in chunks between the
 * tokens of other jobs. A larger value computes prompts faster, but other jobs wait longer for their
 * tokens. Default: 512.
 */
QUIRE_API int32_t quire_cache_options_set_max_chunk_tokens(quire_cache_options* options,
                                                           int32_t max_chunk_tokens, quire_error** error);

/**
 * Sets the number of tokens that one job may have, prompt and generated tokens together. 0, the default,
 * means the context length of the model, or max_tokens if that is less.
 */
QUIRE_API int32_t quire_cache_options_set_max_seq_len(quire_cache_options* options, int64_t max_seq_len,
                                                      quire_error** error);

/**
 * Sets the number of jobs that may wait, 1 to 1000000. A further job fails with QUIRE_ERROR_CAPACITY.
 * Default: 1024.
 */
QUIRE_API int32_t quire_cache_options_set_max_queue(quire_cache_options* options, int32_t max_queue,
                                                    quire_error** error);

/**
 * Sets the storage format of keys and values, one of QUIRE_KV_*. Default: QUIRE_KV_F16. quire_cache_create
 * fails with QUIRE_ERROR_UNSUPPORTED if the device does not support it. With QUIRE_KV_AUTO, idle models are
 * evicted before a smaller format is taken; quire_cache_kv_format returns the chosen format.
 */
QUIRE_API int32_t quire_cache_options_set_kv_format(quire_cache_options* options, int32_t kv_format,
                                                    quire_error** error);

/**
 * Sets the drafter of the jobs, one of QUIRE_DRAFTER_*. Default: QUIRE_DRAFTER_AUTO. A step verifies the
 * tokens that it proposes, and accepts those that it would have drawn anyway, so an answer has the same
 * tokens with any drafter. Measured times and the acceptance of each job decide how many are proposed, zero
 * included. quire_job_explain shows why a job has none. With QUIRE_DRAFTER_NETWORK quire_cache_create fails
 * with QUIRE_ERROR_INVALID_ARGUMENT if the model was loaded without a draft network.
 */
QUIRE_API int32_t quire_cache_options_set_drafter(quire_cache_options* options, int32_t drafter,
                                                  quire_error** error);

/** Sets the maximum number of draft tokens of a job in one step, 1 to 15. Default: 4. */
QUIRE_API int32_t quire_cache_options_set_max_drafts(quire_cache_options* options, int32_t max_drafts,
                                                     quire_error** error);

/**
 * Sets one QUIRE_QUOTA_* for every namespace that has no quota of its own: 0 to 2^31 - 1. 0, the default,
 * means no limit. A job that can never fit into QUIRE_QUOTA_PAGES fails at submit with
 * QUIRE_ERROR_TOO_LARGE. quire_cache_set_quota changes it later.
 */
QUIRE_API int32_t quire_cache_options_set_quota(quire_cache_options* options, int32_t quota, int32_t limit,
                                                quire_error** error);

/**
 * Sets one QUIRE_QUOTA_* for one namespace, given by its name, instead of the value of
 * quire_cache_options_set_quota. 0 means no limit. At most 1024 namespaces may have quotas or weights of
 * their own.
 */
QUIRE_API int32_t quire_cache_options_set_namespace_quota(quire_cache_options* options, const char* text,
                                                          size_t text_len, int32_t quota, int32_t limit,
                                                          quire_error** error);

/**
 * Sets the share of one namespace while several have waiting jobs: twice the weight gets twice the tokens.
 * Above 0, up to 1000000. Default: 1.
 */
QUIRE_API int32_t quire_cache_options_set_namespace_weight(quire_cache_options* options, const char* text,
                                                           size_t text_len, double weight,
                                                           quire_error** error);

/**
 * Sets the share of the cache in the time of its devices while other caches of the runtime use the same
 * devices: twice the weight gets twice the time. Above 0, up to 1000000. Default: 1.
 * quire_cache_set_device_weight changes it later.
 */
QUIRE_API int32_t quire_cache_options_set_device_weight(quire_cache_options* options, double weight,
                                                        quire_error** error);

/**
 * Limits how much a step may be slowed down by computing prompts. The value is a multiple of the recent
 * duration of a step that only decodes the running jobs: 1 to 1000. A larger value computes prompts faster;
 * a smaller one keeps the token rate of running jobs steady. The running jobs of other caches on the same
 * device count too. While more jobs wait for their first token than generate, steps may take 100 ms, until
 * at most one job waits per eight that generate. 0 means no limit but max_chunk_tokens. Default: 2.5.
 */
QUIRE_API int32_t quire_cache_options_set_step_stretch(quire_cache_options* options, double stretch,
                                                       quire_error** error);

/** Sets the bytes of each card in which the most chosen experts of host memory stay (EXL2). Default: 0. */
QUIRE_API int32_t quire_cache_options_set_card_expert_bytes(quire_cache_options* options, int64_t bytes,
                                                            quire_error** error);

/**
 * Sets the bytes of host memory for prefix pages that are evicted from the cache. A later prompt in the
 * same namespace that begins with the tokens of such pages copies them back instead of computing them, bit
 * for bit. The least recently used pages leave first. The bytes count towards the memory budget of "cpu".
 * Pages computed with an adapter are not kept. For models with sliding-window layers and no recurrent
 * layers, quire_cache_create fails with QUIRE_ERROR_UNSUPPORTED if this is above 0. 0, the default, discards
 * evicted pages.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_bytes(quire_cache_options* options, int64_t bytes,
                                                       quire_error** error);

/**
 * Sets a directory for pages that no longer fit into host memory. At close, all whole pages are written
 * there too, as far as half of close_timeout_ns allows. Later caches of the same model, also in later
 * processes, read pages from there. The path is UTF-8, and the directory must exist. Default: empty, which
 * means none.
 *
 * A file is used only if its model, tokens and checksum are right. Damaged files are removed, and their
 * pages computed. Anyone who can write to the directory can change the output of jobs, and anyone who can
 * read it can read prompts. quire_cache_create reads all weights of the model once to identify it, and
 * fails for the same models as quire_cache_options_set_prefix_bytes.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_directory(quire_cache_options* options, const char* text,
                                                           size_t text_len, quire_error** error);

/**
 * Sets the bytes that all pages in the directory may take, including those of other processes. The oldest
 * are removed first. 0, the default, means 4 GiB.
 */
QUIRE_API int32_t quire_cache_options_set_prefix_directory_bytes(quire_cache_options* options, int64_t bytes,
                                                                 quire_error** error);

/**
 * Sets the number of pages that quire_cache_pin may keep for all namespaces together. 0, the default, means
 * a quarter of the cache.
 */
QUIRE_API int32_t quire_cache_options_set_max_pinned_pages(quire_cache_options* options,
                                                           int32_t max_pinned_pages, quire_error** error);

/**
 * Sets how often later jobs may start before a job that does not fit yet; after that, all wait for it. 0 to
 * 2^31 - 1. Default: 16.
 */
QUIRE_API int32_t quire_cache_options_set_max_overtakes(quire_cache_options* options, int32_t max_overtakes,
                                                        quire_error** error);

/**
 * Sets the waiting time, in nanoseconds, that raises a job's priority by one, so that no job waits forever
 * for jobs of higher priority. 0 means never. Default: ten seconds.
 */
QUIRE_API int32_t quire_cache_options_set_ageing_ns(quire_cache_options* options, int64_t ageing_ns,
                                                    quire_error** error);

/**
 * Sets the nanoseconds after which a step counts as hanging. Every live job then ends with
 * QUIRE_ERROR_DEVICE_LOST, and later calls fail with it. The time must be longer than the longest step of a
 * healthy device. 0, the default, means never.
 */
QUIRE_API int32_t quire_cache_options_set_step_timeout_ns(quire_cache_options* options,
                                                          int64_t step_timeout_ns, quire_error** error);

/**
 * Sets the nanoseconds that quire_cache_close waits for the running step before it gives up on a hanging
 * device. Default: two seconds.
 */
QUIRE_API int32_t quire_cache_options_set_close_timeout_ns(quire_cache_options* options,
                                                           int64_t close_timeout_ns, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_OPTIONS_H */
