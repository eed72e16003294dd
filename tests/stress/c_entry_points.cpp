// The functions of the C interface as calls on the handles of a CWorld. tests/guards/interleaved_entries.py
// checks that every function that takes a handle is listed. Long file: one call of every function.
#include <array>
#include <string_view>

#include <quire/experimental.h>

#include "tests/stress/c_request_entries.h"

namespace quire::testing {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// Runs a job created by a call to its end.
void run_job(const CWorld& w, OwnedJob job) {
  if (!job) return;
  const Collected said = collect(job.get());
  const int32_t num_last = (w.effects & kTakesEvents) != 0 ? said.num_last_events : 1;
  EXPECT_EQ(said.num_last_events, num_last);
  EXPECT_NE(quire_job_finish_reason(job.get(), nullptr), QUIRE_FINISH_NONE);
}

void take(CWorld& w, quire_event* event) {
  if (const OwnedEvent taken{event}) w.note(taken.get());
}

// Runtime.

void read_runtime(CWorld& w, const Calls& call) {
  call(quire_runtime_num_devices, w.runtime);
  call(quire_runtime_device_name, w.runtime, 0, nullptr, 0);
  call(quire_runtime_device_description, w.runtime, 0, nullptr, 0);
  call(quire_runtime_device_refusal, w.runtime, 0, nullptr, 0);
  call(quire_runtime_device_memory_bytes, w.runtime, 0);
  call(quire_runtime_device_free_bytes, w.runtime, 0);
}
void create_runtime(CWorld& w, const Calls& call) {
  const OwnedRuntime made(call(quire_runtime_create, w.runtime_options));
}
void free_runtime(CWorld& w, const Calls& call) {
  call(quire_runtime_free, w.runtime);
}
void set_runtime_options(CWorld& w, const Calls& call) {
  call(quire_runtime_options_set_num_threads, w.runtime_options, 1);
  call(quire_runtime_options_set_device, w.runtime_options, "cpu", 3);
  call(quire_runtime_options_set_stages, w.runtime_options, nullptr, 0);
  call(quire_runtime_options_set_stage_key_file, w.runtime_options, nullptr, 0);
  call(quire_runtime_options_set_stage_transport, w.runtime_options, "tcp", 3);
  call(quire_runtime_options_set_log_level, w.runtime_options, QUIRE_LOG_ERROR);
  call(quire_runtime_options_set_log_sink, w.runtime_options, nullptr, nullptr);
  call(quire_runtime_options_set_memory_budget, w.runtime_options, "cpu", 3, int64_t{1} << 40);
}
void free_runtime_options(CWorld& w, const Calls& call) {
  call(quire_runtime_options_free, w.runtime_options);
}

// Model.

void load_tokenizer(CWorld& w, const Calls& call) {
  const OwnedModel made(call(quire_model_load, w.runtime, w.model_options, kMinute, w.cancel));
}
void plan_model(CWorld& w, const Calls& call) {
  quire_plan* const plan = call(quire_plan_create, w.runtime, w.model_options, w.cache_options);
  if (plan == nullptr) return;
  for (auto* get :
       {quire_plan_total_bytes, quire_plan_embedding_bytes, quire_plan_layer_bytes, quire_plan_head_bytes,
        quire_plan_drafter_bytes, quire_plan_kv_bytes, quire_plan_workspace_bytes, quire_plan_staging_bytes})
    call(get, plan);
  for (auto* get :
       {quire_plan_device_total_bytes, quire_plan_device_embedding_bytes, quire_plan_device_layer_bytes,
        quire_plan_device_head_bytes, quire_plan_device_drafter_bytes, quire_plan_device_kv_bytes,
        quire_plan_device_workspace_bytes, quire_plan_device_staging_bytes, quire_plan_device_usable_bytes,
        quire_plan_device_step_bytes, quire_plan_bytes_of_layer, quire_plan_cache_group_bytes}) {
    call(get, plan, 0);
  }
  for (auto* get :
       {quire_plan_num_devices, quire_plan_num_layers, quire_plan_num_cache_groups, quire_plan_kv_format})
    call(get, plan);
  for (auto* get : {quire_plan_device_num_layers, quire_plan_device_num_host_experts, quire_plan_layer_device,
                    quire_plan_layer_experts_device, quire_plan_cache_group_window,
                    quire_plan_cache_group_num_pages, quire_plan_cache_group_num_layers})
    call(get, plan, 0);
  call(quire_plan_device_name, plan, 0, nullptr, 0);
  for (auto* get : {quire_plan_model_path, quire_plan_drafter}) call(get, plan, nullptr, 0);
  call(quire_plan_free, plan);
}
void change_limits(CWorld& w, const Calls& call) {
  call(quire_cache_options_set_name, w.cache_options, "c", 1);
  call(quire_cache_set_quota, w.cache, QUIRE_QUOTA_PINNED_PAGES, 0);
  call(quire_cache_set_namespace_quota, w.cache, "n", 1, QUIRE_QUOTA_PINNED_PAGES, 0);
  call(quire_cache_set_namespace_weight, w.cache, "n", 1, 2.0);
  call(quire_cache_set_device_weight, w.cache, 2.0);
  call(quire_runtime_set_memory_budget, w.runtime, "cpu", 3, 0);
  call(quire_runtime_metrics, w.runtime, nullptr, 0);
}
void tell_costs(CWorld& w, const Calls& call) {
  call(quire_model_step_bytes, w.model, 8);
  for (auto* get : {quire_model_token_ops, quire_model_logit_ops}) call(get, w.model);
}
void draft_logits(CWorld& w, const Calls& call) {
  call(quire_model_drafter_vocab_size, w.model);
  call(quire_model_drafter_logits, w.model, kTokens.data(), kTokens.size(), kMinute, w.cancel, nullptr, 0);
}
void tell_job_more(CWorld& w, const Calls& call) {
  call(quire_job_seed, w.job);
  for (auto* get : {quire_job_draft_tokens, quire_job_accepted_draft_tokens}) call(get, w.job);
  call(quire_job_accepted_by_position, w.job, nullptr, 0);
  quire_event* event = nullptr;
  call(quire_job_drain, w.job, 0, nullptr, &event, 1);
  take(w, event);
}
void tell_last_event(CWorld& w, const Calls& call) {
  for (auto* get : {quire_event_index, quire_event_log_level, quire_event_stop_token, quire_event_page_change,
                    quire_event_page_medium})
    call(get, w.event);
  for (auto* get :
       {quire_event_first_token, quire_event_kept_tokens, quire_event_kept_bytes, quire_event_lost_lines,
        quire_event_page_number, quire_event_prompt_tokens, quire_event_cached_tokens, quire_event_new_tokens,
        quire_event_draft_tokens, quire_event_accepted_draft_tokens, quire_event_preemptions,
        quire_event_time_queued_ns, quire_event_time_prompt_ns, quire_event_time_generate_ns}) {
    call(get, w.event);
  }
  call(quire_event_accepted_by_position, w.event, nullptr, 0);
  for (auto* get : {quire_event_page_hash, quire_event_page_parent}) call(get, w.event);
  for (auto* get : {quire_event_stop_text, quire_event_page_namespace}) call(get, w.event, nullptr);
}
void follow_queue(CWorld& w, const Calls& call) {
  const OwnedQueue made(call(quire_cache_create_queue, w.cache));
  if (!made) return;
  call(quire_queue_set_log_level, made.get(), QUIRE_LOG_ERROR);
  call(quire_cache_follow_pages, w.cache, made.get(), 1);
  call(quire_cache_follow_namespace_pages, w.cache, "n", 1, made.get(), 2);
  int64_t id = 0;
  call(quire_queue_ready, made.get(), 0, nullptr, &id, 1);
}
// Uses a request of its own, because other calls use the prompt of the common request.
void make_prompt_of_parts(CWorld& /*w*/, const Calls& call) {
  const OwnedRequest request(quire_job_request_create(nullptr));
  call(quire_job_request_clear_prompt, request.get());
  call(quire_job_request_add_prompt_text, request.get(), "a", 1);
  call(quire_job_request_add_prompt_tokens, request.get(), kTokens.data(), kTokens.size());
  call(quire_job_request_add_prompt_special, request.get(), "a", 1);
  call(quire_job_request_set_prompt_text, request.get(), "abc", 3);
  call(quire_job_request_set_random_seed, request.get(), 0);
  call(quire_job_request_set_json_order, request.get(), QUIRE_JSON_ORDER_ANY);
  call(quire_job_request_set_json_closed, request.get(), 0);
  call(quire_job_request_set_json_plain_integers, request.get(), 0);
  call(quire_job_request_set_json_space, request.get(), QUIRE_JSON_SPACE_COMPACT);
  call(quire_job_request_set_logit_biases, request.get(), kTokens.data(), kTokens.size(), 0.5);
  call(quire_job_request_clear_logit_biases, request.get());
  call(quire_job_request_set_user_data_step, request.get(), uint64_t{0});
}
void free_model(CWorld& w, const Calls& call) {
  call(quire_model_free, w.model);
}
void set_model_options(CWorld& w, const Calls& call) {
  const std::string& path = tiny_model_path();
  call(quire_model_options_set_path, w.model_options, path.data(), path.size());
  call(quire_model_options_set_device, w.model_options, "cpu", 3);
  call(quire_model_options_set_split, w.model_options, "auto", 4);
  call(quire_model_options_set_reserve, w.model_options, "1M", 2);
  call(quire_model_options_set_planned_cache, w.model_options, w.cache_options);
  call(quire_model_options_set_scope, w.model_options, QUIRE_MODEL_SCOPE_TOKENIZER);
  call(quire_model_options_set_lazy, w.model_options, 1);
  call(quire_model_options_set_progress, w.model_options, nullptr, nullptr);
  call(quire_model_options_set_num_shards, w.model_options, 1);
  call(quire_model_options_set_activation_dtype, w.model_options, QUIRE_ACTIVATION_FULL);
  call(quire_model_options_set_drafter, w.model_options, "none", 4);
  call(quire_model_options_set_host_experts, w.model_options, "none", 4);
}
void free_model_options(CWorld& w, const Calls& call) {
  call(quire_model_options_free, w.model_options);
}
void tokenize(CWorld& w, const Calls& call) {
  call(quire_model_encode, w.model, "abc", 3, 1, 0, nullptr, 0);
  call(quire_model_decode, w.model, kTokens.data(), kTokens.size(), 1, nullptr, 0);
  call(quire_model_token_bytes, w.model, 70, nullptr, 0);
  call(quire_model_find_token, w.model, "a", 1);
  call(quire_model_is_special, w.model, 1);
  call(quire_model_special_token, w.model, QUIRE_TOKEN_BOS);
  call(quire_model_eos_tokens, w.model, nullptr, 0);
  call(quire_model_tokenizer_size, w.model);
}
void tell_model(CWorld& w, const Calls& call) {
  for (auto* get :
       {quire_model_vocab_size, quire_model_num_layers, quire_model_hidden_size, quire_model_num_heads,
        quire_model_num_kv_heads, quire_model_num_tensors, quire_model_num_shards}) {
    call(get, w.model);
  }
  for (auto* get : {quire_model_max_context, quire_model_weight_bytes, quire_model_drafter_bytes}) {
    call(get, w.model);
  }
  call(quire_model_bits_per_weight, w.model);
  call(quire_model_shard_weight_bytes, w.model, 0);
  call(quire_model_state, w.model);
  call(quire_model_wake, w.model, 0, w.cancel);
  call(quire_model_evict, w.model, QUIRE_MODEL_STATE_STANDING_BY, 0, w.cancel);
  call(quire_model_set_priority, w.model, 1);
  call(quire_model_set_idle_timeout_ns, w.model, 0);
  call(quire_model_figure, w.model, QUIRE_MODEL_FIGURE_WAKES);
  call(quire_model_architecture, w.model, nullptr, 0);
  call(quire_model_drafter, w.model, nullptr, 0);
  call(quire_model_path, w.model, nullptr, 0);
  call(quire_model_tensor_name, w.model, 0, nullptr, 0);
  call(quire_model_tensor_format, w.model, 0, nullptr, 0);
  call(quire_model_tensor_shape, w.model, 0, nullptr, 0);
  call(quire_model_tensor_bytes, w.model, 0);
  call(quire_model_tensor_layer, w.model, 0);
}

// Cache.

void create_cache(CWorld& w, const Calls& call) {
  call(quire_cache_required_bytes, w.model, w.cache_options);
  const OwnedCache made(call(quire_cache_create, w.model, w.cache_options));
}
void free_cache(CWorld& w, const Calls& call) {
  call(quire_cache_free, w.cache);
}
void close_cache(CWorld& w, const Calls& call) {
  call(quire_cache_close, w.cache, kMinute, nullptr);
}
void set_cache_options(CWorld& w, const Calls& call) {
  call(quire_cache_options_set_max_tokens, w.cache_options, 512);
  call(quire_cache_options_set_min_tokens, w.cache_options, 256);
  call(quire_cache_options_set_page_idle_ns, w.cache_options, 1000000000);
  call(quire_cache_options_set_page_tokens, w.cache_options, 8);
  call(quire_cache_options_set_max_batch_size, w.cache_options, 3);
  call(quire_cache_options_set_window_sequences, w.cache_options, 2);
  call(quire_cache_options_set_max_chunk_tokens, w.cache_options, 8);
  call(quire_cache_options_set_max_seq_len, w.cache_options, 64);
  call(quire_cache_options_set_max_queue, w.cache_options, 7);
  call(quire_cache_options_set_kv_format, w.cache_options, QUIRE_KV_F16);
  call(quire_cache_options_set_quota, w.cache_options, QUIRE_QUOTA_RUNNING_JOBS, 3);
  call(quire_cache_options_set_namespace_quota, w.cache_options, "n", 1, QUIRE_QUOTA_PAGES, 40);
  call(quire_cache_options_set_namespace_weight, w.cache_options, "n", 1, 2.0);
  call(quire_cache_options_set_device_weight, w.cache_options, 2.0);
  call(quire_cache_options_set_step_stretch, w.cache_options, 3.0);
  call(quire_cache_options_set_drafter, w.cache_options, QUIRE_DRAFTER_NGRAM);
  call(quire_cache_options_set_max_drafts, w.cache_options, 3);
  call(quire_cache_options_set_card_expert_bytes, w.cache_options, 4096);
  call(quire_cache_options_set_prefix_bytes, w.cache_options, 4096);
  call(quire_cache_options_set_prefix_directory, w.cache_options, "", 0);
  call(quire_cache_options_set_prefix_directory_bytes, w.cache_options, 4096);
  call(quire_cache_options_set_max_pinned_pages, w.cache_options, 8);
  call(quire_cache_options_set_max_overtakes, w.cache_options, 2);
  call(quire_cache_options_set_ageing_ns, w.cache_options, kMinute);
  call(quire_cache_options_set_step_timeout_ns, w.cache_options, kMinute);
  call(quire_cache_options_set_close_timeout_ns, w.cache_options, kMinute);
}
void free_cache_options(CWorld& w, const Calls& call) {
  call(quire_cache_options_free, w.cache_options);
}
void tell_cache(CWorld& w, const Calls& call) {
  call(quire_cache_kv_format, w.cache);
  call(quire_cache_max_seq_len, w.cache);
  call(quire_cache_vocab_size, w.cache);
  call(quire_cache_metrics, w.cache, "c", 1, nullptr, 0);
}
void query_prefix(CWorld& w, const Calls& call) {
  call(quire_cache_query, w.cache, w.request, kMinute, w.cancel);
}
void pin_and_unpin(CWorld& w, const Calls& call) {
  const int64_t pin = call(quire_cache_pin, w.cache, w.request, 0, kMinute, nullptr);
  if (pin > 0) call(quire_cache_unpin, w.cache, pin);
}
OwnedRequest scored_prompt() {
  OwnedRequest request(quire_job_request_create(nullptr));
  quire_job_request_set_prompt_tokens(request.get(), kTokens.data(), kTokens.size(), nullptr);
  return request;
}
void score(CWorld& w, const Calls& call) {
  std::array<float, kTokens.size()> scores{};
  call(quire_cache_score, w.cache, scored_prompt().get(), 0, kMinute, w.cancel, scores.data(), scores.size());
}
void logits(CWorld& w, const Calls& call) {
  std::vector<float> rows(2 * 160);
  call(quire_cache_logits, w.cache, scored_prompt().get(), kMinute, w.cancel, rows.data(), rows.size());
}

// Statistics.

void take_stats(CWorld& w, const Calls& call) {
  const OwnedStats made(call(quire_cache_stats, w.cache));
}
void read_stats(CWorld& w, const Calls& call) {
  for (auto* get :
       {quire_stats_page_tokens,    quire_stats_pages_total,        quire_stats_pages_free,
        quire_stats_pages_cached,   quire_stats_pages_referenced,   quire_stats_pages_pinned,
        quire_stats_pages_evicted,  quire_stats_pages_deduplicated, quire_stats_jobs_queued,
        quire_stats_jobs_running,   quire_stats_jobs_submitted,     quire_stats_jobs_finished,
        quire_stats_jobs_failed,    quire_stats_jobs_cancelled,     quire_stats_preemptions,
        quire_stats_steps,          quire_stats_prompt_tokens,      quire_stats_cached_tokens,
        quire_stats_new_tokens,     quire_stats_draft_tokens,       quire_stats_accepted_draft_tokens,
        quire_stats_num_namespaces, quire_stats_device_bytes}) {
    call(get, w.stats);
  }
  for (auto* get :
       {quire_stats_prefix_host_pages, quire_stats_prefix_host_bytes, quire_stats_prefix_file_pages,
        quire_stats_prefix_file_bytes, quire_stats_prefix_pages_restored, quire_stats_prefix_files_refused,
        quire_stats_card_expert_hits, quire_stats_card_expert_misses}) {
    call(get, w.stats);
  }
  call(quire_stats_accepted_by_position, w.stats, nullptr, 0);
  call(quire_stats_num_shards, w.stats);
  call(quire_stats_shard_device_bytes, w.stats, 0);
  call(quire_stats_histogram_count, w.stats, QUIRE_HISTOGRAM_TIME_QUEUED);
  call(quire_stats_histogram_sum, w.stats, QUIRE_HISTOGRAM_TIME_QUEUED);
  call(quire_stats_histogram_quantile, w.stats, QUIRE_HISTOGRAM_TIME_QUEUED, 0.5);
}
void free_stats(CWorld& w, const Calls& call) {
  call(quire_stats_free, w.stats);
}
// Uses a snapshot of its own, because the common one may be older than the first namespace.
void split_stats(CWorld& w, const Calls& call) {
  const OwnedStats made(call(quire_cache_stats, w.cache));
  if (!made || quire_stats_num_namespaces(made.get(), nullptr) == 0) return;
  call(quire_stats_namespace_name, made.get(), 0, nullptr, 0);
  const OwnedStats part(call(quire_stats_namespace, made.get(), 0));
}

// Job.

void submit(CWorld& w, const Calls& call) {
  run_job(w, OwnedJob(call(quire_job_submit, w.cache, w.request)));
}
void submit_and_free(CWorld& w, const Calls& call) {
  const OwnedJob made(call(quire_job_submit, w.cache, w.request));
}
void submit_many(CWorld& w, const Calls& call) {
  std::array<quire_job*, 3> jobs{};
  if (call(quire_job_submit_many, w.cache, w.request, jobs.data(), jobs.size()) == 0) return;
  for (quire_job* const job : jobs) run_job(w, OwnedJob(job));
}
void fork_job(CWorld& w, const Calls& call) {
  const OwnedRequest as_parent(quire_job_request_create(nullptr));
  run_job(w, OwnedJob(call(quire_job_fork, w.job, as_parent.get())));
}
void poll_job(CWorld& w, const Calls& call) {
  for (int32_t i = 0; i < 4; ++i) {
    quire_event* event = nullptr;
    call(quire_job_poll, w.job, 0, nullptr, &event);
    take(w, event);
  }
}
// Stops if no event arrives for a while: the other call may pause the job again.
void poll_job_to_the_end(CWorld& w, const Calls& call) {
  call(quire_job_resume, w.job);
  quire_event* event = nullptr;
  while (call(quire_job_poll, w.job, kMillisecond, w.cancel, &event) == 1) take(w, event);
}
void wait_for_job(CWorld& w, const Calls& call) {
  call(quire_job_wait, w.job, kMillisecond / 20, nullptr);
}
void cancel_job(CWorld& w, const Calls& call) {
  call(quire_job_cancel, w.job);
}
void pause_job(CWorld& w, const Calls& call) {
  call(quire_job_pause, w.job);
}
void resume_job(CWorld& w, const Calls& call) {
  call(quire_job_resume, w.job);
}
void change_priority(CWorld& w, const Calls& call) {
  call(quire_job_set_priority, w.job, 2);
}
void rewind_job(CWorld& w, const Calls& call) {
  call(quire_job_rewind, w.job, 1);
}
void tell_job(CWorld& w, const Calls& call) {
  for (auto* get : {quire_job_state, quire_job_finish_reason, quire_job_stop_token, quire_job_error_code}) {
    call(get, w.job);
  }
  for (auto* get : {quire_job_id, quire_job_prompt_tokens, quire_job_cached_tokens, quire_job_new_tokens,
                    quire_job_preemptions, quire_job_time_queued_ns, quire_job_time_prompt_ns,
                    quire_job_time_generate_ns}) {
    call(get, w.job);
  }
  for (auto* get : {quire_job_scores, quire_job_raw_logits, quire_job_embedding})
    call(get, w.job, nullptr, 0);
  call(quire_job_stop_text, w.job, nullptr, 0);
  call(quire_job_explain, w.job, nullptr, 0);
}
void free_job(CWorld& w, const Calls& call) {
  call(quire_job_free, w.job);
}

// Queue.

void create_queue(CWorld& w, const Calls& call) {
  const OwnedQueue made(call(quire_queue_create, w.runtime));
}
void poll_queue(CWorld& w, const Calls& call) {
  for (int32_t i = 0; i < 2; ++i) {
    quire_event* event = nullptr;
    call(quire_queue_poll, w.queue, 0, nullptr, &event);
    take(w, event);
  }
  std::array<quire_event*, 4> events{};
  const int64_t count = call(quire_queue_drain, w.queue, 0, nullptr, events.data(), events.size());
  for (int64_t i = 0; i < count; ++i) take(w, events[static_cast<size_t>(i)]);
}
void wait_in_queue(CWorld& w, const Calls& call) {
  quire_event* event = nullptr;
  call(quire_queue_poll, w.queue, kMillisecond, w.cancel, &event);
  take(w, event);
}
void tell_queue(CWorld& w, const Calls& call) {
  call(quire_queue_fd, w.queue);
}
void close_queue(CWorld& w, const Calls& call) {
  call(quire_queue_close, w.queue);
}
void free_queue(CWorld& w, const Calls& call) {
  call(quire_queue_free, w.queue);
}

// Event; its texts are borrowed, so they are not read here.

void read_event(CWorld& w, const Calls& call) {
  for (auto* get : {quire_event_type, quire_event_finish_reason, quire_event_error_code}) call(get, w.event);
  for (auto* get : {quire_event_job_id, quire_event_progress_done, quire_event_progress_total})
    call(get, w.event);
  call(quire_event_user_data, w.event);
  call(quire_event_response_kind, w.event);
  call(quire_event_call_index, w.event);
  for (auto* get : {quire_event_text, quire_event_response_text, quire_event_call_name, quire_event_call_id})
    call(get, w.event, nullptr);
  call(quire_event_error_message, w.event, nullptr);
  call(quire_event_error_parameter, w.event, nullptr);
  for (auto* get : {quire_event_tokens, quire_event_top_tokens}) call(get, w.event, nullptr, 0);
  for (auto* get : {quire_event_log_probs, quire_event_top_log_probs}) call(get, w.event, nullptr, 0);
}
void free_event(CWorld& w, const Calls& call) {
  call(quire_event_free, w.event);
}

// Cancel, constraint and error.
//
// Chat templates.

constexpr std::string_view kConversation = R"({"messages": [{"role": "user", "content": "hi"}]})";

void set_chat(CWorld& w, const Calls& call) {
  call(quire_chat_template_choose, w.chat, "default", 7);
  call(quire_chat_template_set_token, w.chat, QUIRE_TOKEN_BOS, "<s>", 3);
  call(quire_chat_template_set_now, w.chat, "2025-07-26", 10);
  call(quire_chat_template_set_adapts_history, w.chat, 1);
}
void render_chat(CWorld& w, const Calls& call) {
  call(quire_chat_template_render, w.chat, kConversation.data(), kConversation.size(), nullptr, 0);
  call(quire_chat_template_changes, w.chat, kConversation.data(), kConversation.size(), nullptr, 0);
  call(quire_chat_template_segments, w.chat, kConversation.data(), kConversation.size(), nullptr, 0);
  call(quire_chat_template_tokens, w.chat, w.model, kConversation.data(), kConversation.size(), nullptr, 0);
  call(quire_chat_template_hash, w.chat, nullptr, 0);
}
void begin_response(CWorld& w, const Calls& call) {
  call(quire_response_detect, w.chat, w.model, nullptr, size_t{0});
  constexpr std::string_view kRules = R"({"dialect": "hermes"})";
  const OwnedConstraint constraint(
      call(quire_response_constraint_create, w.model, kRules.data(), kRules.size()));
  const OwnedResponseParser own(call(quire_response_parser_create, "hermes", size_t{6}));
  call(quire_response_parser_set_tools, own.get(), "[]", size_t{2});
  call(quire_response_parser_set_reasoning, own.get(), int32_t{QUIRE_REASONING_OPEN});
  call(quire_response_parser_set_prompt, own.get(), "<think>", size_t{7});
}
// The common parser has started and provides an event, and has more events left than two calls can consume.
void feed_response(CWorld& w, const Calls& call) {
  call(quire_response_parser_feed, w.parser, kAnswer.data(), kAnswer.size());
}
void read_response(CWorld& w, const Calls& call) {
  call(quire_response_parser_next, w.parser);
  call(quire_response_parser_kind, w.parser);
  call(quire_response_parser_call_index, w.parser);
  call(quire_response_parser_text, w.parser, nullptr, size_t{0});
  call(quire_response_parser_raw, w.parser, nullptr, size_t{0});
  call(quire_response_parser_name, w.parser, nullptr, size_t{0});
  call(quire_response_parser_id, w.parser, nullptr, size_t{0});
}
void finish_response(CWorld& w, const Calls& call) {
  call(quire_response_parser_finish, w.parser);
}
void free_chat(CWorld& w, const Calls& call) {
  call(quire_chat_template_free, w.chat);
  call(quire_response_parser_free, w.parser);
}

// Aliases.

void create_alias(CWorld& w, const Calls& call) {
  const OwnedAlias made(call(quire_alias_create, w.runtime, "b", size_t{1}));
}
void set_alias(CWorld& w, const Calls& call) {
  call(quire_alias_set_cache, w.alias, w.cache);
  call(quire_alias_add_fallback, w.alias, w.cache);
  call(quire_alias_clear_fallbacks, w.alias);
}
void submit_to_alias(CWorld& w, const Calls& call) {
  run_job(w, OwnedJob(call(quire_alias_submit, w.alias, w.request)));
}
void tell_alias(CWorld& w, const Calls& call) {
  call(quire_alias_reason, w.alias, nullptr, size_t{0});
  call(quire_alias_num_swaps, w.alias);
  call(quire_alias_num_fallbacks, w.alias);
}
void free_alias(CWorld& w, const Calls& call) {
  call(quire_alias_free, w.alias);
}

// Cancel and error.

void trigger(CWorld& w, const Calls& call) {
  call(quire_cancel_is_triggered, w.cancel);
  call(quire_cancel_trigger, w.cancel);
}
void free_cancel(CWorld& w, const Calls& call) {
  call(quire_cancel_free, w.cancel);
}
void create_constraint(CWorld& w, const Calls& call) {
  const OwnedConstraint made(
      call(quire_constraint_create, w.model, QUIRE_CONSTRAINT_CHOICE, "[\"a\", \"b\"]", size_t{10}));
}
void create_matcher(CWorld& w, const Calls& call) {
  const OwnedMatcher made(call(quire_matcher_create, w.constraint));
}
void follow_text(CWorld& w, const Calls& call) {
  call(quire_matcher_accept, w.matcher, kTokens[0]);
  call(quire_matcher_mask, w.matcher, nullptr, size_t{0});
  call(quire_matcher_may_end, w.matcher);
  call(quire_matcher_forced_text, w.matcher, nullptr, size_t{0});
  call(quire_matcher_rollback, w.matcher, int64_t{0});
}
void free_constraint(CWorld& w, const Calls& call) {
  call(quire_constraint_free, w.constraint);
}
void free_matcher(CWorld& w, const Calls& call) {
  call(quire_matcher_free, w.matcher);
}
void tell_error(CWorld& w, const Calls&) {
  quire_error_code(w.error);
  quire_error_message(w.error, nullptr);
  quire_error_parameter(w.error, nullptr);
}
void free_error(CWorld& w, const Calls&) {
  quire_error_free(w.error);
}

void diagnose(CWorld&, const Calls& call) {
  call(quire_diagnose, QUIRE_DIAGNOSE_JSON, nullptr, 0);
}

}  // namespace

