#include <utility>

#include <quire/request.h>

#include "capi/src/arguments.h"
#include "capi/src/constraint_object.h"
#include "capi/src/queue_object.h"
#include "capi/src/request_setters.h"

using namespace quire::capi;

namespace {

constexpr int32_t kMaxInt32 = INT32_MAX;
constexpr Setting kPrompt{"prompt", Counts::any_kind};

// Adds a stop text or a banned text.
void add_text(std::vector<std::string>& texts, std::string_view text, std::string_view name) {
  constexpr size_t kMaxTexts = quire::JobRequest::kMaxStopStrings;
  constexpr size_t kMaxBytes = quire::JobRequest::kMaxStopStringBytes;
  if (text.empty() || text.size() > kMaxBytes) {
    throw quire::Error(quire::ErrorCode::invalid_argument, "{}: a text of {} bytes; use 1 to {}", name,
                       text.size(), kMaxBytes)
        .at(name);
  }
  if (texts.size() >= kMaxTexts) {
    throw quire::Error(quire::ErrorCode::invalid_argument, "{}: at most {} texts are allowed", name,
                       kMaxTexts)
        .at(name);
  }
  texts.emplace_back(text);
}

}  // namespace

quire_job_request* quire_job_request_create(quire_error** error) {
  return guard(error, static_cast<quire_job_request*>(nullptr),
               [] { return make_handle<quire_job_request>(); });
}

int32_t quire_job_request_free(quire_job_request* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_job_request_set_kind(quire_job_request* request, int32_t kind, quire_error** error) {
  static_assert(QUIRE_JOB_KIND_GENERATE == static_cast<int32_t>(quire::JobKind::generate));
  static_assert(QUIRE_JOB_KIND_SCORE == static_cast<int32_t>(quire::JobKind::score));
  static_assert(QUIRE_JOB_KIND_WARM == static_cast<int32_t>(quire::JobKind::warm));
  static_assert(QUIRE_JOB_KIND_EMBED == static_cast<int32_t>(quire::JobKind::embed));
  return set_field(request, {"kind", Counts::any_kind}, error, &quire::JobRequest::kind, [&] {
    return static_cast<quire::JobKind>(
        range_argument(kind, QUIRE_JOB_KIND_GENERATE, QUIRE_JOB_KIND_EMBED, "kind"));
  });
}

int32_t quire_job_request_clear_prompt(quire_job_request* request, quire_error** error) {
  return set_option(request, "request", error, [](RequestSettings& settings) { settings.prompt.clear(); });
}

int32_t quire_job_request_add_prompt_text(quire_job_request* request, const char* text, size_t text_len,
                                          quire_error** error) {
  return set(request, kPrompt, error, [&](RequestSettings& settings) {
    settings.prompt.push_back(
        {quire::PromptPart::Kind::text, std::string(text_argument(text, text_len)), {}});
  });
}

int32_t quire_job_request_add_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                            size_t num_tokens, quire_error** error) {
  return set(request, kPrompt, error, [&](RequestSettings& settings) {
    settings.prompt.push_back(
        {quire::PromptPart::Kind::tokens, {}, tokens_argument(tokens, num_tokens, kMaxInt32)});
  });
}

int32_t quire_job_request_add_prompt_special(quire_job_request* request, const char* text, size_t text_len,
                                             quire_error** error) {
  return set(request, kPrompt, error, [&](RequestSettings& settings) {
    settings.prompt.push_back(
        {quire::PromptPart::Kind::special, std::string(text_argument(text, text_len)), {}});
  });
}

int32_t quire_job_request_set_prompt_text(quire_job_request* request, const char* text, size_t text_len,
                                          quire_error** error) {
  return set(request, kPrompt, error, [&](RequestSettings& settings) {
    quire::PromptPart part{quire::PromptPart::Kind::text, std::string(text_argument(text, text_len)), {}};
    settings.prompt.assign(1, std::move(part));
  });
}

int32_t quire_job_request_set_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                            size_t num_tokens, quire_error** error) {
  return set(request, kPrompt, error, [&](RequestSettings& settings) {
    quire::PromptPart part{
        quire::PromptPart::Kind::tokens, {}, tokens_argument(tokens, num_tokens, kMaxInt32)};
    settings.prompt.assign(1, std::move(part));
  });
}

int32_t quire_job_request_set_add_special(quire_job_request* request, int32_t add_special,
                                          quire_error** error) {
  return set(request, {"add_special", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.add_special = flag_argument(add_special, "add_special");
  });
}

int32_t quire_job_request_set_parse_special(quire_job_request* request, int32_t parse_special,
                                            quire_error** error) {
  return set(request, {"parse_special", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.parse_special = flag_argument(parse_special, "parse_special");
  });
}

