#include "core/engine/jobs/request_check.h"

#include <algorithm>
#include <initializer_list>

#include <gsl/gsl>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/engine/jobs/namespace_quotas.h"
#include "core/engine/scheduler/policy_limits.h"

namespace quire {

namespace {

// Returns the parameter of a field such as "max_pages of a namespace".
std::string_view parameter_of(std::string_view field) {
  return field.substr(0, field.find(' '));
}

template <typename T>
void require_range(std::string_view field, T value, T low, T high) {
  if (value < low || value > high) {
    throw Error(ErrorCode::invalid_argument, "{} is {}, must be {} to {}", field, value, low, high)
        .at(parameter_of(field));
  }
}

void require_tokens(std::string_view field, const std::vector<TokenId>& ids, int32_t num_tokens) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < num_tokens) continue;
    throw Error(ErrorCode::invalid_argument, "{}[{}] is {}, the vocabulary has {} tokens", field, i, ids[i],
                num_tokens)
        .at(field);
  }
}

void require_count(std::string_view field, size_t count, size_t most) {
  if (count > most)
    throw Error(ErrorCode::invalid_argument, "{} has {} entries, at most {}", field, count, most).at(field);
}

void check_prompt(std::string_view field, const TokenIds& prompt, JobKind kind, const RequestLimits& limits) {
  const size_t most = static_cast<size_t>(limits.max_seq_len) - (kind == JobKind::generate ? 1 : 0);
  if (prompt.size() > most) {
    throw Error(ErrorCode::too_large, "{} has {} tokens, at most {} fit into max_seq_len", field,
                prompt.size(), most)
        .at(field);
  }
  require_tokens(field, prompt, limits.num_tokens);
}

// Checks guidance. Both lanes of the job must fit into one step.
void check_guidance(const JobRequest& request, const RequestLimits& limits) {
  const float scale = request.guidance_scale;
  if (!(scale >= 0.0F && scale <= JobRequest::kMaxGuidanceScale)) {
    throw Error(ErrorCode::invalid_argument, "guidance_scale is {}, must be 0 to {}", scale,
                JobRequest::kMaxGuidanceScale)
        .at("guidance_scale");
  }
  if (request.negative_prompt.empty() && scale == 1.0F) return;
  if (request.negative_prompt.empty())
    throw Error(ErrorCode::invalid_argument,
                "guidance_scale is {} without a negative_prompt; set one, or a scale of 1", scale)
        .at("guidance_scale");
  if (scale == 1.0F)
    throw Error(ErrorCode::invalid_argument,
                "negative_prompt has no effect with a guidance_scale of 1; set another scale")
        .at("negative_prompt");
  if (request.reserve_whole)
    throw Error(ErrorCode::unsupported,
                "reserve_whole cannot be combined with a negative_prompt; leave one unset")
        .at("reserve_whole");
  check_prompt("negative_prompt", request.negative_prompt, request.kind, limits);
  const PolicyLimits policy = policy_limits(limits.executor, limits.options);
  if (std::min(policy.max_running_lanes, policy.max_step_tokens) < 2) {
    throw Error(ErrorCode::too_large,
                "negative_prompt: the job needs two sequences in a step, but the cache computes at most {}",
                std::min(policy.max_running_lanes, policy.max_step_tokens))
        .at("negative_prompt");
  }
}

void check_stops(const JobRequest& request, const RequestLimits& limits) {
  require_count("stop_tokens", request.stop_tokens.size(), JobRequest::kMaxStopTokens);
  require_tokens("stop_tokens", request.stop_tokens, limits.num_tokens);
  require_count("stop_texts", request.stop_strings.size(), JobRequest::kMaxStopStrings);
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty())
      throw Error(ErrorCode::invalid_argument, "stop_texts has an empty string").at("stop_texts");
    if (stop.size() > JobRequest::kMaxStopStringBytes) {
      throw Error(ErrorCode::invalid_argument, "stop_texts has a string of {} bytes, at most {}", stop.size(),
                  JobRequest::kMaxStopStringBytes)
          .at("stop_texts");
    }
    with_parameter("stop_texts", [&] { require_utf8(stop, "stop_texts"); });
  }
}