const std::vector<CEntryPoint>& c_entry_points() {
  static const std::vector<CEntryPoint> entries = {
      {"tell runtime", 0, read_runtime},
      {"create runtime", 0, create_runtime},
      {"free runtime", kFrees | kOwnRoots, free_runtime},
      {"set runtime options", 0, set_runtime_options},
      {"free runtime options", kFrees, free_runtime_options},
      {"load tokenizer", 0, load_tokenizer},
      {"plan model", 0, plan_model},
      {"free model", kFrees | kOwnRoots, free_model},
      {"set model options", 0, set_model_options},
      {"free model options", kFrees, free_model_options},
      {"tokenize", 0, tokenize},
      {"tell model", 0, tell_model},
      {"create cache", 0, create_cache},
      {"free cache", kFrees, free_cache},
      {"close cache", kCloses, close_cache},
      {"set cache options", 0, set_cache_options},
      {"free cache options", kFrees, free_cache_options},
      {"tell cache", 0, tell_cache},
      {"query prefix", 0, query_prefix},
      {"pin and unpin", kMisses, pin_and_unpin},
      {"score", 0, score},
      {"logits", 0, logits},
      {"take stats", 0, take_stats},
      {"tell stats", 0, read_stats},
      {"split stats", 0, split_stats},
      {"free stats", kFrees, free_stats},
      {"set request", 0, set_request},
      {"set sampling", kMisses, set_sampling},
      {"set scheduling", 0, set_scheduling},
      {"set kind", 0, set_kind},
      {"set messages", kMisses, set_messages},
      {"set queue", kTakesEvents, set_queue},
      {"free request", kFrees, free_request},
      {"submit", 0, submit},
      {"submit and free", 0, submit_and_free},
      {"submit many", 0, submit_many},
      {"fork", 0, fork_job},
      {"poll", 0, poll_job},
      {"poll to the end", 0, poll_job_to_the_end},
      {"wait", 0, wait_for_job},
      {"cancel", 0, cancel_job},
      {"pause", 0, pause_job},
      {"resume", 0, resume_job},
      {"change priority", 0, change_priority},
      {"rewind", 0, rewind_job},
      {"tell job", 0, tell_job},
      {"free job", kFrees, free_job},
      {"create queue", 0, create_queue},
      {"poll queue", 0, poll_queue},
      {"wait in queue", 0, wait_in_queue},
      {"change limits", 0, change_limits},
      {"tell costs", 0, tell_costs},
      {"draft logits", kHasNoNetwork, draft_logits},
      {"tell job more", 0, tell_job_more},
      {"tell last event", 0, tell_last_event},
      {"follow queue", 0, follow_queue},
      {"prompt of parts", 0, make_prompt_of_parts},
      {"tell queue", 0, tell_queue},
      {"close queue", kCloses, close_queue},
      {"free queue", kFrees | kCloses, free_queue},
      {"tell event", 0, read_event},
      {"free event", kFrees, free_event},
      {"trigger", kCancels, trigger},
      {"free cancel", kFrees, free_cancel},
      {"create constraint", 0, create_constraint},
      {"create matcher", 0, create_matcher},
      {"follow text", 0, follow_text},
      {"free constraint", kFrees, free_constraint},
      {"free matcher", kFrees, free_matcher},
      {"set chat", 0, set_chat},
      {"render chat", 0, render_chat},
      {"free chat", kFrees, free_chat},
      {"create alias", 0, create_alias},
      {"set alias", 0, set_alias},
      {"submit to alias", kMisses, submit_to_alias},
      {"tell alias", 0, tell_alias},
      {"free alias", kFrees, free_alias},
      {"begin a response", 0, begin_response},
      {"feed a response", 0, feed_response},
      {"read a response", 0, read_response},
      {"finish a response", kEndsAnswers, finish_response},
      {"tell error", 0, tell_error},
      {"free error", kFrees, free_error},
      {"diagnose", 0, diagnose},
  };
  return entries;
}

}  // namespace quire::testing