int32_t quire_job_request_set_max_new_tokens(quire_job_request* request, int32_t max_new_tokens,
                                             quire_error** error) {
  return set(request, {"max_new_tokens", Counts::generate | Counts::fork}, error,
             [&](RequestSettings& settings) {
               settings.job.max_new_tokens = range_argument(max_new_tokens, 1, kMaxInt32, "max_new_tokens");
               settings.max_new_tokens_set = true;
             });
}

int32_t quire_job_request_set_max_drafts(quire_job_request* request, int32_t max_drafts,
                                         quire_error** error) {
  return set_field(request, {"max_drafts", Counts::generate}, error, &quire::JobRequest::max_drafts,
                   [&] { return range_argument(max_drafts, 0, quire::kMaxDrafts, "max_drafts"); });
}

int32_t quire_job_request_set_min_new_tokens(quire_job_request* request, int32_t min_new_tokens,
                                             quire_error** error) {
  return set_field(request, {"min_new_tokens", Counts::generate}, error, &quire::JobRequest::min_new_tokens,
                   [&] { return range_argument(min_new_tokens, 0, kMaxInt32, "min_new_tokens"); });
}

int32_t quire_job_request_set_stop_tokens(quire_job_request* request, const int32_t* tokens,
                                          size_t num_tokens, quire_error** error) {
  return set_field(request, {"stop_tokens", Counts::generate}, error, &quire::JobRequest::stop_tokens,
                   [&] { return tokens_argument(tokens, num_tokens, quire::JobRequest::kMaxStopTokens); });
}

int32_t quire_job_request_add_stop_text(quire_job_request* request, const char* text, size_t text_len,
                                        quire_error** error) {
  return set(request, {"stop_texts", Counts::generate}, error, [&](RequestSettings& settings) {
    add_text(settings.job.stop_strings, text_argument(text, text_len), "stop_texts");
  });
}

int32_t quire_job_request_clear_stop_texts(quire_job_request* request, quire_error** error) {
  return set(request, {"stop_texts", Counts::generate}, error,
             [](RequestSettings& settings) { settings.job.stop_strings.clear(); });
}

int32_t quire_job_request_add_banned_text(quire_job_request* request, const char* text, size_t text_len,
                                          quire_error** error) {
  return set(request, {"banned_texts", Counts::generate}, error, [&](RequestSettings& settings) {
    add_text(settings.job.banned_strings, text_argument(text, text_len), "banned_texts");
  });
}

int32_t quire_job_request_clear_banned_texts(quire_job_request* request, quire_error** error) {
  return set(request, {"banned_texts", Counts::generate}, error,
             [](RequestSettings& settings) { settings.job.banned_strings.clear(); });
}

int32_t quire_job_request_set_heal_prompt(quire_job_request* request, int32_t heal_prompt,
                                          quire_error** error) {
  return set(request, {"heal_prompt", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.heal_prompt = flag_argument(heal_prompt, "heal_prompt");
  });
}

int32_t quire_job_request_set_negative_prompt_text(quire_job_request* request, const char* text,
                                                   size_t text_len, quire_error** error) {
  return set(request, {"negative_prompt", Counts::generate}, error, [&](RequestSettings& settings) {
    quire::PromptPart part{quire::PromptPart::Kind::text, std::string(text_argument(text, text_len)), {}};
    settings.negative_prompt.assign(1, std::move(part));
  });
}

int32_t quire_job_request_set_negative_prompt_tokens(quire_job_request* request, const int32_t* tokens,
                                                     size_t num_tokens, quire_error** error) {
  return set(request, {"negative_prompt", Counts::generate}, error, [&](RequestSettings& settings) {
    quire::PromptPart part{
        quire::PromptPart::Kind::tokens, {}, tokens_argument(tokens, num_tokens, kMaxInt32)};
    settings.negative_prompt.assign(1, std::move(part));
  });
}

int32_t quire_job_request_set_guidance_scale(quire_job_request* request, double scale, quire_error** error) {
  return set_field(request, {"guidance_scale", Counts::generate}, error, &quire::JobRequest::guidance_scale,
                   [&] {
                     constexpr double kMost = quire::JobRequest::kMaxGuidanceScale;
                     return static_cast<float>(number_argument(scale, 0.0, kMost, "guidance_scale"));
                   });
}

int32_t quire_job_request_set_ignore_eos(quire_job_request* request, int32_t ignore_eos,
                                         quire_error** error) {
  return set_field(request, {"ignore_eos", Counts::generate}, error, &quire::JobRequest::ignore_end_tokens,
                   [&] { return flag_argument(ignore_eos, "ignore_eos"); });
}

