#include "core/sampling/device_draw.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

using kernels::LogitEdit;
using kernels::SampleRow;

// Counts are passed as floats, which are exact up to this value.
constexpr int32_t kMaxCount = 1 << std::numeric_limits<float>::digits;

size_t count_edits(const SampleRequest& request) {
  const SamplingSettings& settings = request.state->settings();
  return request.state->history().counts().size() + settings.logit_bias.size() +
         settings.banned_tokens.size() + request.banned.size();
}

bool counts_are_exact(gsl::span<const TokenCounts::Entry> counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [](const TokenCounts::Entry& entry) { return entry.count <= kMaxCount; });
}

void add_edits(const SampleRequest& request, SampleRow& row, std::vector<LogitEdit>& edits) {
  const SamplingSettings& settings = request.state->settings();
  const gsl::span<const TokenCounts::Entry> counts = request.state->history().counts();
  row.first_edit = static_cast<int32_t>(edits.size());
  row.num_penalised = static_cast<int32_t>(counts.size());
  row.num_biased = static_cast<int32_t>(settings.logit_bias.size());
  row.num_excluded = static_cast<int32_t>(settings.banned_tokens.size() + request.banned.size());
  for (const auto& [token, count] : counts) edits.push_back({token, static_cast<float>(count)});
  for (const LogitBias& entry : settings.logit_bias) edits.push_back({entry.token, entry.bias});
  for (const TokenId token : settings.banned_tokens) edits.push_back({token, 0.0F});
  for (const TokenId token : request.banned) edits.push_back({token, 0.0F});
}

}  // namespace

bool add_device_draw(const SampleRequest& request, int32_t logit_row, int32_t max_edits, DeviceDraws& draws) {
  const TokenHistory& history = request.state->history();
  if (request.num_top_log_probs > 0 || history.fades()) return false;
  if (draws.edits.size() + count_edits(request) > static_cast<size_t>(max_edits)) return false;
  if (!counts_are_exact(history.counts())) return false;
  const SamplingSettings& settings = request.state->settings();
  if (!settings.is_plain() || settings.has_dry()) return false;
  SampleRow row;
  row.logit_row = logit_row;
  row.temperature = settings.temperature;
  row.top_k = settings.top_k;
  row.top_p = settings.top_p;
  row.min_p = settings.min_p;
  row.repetition_penalty = settings.repetition_penalty;
  row.frequency_penalty = settings.frequency_penalty;
  row.presence_penalty = settings.presence_penalty;
  row.random_bits = request.state->next_bits();
  row.wants_log_prob = request.want_log_prob ? 1 : 0;
  row.mask = request.mask.allows_all() ? nullptr : request.mask.words.data();
  add_edits(request, row, draws.edits);
  draws.rows.push_back(row);
  return true;
}

SampledToken sampled_by_device(const kernels::SampleOutcome& outcome) {
  static_assert(static_cast<int32_t>(kernels::SampleStatus::not_finite) ==
                static_cast<int32_t>(SampleFault::non_finite));
  static_assert(static_cast<int32_t>(kernels::SampleStatus::nothing_allowed) ==
                static_cast<int32_t>(SampleFault::nothing_allowed));
  SampledToken sampled;
  sampled.fault = static_cast<SampleFault>(outcome.status);
  sampled.token = outcome.token;
  sampled.log_prob = outcome.log_prob;
  return sampled;
}

}  // namespace quire
