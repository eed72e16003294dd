#include "core/engine/loop/network_drafting.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "core/kv/page_demand.h"
#include "core/sampling/device_draw.h"

namespace quire {

namespace {

// Returns the number of tokens of a lane once the tokens of the step are committed.
int32_t num_tokens_after(const Lane& lane) {
  return static_cast<int32_t>(lane.known().size() + lane.job->step.drawn.size());
}

// Returns the token at a position below num_tokens_after.
TokenId token_at(const Lane& lane, int32_t position) {
  const auto index = static_cast<size_t>(position);
  const size_t num_known = lane.known().size();
  return index < num_known ? lane.tokens[index] : lane.job->step.drawn[index - num_known].token;
}

// True if the job goes on and its lane ends with the tokens of this step.
bool may_draft(const PlannedLane& planned) {
  const JobRecord& job = *planned.lane->job;
  return planned.lane == &job.lane && !job.step.drawn.empty() && job.step.error == ErrorCode::ok &&
         job.step.finish == FinishReason::unfinished;
}

}  // namespace

NetworkDrafting::NetworkDrafting(DraftNetwork& network, LiveJobs& jobs, TokenSampling& sampling,
                                 int32_t num_tokens)
    : network_(network), jobs_(jobs), sampling_(sampling), num_tokens_(num_tokens) {
  draws_.vocab_size = std::min(num_tokens, network.limits().vocab_size);
  const auto max_sequences = static_cast<size_t>(network.limits().max_sequences);
  sequences_.reserve(max_sequences);
  draftees_.reserve(max_sequences);
}

void NetworkDrafting::follow(const StepPlan& plan, const Batch& batch, bool drafts) {
  begin_pass();
  std::copy_if(batch.copies.begin(), batch.copies.end(), std::back_inserter(batch_.copies),
               [](const PageCopy& copy) { return copy.table == 0; });
  states_.of_target = true;
  for (const PlannedLane& planned : plan.lanes) add_lane(planned, drafts);
  compute();
  if (draftees_.empty()) settle();
}

// Waits for a pass from which nothing is drawn: the target's next pass overwrites the states that it reads.
void NetworkDrafting::settle() {
  draws_.clear();
  if (!batch_.token_ids.empty()) network_.draw(draws_);
}

void NetworkDrafting::begin_pass() {
  batch_.clear();
  states_.rows.clear();
  sequences_.clear();
}

// Adds the rows of the tokens that the step has computed for a lane. A lane whose earlier rows are missing is
// left alone: a network that reads states can no longer compute them. One that reads tokens alone computes
// them as far as the pass has room.
void NetworkDrafting::add_lane(const PlannedLane& planned, bool drafts) {
  Lane& lane = *planned.lane;
  if (planned.faulted || !lane.sequence) return;
  const DraftNetworkLimits& limits = network_.limits();
  const int32_t shift = limits.reads_states ? 1 : 0;
  const int32_t first = first_row_of(planned);
  const int32_t num_after = num_tokens_after(lane);
  const int32_t computed = planned.start + planned.num_accepted;
  int32_t end = limits.reads_states ? computed : num_after;
  end = std::min(
      {end, num_after - shift, limits.max_positions, first + limits.max_tokens - batch_.num_tokens()});
  lane.num_followed = first;
  if (limits.reads_states && first < planned.start) return;
  if (first >= end || !jobs_.extend_pages(lane, end)) return;
  for (int32_t position = first; position < end; ++position) {
    add_row(token_at(lane, position + shift), position);
    if (limits.reads_states) states_.rows.push_back(planned.first_token + position - planned.start);
  }
  if (drafts && may_draft(planned) && end == num_after - shift) {
    draftees_.push_back({lane.job, num_after, 0, end - 1, batch_.num_logit_rows()});
    batch_.logit_rows.push_back(batch_.num_tokens() - 1);
  }
  end_sequence(*lane.sequence);
  lane.num_followed = end;
}

// Returns the first position whose row is missing. Pages that were found by their prefix have the rows of
// their tokens. Before the step the lane had one token more than its pages.
int32_t NetworkDrafting::first_row_of(const PlannedLane& planned) const {
  if (planned.start == 0 || planned.num_found_tokens > 0) return planned.start;
  return std::min(planned.lane->num_followed, planned.start + (network_.limits().reads_states ? 0 : 1));
}

// A draft model may lack the last ids of its target, in whose place it reads the first one.
void NetworkDrafting::add_row(TokenId token, int32_t position) {
  const DraftNetworkLimits& limits = network_.limits();
  const bool is_lacking = limits.token_of.empty() && token >= limits.vocab_size;
  batch_.token_ids.push_back(is_lacking ? 0 : token);
  batch_.positions.push_back(position);
  batch_.sequence_of_token.push_back(batch_.num_sequences());
}

void NetworkDrafting::end_sequence(SequenceId sequence) {
  batch_.sequence_starts.push_back(batch_.num_tokens());
  batch_.kv_lengths.push_back(batch_.positions.back() + 1);
  sequences_.push_back(sequence);
}

// Adds the page table and computes the pass, unless it has no rows.
void NetworkDrafting::compute() {
  if (batch_.token_ids.empty()) return;
  const int32_t page_tokens = jobs_.context().pages.kv().pool().page_tokens();
  const int32_t longest = *std::max_element(batch_.kv_lengths.begin(), batch_.kv_lengths.end());
  batch_.page_table_stride = pages_for(longest, page_tokens);
  batch_.page_table.assign(sequences_.size() * static_cast<size_t>(batch_.page_table_stride), 0);
  auto row = batch_.page_table.begin();
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const auto pages = jobs_.context()
                           .pages.kv()
                           .pages(sequences_[i])
                           .first(static_cast<size_t>(pages_for(batch_.kv_lengths[i], page_tokens)));
    std::transform(pages.begin(), pages.end(), row, [](PageId page) { return page.value; });
    row += batch_.page_table_stride;
  }
  network_.forward(batch_, states_);
}