int32_t quire_job_request_set_seed(quire_job_request* request, uint64_t seed, quire_error** error) {
  return set_sampling(request, {"seed", Counts::generate | Counts::fork}, error,
                      &quire::SamplingSettings::seed, [&] { return seed; });
}

int32_t quire_job_request_set_random_seed(quire_job_request* request, int32_t random_seed,
                                          quire_error** error) {
  return set_field(request, {"random_seed", Counts::generate | Counts::fork}, error,
                   &quire::JobRequest::random_seed,
                   [&] { return flag_argument(random_seed, "random_seed"); });
}

int32_t quire_job_request_set_emit_special(quire_job_request* request, int32_t emit_special,
                                           quire_error** error) {
  return set_field(request, {"emit_special", Counts::generate}, error,
                   &quire::JobRequest::emit_special_tokens,
                   [&] { return flag_argument(emit_special, "emit_special"); });
}

int32_t quire_job_request_set_log_probs(quire_job_request* request, int32_t log_probs, quire_error** error) {
  return set_field(request, {"log_probs", Counts::generate}, error, &quire::JobRequest::want_log_probs,
                   [&] { return flag_argument(log_probs, "log_probs"); });
}

int32_t quire_job_request_set_top_log_probs(quire_job_request* request, int32_t num_top,
                                            quire_error** error) {
  return set_field(
      request, {"top_log_probs", Counts::generate}, error, &quire::JobRequest::num_top_log_probs,
      [&] { return range_argument(num_top, 0, quire::JobRequest::kMaxTopLogProbs, "top_log_probs"); });
}

int32_t quire_job_request_set_raw_logits(quire_job_request* request, int32_t raw_logits,
                                         quire_error** error) {
  return set_field(request, {"raw_logits", Counts::score}, error, &quire::JobRequest::want_raw_logits,
                   [&] { return flag_argument(raw_logits, "raw_logits"); });
}

int32_t quire_job_request_set_pooling(quire_job_request* request, int32_t pooling, quire_error** error) {
  static_assert(QUIRE_POOLING_MEAN == static_cast<int32_t>(quire::Pooling::mean));
  static_assert(QUIRE_POOLING_LAST == static_cast<int32_t>(quire::Pooling::last));
  return set_field(request, {"pooling", Counts::embed}, error, &quire::JobRequest::pooling, [&] {
    return static_cast<quire::Pooling>(
        range_argument(pooling, QUIRE_POOLING_MEAN, QUIRE_POOLING_LAST, "pooling"));
  });
}

int32_t quire_job_request_set_normalize(quire_job_request* request, int32_t normalize, quire_error** error) {
  return set_field(request, {"normalize", Counts::embed}, error, &quire::JobRequest::normalise,
                   [&] { return flag_argument(normalize, "normalize"); });
}

int32_t quire_job_request_set_user_data(quire_job_request* request, uint64_t user_data, quire_error** error) {
  return set_field(request, {"user_data", Counts::always}, error, &quire::JobRequest::tag,
                   [&] { return user_data; });
}

int32_t quire_job_request_set_user_data_step(quire_job_request* request, uint64_t user_data_step,
                                             quire_error** error) {
  return set_field(request, {"user_data_step", Counts::any_kind}, error, &quire::JobRequest::tag_step,
                   [&] { return user_data_step; });
}

int32_t quire_job_request_set_queue(quire_job_request* request, quire_queue* queue, quire_error** error) {
  return set(request, {"queue", Counts::always}, error, [&](RequestSettings& settings) {
    settings.shared_queue = queue == nullptr ? QueueShare{} : Pinned(queue, "queue")->share;
  });
}

int32_t quire_job_request_set_constraint(quire_job_request* request, quire_constraint* constraint,
                                         quire_error** error) {
  return set(request, {"constraint", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.constraint =
        constraint == nullptr ? quire::ConstraintChoice{} : Pinned(constraint, "constraint")->choice;
  });
}

int32_t quire_job_request_set_json_order(quire_job_request* request, int32_t json_order,
                                         quire_error** error) {
  return set(request, {"json_order", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.json_form.in_order = range_argument(json_order, QUIRE_JSON_ORDER_SCHEMA, QUIRE_JSON_ORDER_ANY,
                                                 "json_order") == QUIRE_JSON_ORDER_SCHEMA;
  });
}

int32_t quire_job_request_set_json_closed(quire_job_request* request, int32_t json_closed,
                                          quire_error** error) {
  return set(request, {"json_closed", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.json_form.closed = flag_argument(json_closed, "json_closed");
  });
}

int32_t quire_job_request_set_json_plain_integers(quire_job_request* request, int32_t json_plain_integers,
                                                  quire_error** error) {
  return set(request, {"json_plain_integers", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.json_form.plain_integers = flag_argument(json_plain_integers, "json_plain_integers");
  });
}

