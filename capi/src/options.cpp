#include <quire/options.h>

#include "capi/src/arguments.h"
#include "capi/src/options_objects.h"

using namespace quire::capi;

namespace {

constexpr int64_t kMaxInt64 = INT64_MAX;
constexpr int32_t kMaxInt32 = INT32_MAX;

template <typename Handle>
Handle* create_options(quire_error** error) noexcept {
  return guard(error, static_cast<Handle*>(nullptr), [] { return make_handle<Handle>(); });
}

// The whole of a setter of options. Errors of `apply` are about the setting.
template <typename Handle, typename Change>
int32_t set(Handle* options, std::string_view setting, quire_error** error, Change&& apply) noexcept {
  return set_option(options, "options", error,
                    [&](auto& settings) { quire::replace_parameter(setting, [&] { apply(settings); }); });
}

size_t quota_argument(int32_t quota) {
  return static_cast<size_t>(
      range_argument(quota, QUIRE_QUOTA_RUNNING_JOBS, QUIRE_QUOTA_PINNED_PAGES, "quota"));
}

// Returns the settings of a namespace; adds them if it has none.
NamespaceSettings& settings_of(CacheSettings& settings, std::string_view name) {
  const auto known = settings.namespaces.find(name);
  if (known != settings.namespaces.end()) return known->second;
  if (settings.namespaces.size() == CacheSettings::kMaxNamespaces) {
    throw quire::Error(quire::ErrorCode::invalid_argument,
                       "namespace: {} namespaces have their own settings, which is the limit; "
                       "use quire_cache_options_set_quota for the others",
                       CacheSettings::kMaxNamespaces)
        .at("namespace");
  }
  return settings.namespaces[std::string(name)];
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
  return set(options, "num_threads", error, [&](RuntimeSettings& settings) {
    settings.num_threads = range_argument(num_threads, 0, 1024, "num_threads");
  });
}

int32_t quire_runtime_options_set_device(quire_runtime_options* options, const char* text, size_t text_len,
                                         quire_error** error) {
  return set(options, "device", error,
             [&](RuntimeSettings& settings) { settings.device = c_text_argument(text, text_len, "device"); });
}

int32_t quire_runtime_options_set_stages(quire_runtime_options* options, const char* text, size_t text_len,
                                         quire_error** error) {
  return set(options, "stages", error,
             [&](RuntimeSettings& settings) { settings.stages = c_text_argument(text, text_len, "stages"); });
}

int32_t quire_runtime_options_set_stage_key_file(quire_runtime_options* options, const char* text,
                                                 size_t text_len, quire_error** error) {
  return set(options, "stage_key_file", error, [&](RuntimeSettings& settings) {
    settings.stage_key_file = c_text_argument(text, text_len, "stage_key_file");
  });
}

int32_t quire_runtime_options_set_stage_transport(quire_runtime_options* options, const char* text,
                                                  size_t text_len, quire_error** error) {
  return set(options, "stage_transport", error, [&](RuntimeSettings& settings) {
    settings.stage_transport = quire::parse_stage_transport(text_argument(text, text_len, "text"));
  });
}

int32_t quire_runtime_options_set_log_level(quire_runtime_options* options, int32_t level,
                                            quire_error** error) {
  return set(options, "log_level", error, [&](RuntimeSettings& settings) {
    settings.log_level = range_argument(level, QUIRE_LOG_OFF, QUIRE_LOG_DEBUG, "level");
  });
}

int32_t quire_runtime_options_set_log_sink(quire_runtime_options* options, quire_log_fn log_sink,
                                           void* user_data, quire_error** error) {
  return set(options, "log_sink", error, [&](RuntimeSettings& settings) {
    settings.log_sink = log_sink;
    settings.log_user_data = user_data;
  });
}

int32_t quire_runtime_options_set_memory_budget(quire_runtime_options* options, const char* text,
                                                size_t text_len, int64_t bytes, quire_error** error) {
  return set(options, "memory_budget", error, [&](RuntimeSettings& settings) {
    const std::string device(c_text_argument(text, text_len, "device"));
    settings.memory_budgets[device] = range_argument(bytes, int64_t{0}, kMaxInt64, "bytes");
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
  return set(options, "path", error,
             [&](ModelSettings& settings) { settings.path = c_text_argument(text, text_len, "path"); });
}

int32_t quire_model_options_set_device(quire_model_options* options, const char* text, size_t text_len,
                                       quire_error** error) {
  return set(options, "device", error,
             [&](ModelSettings& settings) { settings.device = c_text_argument(text, text_len, "device"); });
}

int32_t quire_model_options_set_split(quire_model_options* options, const char* text, size_t text_len,
                                      quire_error** error) {
  return set(options, "split", error, [&](ModelSettings& settings) {
    settings.split = quire::parse_split(text_argument(text, text_len));
  });
}

int32_t quire_model_options_set_host_experts(quire_model_options* options, const char* text, size_t text_len,
                                             quire_error** error) {
  return set(options, "host_experts", error, [&](ModelSettings& settings) {
    settings.host_experts = quire::parse_host_experts(text_argument(text, text_len));
  });
}

int32_t quire_model_options_set_reserve(quire_model_options* options, const char* text, size_t text_len,
                                        quire_error** error) {
  return set(options, "reserve", error, [&](ModelSettings& settings) {
    settings.reserve = quire::parse_reserve(text_argument(text, text_len));
  });
}

int32_t quire_model_options_set_planned_cache(quire_model_options* options, quire_cache_options* cache,
                                              quire_error** error) {
  return set(options, "planned_cache", error, [&](ModelSettings& settings) {
    settings.cache = cache == nullptr ? std::optional<CacheSettings>() : Pinned(cache, "cache")->read();
  });
}

int32_t quire_model_options_set_scope(quire_model_options* options, int32_t scope, quire_error** error) {
  return set(options, "scope", error, [&](ModelSettings& settings) {
    settings.scope = range_argument(scope, QUIRE_MODEL_SCOPE_FULL, QUIRE_MODEL_SCOPE_METADATA, "scope");
  });
}

int32_t quire_model_options_set_lazy(quire_model_options* options, int32_t lazy, quire_error** error) {
  return set(options, "lazy", error,
             [&](ModelSettings& settings) { settings.is_lazy = flag_argument(lazy, "lazy"); });
}

int32_t quire_model_options_set_progress(quire_model_options* options, quire_progress_fn progress,
                                         void* user_data, quire_error** error) {
  return set(options, "progress", error, [&](ModelSettings& settings) {
    settings.progress = {progress, user_data};
  });
}

int32_t quire_model_options_set_num_shards(quire_model_options* options, int32_t num_shards,
                                           quire_error** error) {
  return set(options, "num_shards", error, [&](ModelSettings& settings) {
    settings.num_shards = range_argument(num_shards, 1, 64, "num_shards");
  });
}

int32_t quire_model_options_set_activation_dtype(quire_model_options* options, int32_t activation_dtype,
                                                 quire_error** error) {
  return set(options, "activation_dtype", error, [&](ModelSettings& settings) {
    settings.activation_dtype =
        range_argument(activation_dtype, QUIRE_ACTIVATION_FULL, QUIRE_ACTIVATION_F8, "activation_dtype");
  });
}

int32_t quire_model_options_set_drafter(quire_model_options* options, const char* text, size_t text_len,
                                        quire_error** error) {
  return set(options, "drafter", error, [&](ModelSettings& settings) {
    const std::string_view drafter = c_text_argument(text, text_len, "drafter");
    settings.drafter = drafter.empty() ? "auto" : drafter;
  });
}

quire_cache_options* quire_cache_options_create(quire_error** error) {
  return create_options<quire_cache_options>(error);
}

int32_t quire_cache_options_free(quire_cache_options* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_cache_options_set_name(quire_cache_options* options, const char* text, size_t text_len,
                                     quire_error** error) {
  return set(options, "name", error, [&](CacheSettings& settings) {
    settings.name = short_text_argument(text, text_len, CacheSettings::kMaxNameBytes, "name");
  });
}

int32_t quire_cache_options_set_max_tokens(quire_cache_options* options, int64_t max_tokens,
                                           quire_error** error) {
  return set(options, "max_tokens", error, [&](CacheSettings& settings) {
    settings.max_tokens = range_argument(max_tokens, int64_t{0}, kMaxInt64, "max_tokens");
  });
}

int32_t quire_cache_options_set_min_tokens(quire_cache_options* options, int64_t min_tokens,
                                           quire_error** error) {
  return set(options, "min_tokens", error, [&](CacheSettings& settings) {
    settings.min_tokens = range_argument(min_tokens, int64_t{0}, kMaxInt64, "min_tokens");
  });
}

int32_t quire_cache_options_set_page_idle_ns(quire_cache_options* options, int64_t page_idle_ns,
                                             quire_error** error) {
  return set(options, "page_idle_ns", error, [&](CacheSettings& settings) {
    settings.page_idle = deadline_argument(page_idle_ns, "page_idle_ns");
  });
}

int32_t quire_cache_options_set_page_tokens(quire_cache_options* options, int32_t page_tokens,
                                            quire_error** error) {
  return set(options, "page_tokens", error, [&](CacheSettings& settings) {
    settings.page_tokens = range_argument(page_tokens, 1, 4096, "page_tokens");
  });
}

int32_t quire_cache_options_set_max_batch_size(quire_cache_options* options, int32_t max_batch_size,
                                               quire_error** error) {
  return set(options, "max_batch_size", error, [&](CacheSettings& settings) {
    settings.max_batch_size = range_argument(max_batch_size, 1, 4096, "max_batch_size");
  });
}

int32_t quire_cache_options_set_window_sequences(quire_cache_options* options, int32_t window_sequences,
                                                 quire_error** error) {
  return set(options, "window_sequences", error, [&](CacheSettings& settings) {
    settings.window_sequences = range_argument(window_sequences, 0, 4096, "window_sequences");
  });
}

int32_t quire_cache_options_set_max_chunk_tokens(quire_cache_options* options, int32_t max_chunk_tokens,
                                                 quire_error** error) {
  return set(options, "max_chunk_tokens", error, [&](CacheSettings& settings) {
    settings.max_chunk_tokens = range_argument(max_chunk_tokens, 1, 65536, "max_chunk_tokens");
  });
}

int32_t quire_cache_options_set_max_seq_len(quire_cache_options* options, int64_t max_seq_len,
                                            quire_error** error) {
  return set(options, "max_seq_len", error, [&](CacheSettings& settings) {
    settings.max_seq_len = range_argument(max_seq_len, int64_t{0}, kMaxInt64, "max_seq_len");
  });
}

int32_t quire_cache_options_set_max_queue(quire_cache_options* options, int32_t max_queue,
                                          quire_error** error) {
  return set(options, "max_queue", error, [&](CacheSettings& settings) {
    settings.max_queue = range_argument(max_queue, 1, 1'000'000, "max_queue");
  });
}

int32_t quire_cache_options_set_kv_format(quire_cache_options* options, int32_t kv_format,
                                          quire_error** error) {
  return set(options, "kv_format", error, [&](CacheSettings& settings) {
    settings.kv_format = range_argument(kv_format, QUIRE_KV_F16, QUIRE_KV_AUTO, "kv_format");
  });
}

int32_t quire_cache_options_set_drafter(quire_cache_options* options, int32_t drafter, quire_error** error) {
  return set(options, "drafter", error, [&](CacheSettings& settings) {
    settings.drafter = range_argument(drafter, QUIRE_DRAFTER_AUTO, QUIRE_DRAFTER_NETWORK, "drafter");
  });
}

int32_t quire_cache_options_set_max_drafts(quire_cache_options* options, int32_t max_drafts,
                                           quire_error** error) {
  return set(options, "max_drafts", error, [&](CacheSettings& settings) {
    settings.max_drafts = range_argument(max_drafts, 1, quire::kMaxDrafts, "max_drafts");
  });
}

int32_t quire_cache_options_set_quota(quire_cache_options* options, int32_t quota, int32_t limit,
                                      quire_error** error) {
  return set(options, "quota", error, [&](CacheSettings& settings) {
    settings.quotas[quota_argument(quota)] = range_argument(limit, 0, kMaxInt32, "limit");
  });
}

int32_t quire_cache_options_set_namespace_quota(quire_cache_options* options, const char* text,
                                                size_t text_len, int32_t quota, int32_t limit,
                                                quire_error** error) {
  return set(options, "namespace_quota", error, [&](CacheSettings& settings) {
    const size_t quota_idx = quota_argument(quota);
    range_argument(limit, 0, kMaxInt32, "limit");
    settings_of(settings, namespace_argument(text, text_len)).quotas[quota_idx] = limit;
  });
}

int32_t quire_cache_options_set_namespace_weight(quire_cache_options* options, const char* text,
                                                 size_t text_len, double weight, quire_error** error) {
  return set(options, "namespace_weight", error, [&](CacheSettings& settings) {
    weight_argument(weight);
    settings_of(settings, namespace_argument(text, text_len)).weight = weight;
  });
}

int32_t quire_cache_options_set_device_weight(quire_cache_options* options, double weight,
                                              quire_error** error) {
  return set(options, "device_weight", error,
             [&](CacheSettings& settings) { settings.device_weight = weight_argument(weight); });
}

int32_t quire_cache_options_set_step_stretch(quire_cache_options* options, double stretch,
                                             quire_error** error) {
  return set(options, "step_stretch", error, [&](CacheSettings& settings) {
    settings.step_stretch = stretch == 0.0 ? 0.0 : number_argument(stretch, 1.0, 1000.0, "stretch");
  });
}

int32_t quire_cache_options_set_card_expert_bytes(quire_cache_options* options, int64_t bytes,
                                                  quire_error** error) {
  return set(options, "card_expert_bytes", error, [&](CacheSettings& settings) {
    settings.card_expert_bytes = range_argument(bytes, int64_t{0}, kMaxInt64, "card_expert_bytes");
  });
}

int32_t quire_cache_options_set_prefix_bytes(quire_cache_options* options, int64_t bytes,
                                             quire_error** error) {
  return set(options, "prefix_bytes", error, [&](CacheSettings& settings) {
    settings.prefix_bytes = range_argument(bytes, int64_t{0}, kMaxInt64, "prefix_bytes");
  });
}

int32_t quire_cache_options_set_prefix_directory(quire_cache_options* options, const char* text,
                                                 size_t text_len, quire_error** error) {
  return set(options, "prefix_directory", error, [&](CacheSettings& settings) {
    settings.prefix_directory = c_text_argument(text, text_len, "prefix_directory");
  });
}

int32_t quire_cache_options_set_prefix_directory_bytes(quire_cache_options* options, int64_t bytes,
                                                       quire_error** error) {
  return set(options, "prefix_directory_bytes", error, [&](CacheSettings& settings) {
    settings.prefix_directory_bytes = range_argument(bytes, int64_t{0}, kMaxInt64, "prefix_directory_bytes");
  });
}

int32_t quire_cache_options_set_max_pinned_pages(quire_cache_options* options, int32_t max_pinned_pages,
                                                 quire_error** error) {
  return set(options, "max_pinned_pages", error, [&](CacheSettings& settings) {
    settings.max_pinned_pages = range_argument(max_pinned_pages, 0, kMaxInt32, "max_pinned_pages");
  });
}

int32_t quire_cache_options_set_max_overtakes(quire_cache_options* options, int32_t max_overtakes,
                                              quire_error** error) {
  return set(options, "max_overtakes", error, [&](CacheSettings& settings) {
    settings.max_overtakes = range_argument(max_overtakes, 0, kMaxInt32, "max_overtakes");
  });
}

int32_t quire_cache_options_set_ageing_ns(quire_cache_options* options, int64_t ageing_ns,
                                          quire_error** error) {
  return set(options, "ageing_ns", error,
             [&](CacheSettings& settings) { settings.ageing = deadline_argument(ageing_ns, "ageing_ns"); });
}

int32_t quire_cache_options_set_step_timeout_ns(quire_cache_options* options, int64_t step_timeout_ns,
                                                quire_error** error) {
  return set(options, "step_timeout_ns", error, [&](CacheSettings& settings) {
    settings.step_timeout = deadline_argument(step_timeout_ns, "step_timeout_ns");
  });
}

int32_t quire_cache_options_set_close_timeout_ns(quire_cache_options* options, int64_t close_timeout_ns,
                                                 quire_error** error) {
  return set(options, "close_timeout_ns", error, [&](CacheSettings& settings) {
    settings.close_timeout = deadline_argument(close_timeout_ns, "close_timeout_ns");
  });
}