// Rejects strings that output cannot contain, and those that are stop strings as well.
void check_banned_strings(const JobRequest& request) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  require_count("banned_texts", request.banned_strings.size(), JobRequest::kMaxStopStrings);
  for (const std::string& banned : request.banned_strings) {
    if (banned.empty())
      throw Error(ErrorCode::invalid_argument, "banned_texts has an empty string").at("banned_texts");
    if (banned.size() > JobRequest::kMaxStopStringBytes) {
      throw Error(ErrorCode::invalid_argument, "banned_texts has a string of {} bytes, at most {}",
                  banned.size(), JobRequest::kMaxStopStringBytes)
          .at("banned_texts");
    }
    with_parameter("banned_texts", [&] { require_utf8(banned, "banned_texts"); });
    if (banned.find(kReplacement) != std::string::npos)
      throw Error(ErrorCode::invalid_argument,
                  "banned_texts has a string with U+FFFD, the replacement for invalid text; remove it")
          .at("banned_texts");
    const auto& stops = request.stop_strings;
    if (std::find(stops.begin(), stops.end(), banned) != stops.end())
      throw Error(ErrorCode::invalid_argument,
                  "banned_texts has a string that is also in stop_texts; remove one of them")
          .at("banned_texts");
  }
}

// Counts the distinct tokens of [0, num_tokens) in the lists.
int32_t count_named(int32_t num_tokens, std::initializer_list<gsl::span<const TokenId>> lists) {
  std::vector<bool> named(static_cast<size_t>(num_tokens));
  for (const auto& list : lists) {
    for (const TokenId token : list) named[static_cast<size_t>(token)] = true;
  }
  return static_cast<int32_t>(std::count(named.begin(), named.end(), true));
}

// Checks that the job can sample a first token.
void check_bans(const JobRequest& request, const RequestLimits& limits) {
  const gsl::span<const TokenId> banned = request.sampling.banned_tokens;
  gsl::span<const TokenId> end_tokens = limits.end_tokens, stop_tokens = request.stop_tokens;
  if (request.ignore_end_tokens || request.min_new_tokens == 0) end_tokens = {};
  if (request.min_new_tokens == 0) stop_tokens = {};
  const auto num_tokens = static_cast<size_t>(limits.num_tokens);
  if (banned.size() + end_tokens.size() + stop_tokens.size() < num_tokens) return;
  if (count_named(limits.num_tokens, {banned}) == limits.num_tokens)
    throw Error(ErrorCode::invalid_argument,
                "banned_tokens contains all {} tokens of the vocabulary; leave at least one",
                limits.num_tokens)
        .at("banned_tokens");
  if (count_named(limits.num_tokens, {banned, end_tokens, stop_tokens}) == limits.num_tokens) {
    throw Error(ErrorCode::invalid_argument,
                "banned_tokens leaves only tokens that end the job, and min_new_tokens is {}",
                request.min_new_tokens)
        .at("banned_tokens");
  }
}

void check_generation(const JobRequest& request, const RequestLimits& limits) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  require_range("max_new_tokens", request.max_new_tokens, 1, kMost);
  require_range("min_new_tokens", request.min_new_tokens, 0, request.max_new_tokens);
  require_range("top_log_probs", request.num_top_log_probs, 0,
                std::min(JobRequest::kMaxTopLogProbs, limits.num_tokens));
  if (request.max_drafts)
    require_range("max_drafts", *request.max_drafts, 0, limits.options.drafting.max_drafts);
  request.sampling.validate(limits.num_tokens);
  check_guidance(request, limits);
  check_stops(request, limits);
  check_banned_strings(request);
  check_bans(request, limits);
}

void check_raw_logits(const JobRequest& request, const RequestLimits& limits) {
  const uint64_t bytes =
      uint64_t{request.prompt.size()} * static_cast<uint64_t>(limits.num_tokens) * sizeof(float);
  if (request.want_raw_logits && bytes > JobRequest::kMaxRawLogitBytes) {
    throw Error(ErrorCode::too_large, "raw_logits needs {} bytes, at most {}; use a shorter prompt", bytes,
                JobRequest::kMaxRawLogitBytes)
        .at("raw_logits");
  }
}

void check_scheduling(const JobRequest& request) {
  check_priority(request.priority);
  const auto require_duration = [](std::string_view field, Duration value) {
    if (value < Duration{0})
      throw Error(ErrorCode::invalid_argument, "{} is negative; use 0 for no limit", field).at(field);
  };
  require_duration("queue_deadline_ns", request.queue_deadline);
  require_duration("first_token_deadline_ns", request.first_token_deadline);
  require_duration("deadline_ns", request.total_deadline);
  require_range("max_unread_events", request.max_unread_events, 2, 1 << 20);
  if (request.name_space.size() > JobRequest::kMaxNameSpaceBytes) {
    throw Error(ErrorCode::invalid_argument, "namespace has {} bytes, at most {}", request.name_space.size(),
                JobRequest::kMaxNameSpaceBytes)
        .at("namespace");
  }
}