int32_t quire_job_request_set_json_space(quire_job_request* request, int32_t json_space,
                                         quire_error** error) {
  static_assert(QUIRE_JSON_SPACE_PRINTED == static_cast<int32_t>(quire::JsonSpace::printed));
  static_assert(QUIRE_JSON_SPACE_SPACED == static_cast<int32_t>(quire::JsonSpace::spaced));
  static_assert(QUIRE_JSON_SPACE_COMPACT == static_cast<int32_t>(quire::JsonSpace::compact));
  return set(request, {"json_space", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.json_form.space = static_cast<quire::JsonSpace>(
        range_argument(json_space, QUIRE_JSON_SPACE_SPACED, QUIRE_JSON_SPACE_PRINTED, "json_space"));
  });
}

int32_t quire_job_request_set_event_policy(quire_job_request* request, int32_t event_policy,
                                           quire_error** error) {
  static_assert(QUIRE_EVENTS_COALESCE == static_cast<int32_t>(quire::SlowReaderPolicy::coalesce));
  static_assert(QUIRE_EVENTS_PAUSE == static_cast<int32_t>(quire::SlowReaderPolicy::pause));
  static_assert(QUIRE_EVENTS_END == static_cast<int32_t>(quire::SlowReaderPolicy::end));
  return set_field(request, {"event_policy", Counts::any_kind}, error, &quire::JobRequest::slow_reader, [&] {
    return static_cast<quire::SlowReaderPolicy>(
        range_argument(event_policy, QUIRE_EVENTS_COALESCE, QUIRE_EVENTS_END, "event_policy"));
  });
}

int32_t quire_job_request_set_max_unread_events(quire_job_request* request, int32_t max_unread_events,
                                                quire_error** error) {
  return set_field(request, {"max_unread_events", Counts::any_kind}, error,
                   &quire::JobRequest::max_unread_events,
                   [&] { return range_argument(max_unread_events, 2, 65536, "max_unread_events"); });
}

int32_t quire_job_request_set_progress_events(quire_job_request* request, int32_t progress_events,
                                              quire_error** error) {
  return set_field(request, {"progress_events", Counts::any_kind}, error, &quire::JobRequest::want_progress,
                   [&] { return flag_argument(progress_events, "progress_events"); });
}

int32_t quire_job_request_set_namespace(quire_job_request* request, const char* text, size_t text_len,
                                        quire_error** error) {
  return set(request, {"namespace", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.job.name_space = namespace_argument(text, text_len);
  });
}

int32_t quire_job_request_set_priority(quire_job_request* request, int32_t priority, quire_error** error) {
  return set_field(request, {"priority", Counts::any_kind}, error, &quire::JobRequest::priority,
                   [&] { return range_argument(priority, -1000, 1000, "priority"); });
}

int32_t quire_job_request_set_queue_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                quire_error** error) {
  return set_field(request, {"queue_deadline_ns", Counts::any_kind}, error,
                   &quire::JobRequest::queue_deadline, [&] { return deadline_argument(deadline_ns); });
}

int32_t quire_job_request_set_first_token_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                                      quire_error** error) {
  return set_field(request, {"first_token_deadline_ns", Counts::generate}, error,
                   &quire::JobRequest::first_token_deadline, [&] { return deadline_argument(deadline_ns); });
}

int32_t quire_job_request_set_deadline_ns(quire_job_request* request, int64_t deadline_ns,
                                          quire_error** error) {
  return set_field(request, {"deadline_ns", Counts::any_kind}, error, &quire::JobRequest::total_deadline,
                   [&] { return deadline_argument(deadline_ns); });
}

int32_t quire_job_request_set_reserve_whole(quire_job_request* request, int32_t reserve_whole,
                                            quire_error** error) {
  return set_field(request, {"reserve_whole", Counts::generate}, error, &quire::JobRequest::reserve_whole,
                   [&] { return flag_argument(reserve_whole, "reserve_whole"); });
}

int32_t quire_job_request_set_reuse_prefix(quire_job_request* request, int32_t reuse_prefix,
                                           quire_error** error) {
  return set_field(request, {"reuse_prefix", Counts::generate | Counts::warm | Counts::embed}, error,
                   &quire::JobRequest::reuse_prefix,
                   [&] { return flag_argument(reuse_prefix, "reuse_prefix"); });
}

int32_t quire_job_request_set_publish_pages(quire_job_request* request, int32_t publish_pages,
                                            quire_error** error) {
  return set_field(request, {"publish_pages", Counts::any_kind}, error, &quire::JobRequest::publish_pages,
                   [&] { return flag_argument(publish_pages, "publish_pages"); });
}