void NetworkDrafting::propose(const std::function<int32_t(const JobRecord&)>& num_drafts) {
  num_passes_ = 0;
  if (draftees_.empty()) return;
  choose_draftees(num_drafts);
  if (draftees_.empty()) return settle();
  std::deque<Trial> trials;
  for (Draftee& draftee : draftees_) {
    draftee.job->step.begin();
    draftee.trial = &trials.emplace_back(*draftee.job);
  }
  while (!draftees_.empty()) {
    const Drawn drawn = draw();
    const auto goes_on = [&](Draftee& draftee) { return take(draftee, drawn); };
    draftees_.erase(std::stable_partition(draftees_.begin(), draftees_.end(), goes_on), draftees_.end());
    if (!draftees_.empty()) go_on();
  }
}

// Keeps the jobs that want drafts and have the tokens that the network has followed.
void NetworkDrafting::choose_draftees(const std::function<int32_t(const JobRecord&)>& num_drafts) {
  const auto is_over = [&](Draftee& draftee) {
    const JobRecord& job = *draftee.job;
    if (job.ended || !job.holds_pages() || job.num_tokens() != draftee.num_tokens) return true;
    draftee.num_drafts = std::min(num_drafts(job), network_.limits().max_positions - draftee.position);
    return draftee.num_drafts <= 0;
  };
  draftees_.erase(std::remove_if(draftees_.begin(), draftees_.end(), is_over), draftees_.end());
  for (const Draftee& draftee : draftees_) {
    draftee.job->drafts.proposal.clear();
    draftee.job->drafts.num_proposed_after = draftee.num_tokens;
  }
}

// Draws from the last row of each draftee.
Drawn NetworkDrafting::draw() {
  draws_.clear();
  sampling_.begin_proposals();
  for (Draftee& draftee : draftees_) {
    draftee.draw_idx = -1;
    const auto next = static_cast<int32_t>(draws_.rows.size());
    const int32_t max_edits = network_.limits().max_draw_edits;
    if (max_edits > 0 &&
        sampling_.plan_proposal(*draftee.job, draftee.trial->num_tokens(), draftee.row, max_edits, draws_))
      draftee.draw_idx = next;
  }
  return network_.draw(draws_);
}

bool NetworkDrafting::take(Draftee& draftee, const Drawn& drawn) {
  JobRecord& job = *draftee.job;
  const SampledToken sampled = drawn_token(draftee, drawn);
  if (sampled.fault != SampleFault::none || sampled.token < 0 || sampled.token >= num_tokens_) return false;
  const bool is_stop =
      std::find(job.stop_tokens.begin(), job.stop_tokens.end(), sampled.token) != job.stop_tokens.end();
  if (is_stop || !draftee.trial->accept(sampled.token, sampled.probability)) return false;
  job.drafts.proposal.push_back(sampled.token);
  const auto num_proposed = static_cast<int32_t>(job.drafts.proposal.size());
  if (num_proposed == draftee.num_drafts) return false;
  ++draftee.position;
  return jobs_.extend_pages(job.lane, draftee.position + 1);
}

SampledToken NetworkDrafting::drawn_token(const Draftee& draftee, const Drawn& drawn) {
  if (draftee.draw_idx >= 0) return sampled_by_device(drawn.outcomes[static_cast<size_t>(draftee.draw_idx)]);
  return sampling_.sample_proposal(*draftee.job, draftee.trial->num_tokens(), row_of(drawn, draftee.row));
}

// Returns a row of the logits of all tokens.
gsl::span<const float> NetworkDrafting::row_of(const Drawn& drawn, int32_t row) {
  const gsl::span<const float> logits = drawn.row(row);
  const gsl::span<const TokenId> tokens = network_.limits().token_of;
  const auto count = static_cast<size_t>(num_tokens_);
  if (tokens.empty() && logits.size() >= count) return logits.first(count);
  mapped_.assign(count, -std::numeric_limits<float>::infinity());
  for (size_t column = 0; column < logits.size(); ++column) {
    const size_t token = tokens.empty() ? column : static_cast<size_t>(tokens[column]);
    if (token < count) mapped_[token] = logits[column];
  }
  return mapped_;
}

// Computes a row after the newest proposed token of each draftee.
void NetworkDrafting::go_on() {
  ++num_passes_;
  begin_pass();
  states_.of_target = false;
  for (Draftee& draftee : draftees_) {
    add_row(draftee.job->drafts.proposal.back(), draftee.position);
    if (network_.limits().reads_states) states_.rows.push_back(draftee.row);
    draftee.row = batch_.num_logit_rows();
    batch_.logit_rows.push_back(batch_.num_tokens() - 1);
    end_sequence(*draftee.job->lane.sequence);
  }
  compute();
}

}  // namespace quire