void check_quota(const NamespaceQuota& quota) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  require_range("max_running_jobs of a namespace", quota.max_running_jobs, 0, kMost);
  require_range("max_queued_jobs of a namespace", quota.max_queued_jobs, 0, kMost);
  require_range("max_pages of a namespace", quota.max_pages, 0, kMost);
  require_range("max_pinned_pages of a namespace", quota.max_pinned_pages, 0, kMost);
  if (!(quota.weight > 0.0 && quota.weight <= 1e6)) {
    throw Error(ErrorCode::invalid_argument, "weight of a namespace is {}, must be above 0 and at most 1e6",
                quota.weight)
        .at("weight");
  }
}

JobSize size_of(const JobRequest& request) {
  return {static_cast<int32_t>(request.prompt.size()), static_cast<int32_t>(request.negative_prompt.size()),
          request.kind == JobKind::generate ? request.max_new_tokens : 0};
}

// Returns the minimum work of a job. A job that may stop needs only min_new_tokens; otherwise it generates
// all its tokens.
LeastWork least_work(const JobRequest& request, const RequestLimits& limits) {
  LeastWork work;
  const bool needs_all =
      request.kind == JobKind::score || (request.kind == JobKind::embed && request.pooling == Pooling::mean);
  const bool may_find_prompt = request.reuse_prefix && !needs_all;
  const size_t prompt_tokens = request.prompt.size() + request.negative_prompt.size();
  work.prompt_tokens = may_find_prompt ? 1 : static_cast<int32_t>(prompt_tokens);
  if (request.kind != JobKind::generate) return work;
  const bool may_stop = !request.stop_tokens.empty() || !request.stop_strings.empty() ||
                        request.loop_guard.is_on() ||
                        (!limits.end_tokens.empty() && !request.ignore_end_tokens);
  const int32_t stops_after = request.stop_strings.empty() ? request.min_new_tokens : 0;
  const int32_t room = new_tokens_within(limits.max_seq_len, size_of(request));
  const DraftingOptions& drafting = limits.options.drafting;
  if (drafting.drafter != DrafterKind::none)
    work.step_tokens += request.max_drafts.value_or(drafting.max_drafts);
  work.new_tokens = std::min(room, may_stop ? std::max(1, stops_after) : request.max_new_tokens);
  return work;
}

void check_deadlines(const JobRequest& request, const RequestLimits& limits) {
  const auto require_time = [](std::string_view field, Duration deadline, Duration least) {
    if (deadline == Duration{0} || deadline >= least) return;
    throw Error(ErrorCode::deadline_too_short,
                "{} is {:.6f} s; at the best speed measured so far the job takes {:.6f} s", field,
                in_seconds(deadline), in_seconds(least))
        .at(field);
  };
  const LeastWork work = least_work(request, limits);
  if (request.kind == JobKind::generate) {
    require_time("first_token_deadline_ns", request.first_token_deadline,
                 least_time_to_first_token(limits.fastest_steps, work));
  }
  require_time("deadline_ns", request.total_deadline, least_time_to_end(limits.fastest_steps, work));
}

}  // namespace

void check_priority(int32_t priority) {
  require_range("priority", priority, -JobRequest::kMaxPriority, JobRequest::kMaxPriority);
}

int32_t new_tokens_within(int32_t max_seq_len, const JobSize& size) {
  return std::min(size.new_tokens, max_seq_len - std::max(size.prompt_tokens, size.guide_tokens));
}

void check_fit(const JobSize& size, const std::string& name_space, const RequestLimits& limits) {
  const int32_t num_new = new_tokens_within(limits.max_seq_len, size);
  // Sums up `count` for the final length of each lane.
  const auto sum = [&](auto count) {
    return count(size.prompt_tokens + num_new) +
           (size.guide_tokens > 0 ? count(size.guide_tokens + num_new) : 0);
  };
  const int32_t needed =
      sum([&](int32_t length) { return pages_of_whole_job(length, limits.executor.page_tokens); });
  if (needed > limits.executor.guaranteed_pages()) {
    throw Error(ErrorCode::too_large,
                "prompt and max_new_tokens may need {} pages of {} tokens, but the cache has {}", needed,
                limits.executor.page_tokens, limits.executor.guaranteed_pages());
  }
  for (const WindowGroup& group : limits.executor.windows) {
    const int32_t slots = sum([&](int32_t length) {
      return slots_of_whole_job(length, group.window, limits.executor.page_tokens);
    });
    if (slots <= group.num_slots) continue;
    throw Error(ErrorCode::too_large,
                "prompt and max_new_tokens may need {} pages of {} tokens in layers with a window of {} "
                "tokens, but the cache has {}",
                slots, limits.executor.page_tokens, group.window, group.num_slots);
  }
  const NamespaceQuota quota = limits.options.quotas != nullptr
                                   ? limits.options.quotas->of(name_space)
                                   : NamespaceQuotas(limits.options).of(name_space);
  if (quota.max_pages > 0 && needed > quota.max_pages) {
    throw Error(ErrorCode::too_large,
                "prompt and max_new_tokens may need {} pages, but the quota of the namespace is {}", needed,
                quota.max_pages);
  }
}

