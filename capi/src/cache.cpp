#include <numeric>

#include <quire/cache.h>

#include "capi/src/arguments.h"
#include "capi/src/cache_object.h"
#include "capi/src/cache_settings.h"
#include "capi/src/callback_scope.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/queue_object.h"
#include "capi/src/read_request.h"
#include "capi/src/stats_object.h"
#include "core/base/checked_math.h"
#include "core/base/utf8.h"
#include "core/engine/events/page_followers.h"
#include "core/engine/model/precision.h"
#include "core/engine/requests/scoring.h"

using namespace quire::capi;

namespace {

quire::ModelCacheOptions cache_options(quire_cache_options* options) {
  return engine_options(options == nullptr ? CacheSettings{} : Pinned(options, "options")->read());
}

// Returns the bytes of a cache, computed like its allocation. A model without weights is planned for the
// device given in its options.
uint64_t required_bytes(const ModelShare& model, const quire::ModelCacheOptions& options) {
  const std::shared_ptr<quire::Device> device =
      model.model->is_loaded() ? model.model->transformer()->stages.front().device
                               : model.runtime->devices().open_all(model.device).front().device;
  const std::vector<uint64_t> of_shards = plan_model_cache(*model.model, options, *device);
  return std::accumulate(of_shards.begin(), of_shards.end(), uint64_t{0});
}

std::function<void(quire::NamespaceQuota&)> quota_change(int32_t quota, int32_t limit) {
  range_argument(quota, QUIRE_QUOTA_RUNNING_JOBS, QUIRE_QUOTA_PINNED_PAGES, "quota");
  range_argument(limit, 0, INT32_MAX, "limit");
  return [quota, limit](quire::NamespaceQuota& of) { limit_of(of, quota) = limit; };
}

int32_t follow_pages(const CacheShare& cache, quire_queue* queue, quire::PageFollowing following) {
  const Pinned pinned(queue, "queue");
  if (pinned->share.runtime != cache.model->runtime)
    throw quire::Error(
        quire::ErrorCode::invalid_argument,
        "queue: it belongs to another runtime than the cache; create it with the cache's runtime")
        .at("queue");
  following.queue = pinned->share.events;
  cache.cache->follow_pages(std::move(following));
  return 1;
}

// Calls `read` with the cache.
template <typename Result, typename Read>
Result get(quire_cache* cache, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(cache, "cache")->share); });
}

}  // namespace

quire_cache* quire_cache_create(quire_model* model, quire_cache_options* options, quire_error** error) {
  return guard(error, static_cast<quire_cache*>(nullptr), [&] {
    const std::shared_ptr<const ModelShare> share = Pinned(model, "model")->share;
    const quire::ModelCacheOptions settings = cache_options(options);
    refuse_in_callback("quire_cache_create");
    const MayWait may_wait;       // a cache whose handle cannot be created is closed here
    share->model->transformer();  // throws its own error for a model without weights
    CacheShare parts;
    parts.model = share;
    quire::CreatedCache created =
        create_cache_that_fits(share->runtime->runtime(), share->model, settings, share->resident);
    parts.cache = std::move(created.cache);
    parts.kv_format = kv_format_of(created.options);
    parts.name = options == nullptr ? std::string() : Pinned(options, "options")->read().name;
    const std::shared_ptr<const CacheShare> made = share_cache(std::move(parts));
    share->runtime->add_cache(made);
    return make_handle<quire_cache>(made);
  });
}

int32_t quire_cache_free(quire_cache* handle, quire_error** error) {
  const MayWait may_wait;
  return free_handle(handle, error, [](CacheObject&) { refuse_in_callback("quire_cache_free"); });
}

int32_t quire_cache_close(quire_cache* cache, int64_t timeout_ns, quire_cancel* cancel, quire_error** error) {
  return get(cache, error, QUIRE_WAIT_FAILED, [&](const CacheShare& of) {
    refuse_in_callback("quire_cache_close");
    return wait_result(of.cache->close(wait_argument(timeout_ns, cancel, "quire_cache_close")));
  });
}

int32_t quire_cache_set_quota(quire_cache* cache, int32_t quota, int32_t limit, quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    of.cache->change_quota(nullptr, quota_change(quota, limit));
    return 1;
  });
}

int32_t quire_cache_set_namespace_quota(quire_cache* cache, const char* text, size_t text_len, int32_t quota,
                                        int32_t limit, quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    const std::string name = namespace_argument(text, text_len);
    of.cache->change_quota(&name, quota_change(quota, limit));
    return 1;
  });
}

int32_t quire_cache_set_namespace_weight(quire_cache* cache, const char* text, size_t text_len, double weight,
                                         quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    const std::string name = namespace_argument(text, text_len);
    const double checked = weight_argument(weight);
    of.cache->change_quota(&name, [&](quire::NamespaceQuota& of_name) { of_name.weight = checked; });
    return 1;
  });
}

int32_t quire_cache_set_device_weight(quire_cache* cache, double weight, quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    of.cache->set_device_weight(weight_argument(weight));
    return 1;
  });
}

int64_t quire_cache_required_bytes(quire_model* model, quire_cache_options* options, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const std::shared_ptr<const ModelShare> share = Pinned(model, "model")->share;
    return static_cast<int64_t>(required_bytes(*share, cache_options(options)));
  });
}

int32_t quire_cache_kv_format(quire_cache* cache, quire_error** error) {
  return get(cache, error, -1, [](const CacheShare& of) { return of.kv_format; });
}

