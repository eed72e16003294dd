#include "tests/stress/c_request_entries.h"

namespace quire::testing {

void set_request(CWorld& w, const Calls& call) {
  call(quire_job_request_set_prompt_text, w.request, "klm", 3);
  call(quire_job_request_set_prompt_tokens, w.request, kTokens.data(), kTokens.size());
  call(quire_job_request_set_add_special, w.request, 0);
  call(quire_job_request_set_parse_special, w.request, 0);
  call(quire_job_request_set_max_new_tokens, w.request, 5);
  call(quire_job_request_set_min_new_tokens, w.request, 2);
  call(quire_job_request_set_max_drafts, w.request, 1);
  call(quire_job_request_set_stop_tokens, w.request, kTokens.data(), 2);
  call(quire_job_request_add_stop_text, w.request, "zz", 2);
  call(quire_job_request_clear_stop_texts, w.request);
  call(quire_job_request_add_banned_text, w.request, "zzz", 3);
  call(quire_job_request_clear_banned_texts, w.request);
  call(quire_job_request_set_ignore_eos, w.request, 1);
  call(quire_job_request_set_emit_special, w.request, 1);
  call(quire_job_request_set_response_dialect, w.request, "hermes", 6);
  call(quire_job_request_set_reasoning, w.request, QUIRE_REASONING_OFF);
  call(quire_job_request_set_reasoning_budget, w.request, 5);
  call(quire_job_request_set_log_probs, w.request, 1);
  call(quire_job_request_set_top_log_probs, w.request, 2);
  call(quire_job_request_set_user_data, w.request, 9);
  call(quire_job_request_set_event_policy, w.request, QUIRE_EVENTS_COALESCE);
  call(quire_job_request_set_max_unread_events, w.request, 8);
  call(quire_job_request_set_progress_events, w.request, 1);
}
// Uses a request of its own: draws with these settings are tested elsewhere.
void shape_draws(CWorld& w, const Calls& call) {
  const OwnedRequest owned(quire_job_request_create(nullptr));
  quire_job_request* const request = owned.get();
  call(quire_job_request_set_sampling_preset, request, "creative", 8);
  call(quire_job_request_set_sampling_of_model, request, w.model);
  for (auto* set :
       {quire_job_request_set_smoothing_factor, quire_job_request_set_min_temperature,
        quire_job_request_set_max_temperature, quire_job_request_set_temperature_exponent,
        quire_job_request_set_top_n_sigma, quire_job_request_set_top_a, quire_job_request_set_tail_free,
        quire_job_request_set_typical, quire_job_request_set_mirostat_tau, quire_job_request_set_mirostat_eta,
        quire_job_request_set_xtc_probability, quire_job_request_set_xtc_threshold,
        quire_job_request_set_skew, quire_job_request_set_dry_multiplier, quire_job_request_set_dry_base})
    call(set, request, 1.0);
  for (auto* set : {quire_job_request_set_dry_allowed_length, quire_job_request_set_dry_max_length,
                    quire_job_request_set_dry_range})
    call(set, request, 3);
  call(quire_job_request_set_xtc_ignored, request, kTokens.data(), kTokens.size());
  call(quire_job_request_set_dry_breakers, request, kTokens.data(), kTokens.size());
  call(quire_job_request_set_sampler_order, request, "temperature", 11);
  call(quire_job_request_set_loop_guard, request, 4, 3);
  call(quire_job_request_set_constraint, request, w.constraint);
  call(quire_job_request_set_heal_prompt, request, 1);
  call(quire_job_request_set_negative_prompt_text, request, "not so", 6);
  call(quire_job_request_set_negative_prompt_tokens, request, kTokens.data(), kTokens.size());
  call(quire_job_request_set_guidance_scale, request, 1.5);
}
void set_sampling(CWorld& w, const Calls& call) {
  call(quire_job_request_set_seed, w.request, 3);
  call(quire_job_request_set_repetition_penalty, w.request, 1.1);
  call(quire_job_request_set_frequency_penalty, w.request, 0.1);
  call(quire_job_request_set_presence_penalty, w.request, 0.1);
  call(quire_job_request_set_penalty_range, w.request, 16);
  call(quire_job_request_set_penalty_decay, w.request, 4);
  call(quire_job_request_add_logit_bias, w.request, 40, 0.5);
  call(quire_job_request_set_banned_tokens, w.request, kTokens.data(), 1);
  call(quire_job_request_set_temperature, w.request, 0.7);
  call(quire_job_request_set_top_k, w.request, 20);
  call(quire_job_request_set_top_p, w.request, 0.9);
  call(quire_job_request_set_min_p, w.request, 0.01);
  shape_draws(w, call);
}
void set_scheduling(CWorld& w, const Calls& call) {
  call(quire_job_request_set_namespace, w.request, "n", 1);
  call(quire_job_request_set_priority, w.request, 3);
  call(quire_job_request_set_queue_deadline_ns, w.request, 10 * kMinute);
  call(quire_job_request_set_first_token_deadline_ns, w.request, 10 * kMinute);
  call(quire_job_request_set_deadline_ns, w.request, 10 * kMinute);
  call(quire_job_request_set_reserve_whole, w.request, 1);
  call(quire_job_request_set_reuse_prefix, w.request, 0);
  call(quire_job_request_set_publish_pages, w.request, 0);
}
// Uses a request of its own, because the settings would not suit the jobs that another thread submits.
void set_kind(CWorld& /*w*/, const Calls& call) {
  const OwnedRequest request(quire_job_request_create(nullptr));
  call(quire_job_request_set_kind, request.get(), QUIRE_JOB_KIND_SCORE);
  call(quire_job_request_set_raw_logits, request.get(), 1);
  call(quire_job_request_set_kind, request.get(), QUIRE_JOB_KIND_EMBED);
  call(quire_job_request_set_pooling, request.get(), QUIRE_POOLING_LAST);
  call(quire_job_request_set_normalize, request.get(), 0);
}
// Likewise.
void set_messages(CWorld& w, const Calls& call) {
  constexpr std::string_view kMessages = R"([{"role": "user", "content": "hi"}])";
  const OwnedRequest request(quire_job_request_create(nullptr));
  call(quire_job_request_add_messages, request.get(), kMessages.data(), kMessages.size());
  call(quire_job_request_set_tools, request.get(), "[{}]", 4);
  call(quire_job_request_set_template_arguments, request.get(), R"({"a": 1})", 8);
  call(quire_job_request_set_chat_template, request.get(), w.chat);
  call(quire_model_render_chat, w.model, request.get(), nullptr, 0);
  call(quire_model_render_chat_changes, w.model, request.get(), nullptr, 0);
  call(quire_model_render_chat_tokens, w.model, request.get(), nullptr, 0);
}
void set_queue(CWorld& w, const Calls& call) {
  call(quire_job_request_set_queue, w.request, w.queue);
}
void free_request(CWorld& w, const Calls& call) {
  call(quire_job_request_free, w.request);
}

}  // namespace quire::testing