void check_request(const JobRequest& request, const RequestLimits& limits) {
  require_range("kind", static_cast<int32_t>(request.kind), 0, static_cast<int32_t>(JobKind::embed));
  require_range("event_policy", static_cast<int32_t>(request.slow_reader), 0,
                static_cast<int32_t>(SlowReaderPolicy::end));
  require_range("pooling", static_cast<int32_t>(request.pooling), 0, static_cast<int32_t>(Pooling::last));
  if (request.kind == JobKind::embed && limits.executor.hidden_size == 0) {
    throw Error(ErrorCode::unsupported, "kind: this model does not support embeddings").at("kind");
  }
  if (request.prompt.empty())
    throw Error(ErrorCode::invalid_argument, "prompt is empty; add at least one token").at("prompt");
  check_prompt("prompt", request.prompt, request.kind, limits);
  if (request.kind == JobKind::generate) check_generation(request, limits);
  if (request.kind == JobKind::score) check_raw_logits(request, limits);
  check_scheduling(request);
  check_fit(size_of(request), request.name_space, limits);
  check_deadlines(request, limits);
}

void check_options(const EngineOptions& options, const EngineParts& parts) {
  if (parts.executor == nullptr) throw Error(ErrorCode::invalid_argument, "executor is missing");
  if (parts.codec == nullptr) throw Error(ErrorCode::invalid_argument, "codec is missing");
  const ExecutorLimits& limits = parts.executor->limits();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  require_range("num_pages", limits.num_pages, 1, kMost);
  require_range("least_pages", limits.least_pages, 0, limits.num_pages);
  if (limits.least_pages > 0) require_range("chunk_pages", limits.chunk_pages, 1, limits.num_pages);
  require_range("page_tokens", limits.page_tokens, 1, 1 << 16);
  require_range("max_tokens", limits.max_tokens, 1, kMost);
  require_range("max_sequences", limits.max_sequences, 1, 1 << 20);
  require_range("max_logit_rows", limits.max_logit_rows, 1, kMost);
  require_range("max_pages_per_sequence", limits.max_pages_per_sequence, 1, kMost);
  require_count("windows", limits.windows.size(), kMaxWindowGroups);
  for (const WindowGroup& group : limits.windows) {
    require_range("window of a group", group.window, 1, kMost);
    require_range("num_slots of a group", group.num_slots, 1, limits.num_pages);
  }
  require_range("num_state_slots", limits.num_state_slots, 0, 1 << 20);
  require_range("least_state_slots", limits.least_state_slots, 0, limits.num_state_slots);
  require_range("num_tokens", parts.num_tokens, 1, limits.vocab_size);
  require_range("max_seq_len of the model", parts.max_seq_len, 2, kMost);
  require_tokens("end_tokens", parts.end_tokens, parts.num_tokens);
  require_range("max_running_jobs", options.max_running_jobs, 0, kMost);
  require_range("max_chunk_tokens", options.max_chunk_tokens, 0, kMost);
  if (options.max_seq_len != 0) require_range("max_seq_len", options.max_seq_len, 2, parts.max_seq_len);
  require_range("max_queued_jobs", options.max_queued_jobs, 1, kMost);
  require_range("max_overtakes", options.max_overtakes, 0, kMost);
  require_range("max_pinned_pages", options.max_pinned_pages, 0, limits.num_pages);
  require_range("prefix_hash_bits", options.prefix_hash_bits, 1, 64);
  if (options.ageing_interval < Duration{0})
    throw Error(ErrorCode::invalid_argument, "ageing_interval is negative").at("ageing_ns");
  if (options.watchdog_timeout < Duration{0})
    throw Error(ErrorCode::invalid_argument, "watchdog_timeout is negative").at("step_timeout_ns");
  if (options.page_idle_time < Duration{0})
    throw Error(ErrorCode::invalid_argument, "page_idle_time is negative").at("page_idle_ns");
  if (options.close_timeout < Duration{0})
    throw Error(ErrorCode::invalid_argument, "close_timeout is negative").at("close_timeout_ns");
  require_range("drafter", static_cast<int32_t>(options.drafting.drafter), 0,
                static_cast<int32_t>(DrafterKind::network));
  require_range("max_drafts", options.drafting.max_drafts, 1, kMaxDrafts);
  check_quota(options.default_quota);
  for (const NamespaceOptions& entry : options.namespaces) check_quota(entry.quota);
}

}  // namespace quire
