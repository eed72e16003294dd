#include <quire/options.h>

#include "capi/src/arguments.h"
#include "capi/src/options_objects.h"

using namespace quire::capi;

namespace {

constexpr int64_t kMaxInt64 = INT64_MAX;

template <typename Handle>
Handle* create_options(quire_error** error) noexcept {
  return guard(error, static_cast<Handle*>(nullptr), [] { return make_handle<Handle>(); });
}

}  // namespace

quire_runtime_options* quire_runtime_options_create(quire_error** error) {
  return create_options<quire_runtime_options>(error);
}

int32_t quire_runtime_options_free(quire_runtime_options* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_runtime_options_set_num_threads(quire_runtime_options* options, int32_t num_threads,
                                              quire_error** error) {
  return set_option(options, "options", error, [&](RuntimeSettings& settings) {
    settings.num_threads = range_argument(num_threads, 0, 1024, "num_threads");
  });
}

int32_t quire_runtime_options_set_device(quire_runtime_options* options, const char* text, size_t text_len,
                                         quire_error** error) {
  return set_option(options, "options", error, [&](RuntimeSettings& settings) {
    settings.device = c_text_argument(text, text_len, "device");
  });
}

int32_t quire_runtime_options_set_log_level(quire_runtime_options* options, int32_t level,
                                            quire_error** error) {
  return set_option(options, "options", error, [&](RuntimeSettings& settings) {
    settings.log_level = range_argument(level, QUIRE_LOG_OFF, QUIRE_LOG_DEBUG, "level");
  });
}

int32_t quire_runtime_options_set_log_sink(quire_runtime_options* options, quire_log_fn log_sink,
                                           void* user_data, quire_error** error) {
  return set_option(options, "options", error, [&](RuntimeSettings& settings) {
    settings.log_sink = log_sink;
    settings.log_user_data = user_data;
  });
}

int32_t quire_runtime_options_set_memory_budget(quire_runtime_options* options, int64_t bytes,
                                                quire_error** error) {
  return set_option(options, "options", error, [&](RuntimeSettings& settings) {
    settings.memory_budget_bytes = range_argument(bytes, int64_t{0}, kMaxInt64, "bytes");
  });
}

quire_model_options* quire_model_options_create(quire_error** error) {
  return create_options<quire_model_options>(error);
}

int32_t quire_model_options_free(quire_model_options* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_model_options_set_path(quire_model_options* options, const char* text, size_t text_len,
                                     quire_error** error) {
  return set_option(options, "options", error, [&](ModelSettings& settings) {
    settings.path = c_text_argument(text, text_len, "path");
  });
}

int32_t quire_model_options_set_device(quire_model_options* options, const char* text, size_t text_len,
                                       quire_error** error) {
  return set_option(options, "options", error, [&](ModelSettings& settings) {
    settings.device = c_text_argument(text, text_len, "device");
  });
}

int32_t quire_model_options_set_scope(quire_model_options* options, int32_t scope, quire_error** error) {
  return set_option(options, "options", error, [&](ModelSettings& settings) {
    settings.scope = range_argument(scope, QUIRE_MODEL_SCOPE_FULL, QUIRE_MODEL_SCOPE_METADATA, "scope");
  });
}

int32_t quire_model_options_set_progress(quire_model_options* options, quire_progress_fn progress,
                                         void* user_data, quire_error** error) {
  return set_option(options, "options", error, [&](ModelSettings& settings) {
    settings.progress = progress;
    settings.progress_user_data = user_data;
  });
}

int32_t quire_model_options_set_cancel(quire_model_options* options, quire_cancel* cancel,
                                       quire_error** error) {
  return set_option(options, "options", error,
                    [&](ModelSettings& settings) { settings.cancel = cancel_argument(cancel); });
}

quire_cache_options* quire_cache_options_create(quire_error** error) {
  return create_options<quire_cache_options>(error);
}

int32_t quire_cache_options_free(quire_cache_options* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_cache_options_set_max_tokens(quire_cache_options* options, int64_t max_tokens,
                                           quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.max_tokens = range_argument(max_tokens, int64_t{0}, kMaxInt64, "max_tokens");
  });
}

int32_t quire_cache_options_set_page_tokens(quire_cache_options* options, int32_t page_tokens,
                                            quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.page_tokens = range_argument(page_tokens, 1, 4096, "page_tokens");
  });
}

int32_t quire_cache_options_set_max_batch_size(quire_cache_options* options, int32_t max_batch_size,
                                               quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.max_batch_size = range_argument(max_batch_size, 1, 4096, "max_batch_size");
  });
}

int32_t quire_cache_options_set_max_chunk_tokens(quire_cache_options* options, int32_t max_chunk_tokens,
                                                 quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.max_chunk_tokens = range_argument(max_chunk_tokens, 1, 65536, "max_chunk_tokens");
  });
}

int32_t quire_cache_options_set_max_seq_len(quire_cache_options* options, int64_t max_seq_len,
                                            quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.max_seq_len = range_argument(max_seq_len, int64_t{0}, kMaxInt64, "max_seq_len");
  });
}

int32_t quire_cache_options_set_max_queue(quire_cache_options* options, int32_t max_queue,
                                          quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.max_queue = range_argument(max_queue, 0, 1'000'000, "max_queue");
  });
}

int32_t quire_cache_options_set_kv_format(quire_cache_options* options, int32_t kv_format,
                                          quire_error** error) {
  return set_option(options, "options", error, [&](CacheSettings& settings) {
    settings.kv_format = range_argument(kv_format, QUIRE_KV_F16, QUIRE_KV_FP8, "kv_format");
  });
}