int64_t quire_cache_max_seq_len(quire_cache* cache, quire_error** error) {
  return get(cache, error, int64_t{-1},
             [](const CacheShare& of) { return int64_t{of.cache->max_seq_len()}; });
}

int32_t quire_cache_vocab_size(quire_cache* cache, quire_error** error) {
  return get(cache, error, -1, [](const CacheShare& of) { return of.cache->num_tokens(); });
}

quire_queue* quire_cache_create_queue(quire_cache* cache, quire_error** error) {
  return get(cache, error, static_cast<quire_queue*>(nullptr),
             [](const CacheShare& of) { return make_handle<quire_queue>(of.model->runtime); });
}

quire_stats* quire_cache_stats(quire_cache* cache, quire_error** error) {
  return get(cache, error, static_cast<quire_stats*>(nullptr), [](const CacheShare& of) {
    return make_handle<quire_stats>(std::make_shared<const CacheSnapshot>(
        CacheSnapshot{of.cache->metrics(), of.cache->limits().page_tokens}));
  });
}

int64_t quire_cache_metrics(quire_cache* cache, const char* text, size_t text_len, char* out_text,
                            size_t out_capacity, quire_error** error) {
  return get(cache, error, int64_t{-1}, [&](const CacheShare& of) {
    const std::string label(text_argument(text, text_len));
    quire::with_parameter("text", [&] { quire::require_utf8(label, "text"); });
    return write_text(of.cache->metrics_text(label), out_text, out_capacity);
  });
}

int64_t quire_cache_query(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                          quire_cancel* cancel, quire_error** error) {
  return get(cache, error, int64_t{-1}, [&](const CacheShare& of) {
    const quire::JobRequest job = read_request(request, of, Counts::prompt_alone);
    refuse_in_callback("quire_cache_query");
    return int64_t{of.cache->query_prefix(job.prompt, job.name_space,
                                          wait_argument(timeout_ns, cancel, "quire_cache_query"))};
  });
}

int64_t quire_cache_pin(quire_cache* cache, quire_job_request* request, int64_t time_to_live_ns,
                        int64_t timeout_ns, quire_cancel* cancel, quire_error** error) {
  return get(cache, error, int64_t{-1}, [&](const CacheShare& of) {
    const quire::JobRequest job = read_request(request, of, Counts::prompt_alone);
    refuse_in_callback("quire_cache_pin");
    const quire::PinId pin = of.cache->pin_prefix(job.prompt, job.name_space,
                                                  deadline_argument(time_to_live_ns, "time_to_live_ns"),
                                                  wait_argument(timeout_ns, cancel, "quire_cache_pin"));
    return static_cast<int64_t>(pin.value);
  });
}

int32_t quire_cache_unpin(quire_cache* cache, int64_t pin, quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    of.cache->unpin(quire::PinId{static_cast<uint64_t>(range_argument(pin, int64_t{1}, INT64_MAX, "pin"))});
    return 1;
  });
}

int32_t quire_cache_follow_pages(quire_cache* cache, quire_queue* queue, uint64_t user_data,
                                 quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    return follow_pages(of, queue, {nullptr, std::nullopt, user_data});
  });
}

int32_t quire_cache_follow_namespace_pages(quire_cache* cache, const char* text, size_t text_len,
                                           quire_queue* queue, uint64_t user_data, quire_error** error) {
  return get(cache, error, 0, [&](const CacheShare& of) {
    return follow_pages(of, queue, {nullptr, namespace_argument(text, text_len), user_data});
  });
}

int64_t quire_cache_score(quire_cache* cache, quire_job_request* request, int64_t window_tokens,
                          int64_t timeout_ns, quire_cancel* cancel, float* out_values, size_t out_capacity,
                          quire_error** error) {
  return get(cache, error, int64_t{-1}, [&](const CacheShare& of) {
    range_argument(window_tokens, int64_t{0}, INT64_MAX, "window_tokens");
    const OutArgument<float> out(out_values, out_capacity, "out_values");
    const quire::Wait wait{timeout_argument(timeout_ns), cancel_argument(cancel)};
    const quire::JobRequest job = read_request(request, of, Counts::score);
    const size_t num_tokens = job.prompt.size();
    if (!out.fits(num_tokens) || num_tokens == 0) return static_cast<int64_t>(num_tokens);
    refuse_in_callback("quire_cache_score");
    const quire::ScoreCall call{*of.cache, job, wait};
    const size_t window = window_tokens == 0 ? num_tokens : static_cast<size_t>(window_tokens);
    std::vector<float> scores(num_tokens);
    quire::score_windows(call, window, scores);
    return out.write(scores);
  });
}

int64_t quire_cache_logits(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                           quire_cancel* cancel, float* out_values, size_t out_capacity,
                           quire_error** error) {
  return get(cache, error, int64_t{-1}, [&](const CacheShare& of) {
    const OutArgument<float> out(out_values, out_capacity, "out_values");
    const quire::Wait wait{timeout_argument(timeout_ns), cancel_argument(cancel)};
    const quire::JobRequest job = read_request(request, of, Counts::score);
    const size_t size =
        quire::checked_mul(job.prompt.size(), static_cast<size_t>(of.cache->num_tokens()), "prompt");
    if (!out.fits(size) || size == 0) return static_cast<int64_t>(size);
    refuse_in_callback("quire_cache_logits");
    const quire::ScoreCall call{*of.cache, job, wait};
    int64_t written = 0;
    quire::score_logits(call, [&](gsl::span<const float> logits) { written = out.write(logits); });
    return written;
  });
}
