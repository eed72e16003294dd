// Invariants that are checked after every event. I3 to I11 are defined in docs/testing.md.
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "tests/simulation/simulation.h"
#include "tests/simulation/world.h"

namespace quire::testing {

namespace {

constexpr uint64_t kDigestPrime = 1099511628211U;  // FNV-1a

void digest(uint64_t& state, uint64_t value) {
  state = (state ^ value) * kDigestPrime;
}

int8_t place_of(const std::string& name_space) {
  return name_space.empty() ? kFirstSpace : kSecondSpace;
}

}  // namespace

void Simulation::check_all() {
  judge_endings();
  check_pages();
  check_followed_pages();
  check_room();
  check_counts();
  check_quotas();
  for (auto& [tag, model] : jobs_) check_running(model);
}

std::string Simulation::describe(const SimulatedJob& model) const {
  return fmt::format(
      "job {}: kind {}, prompt {} and {}, {} new expected, temperature {}, reuse {}, publish {}, {} jumps{}, "
      "{}",
      model.request.tag, static_cast<int32_t>(model.request.kind), model.request.prompt.size(),
      model.request.negative_prompt.size(), model.expected.tokens.size(), model.request.sampling.temperature,
      model.request.reuse_prefix, model.request.publish_pages, model.jumps.size(),
      model.forked ? ", fork" : "", model.job->explain());
}

// Judges each ending right after the event that caused it, while the injected faults are still recorded.
void Simulation::judge_endings() {
  for (auto& [tag, model] : jobs_) {
    if (model.ended) continue;
    if (model.job->state() == JobState::finished) {
      model.ended = true;
      ++stats_.ended;
      judge(model, model.job->result());
    } else if (engine_ended_ != ErrorCode::ok) {
      violation(fmt::format("I6: still alive after the end of the engine: {}", describe(model)));
    }
  }
  if (ended_for_memory_ > failed_allocations_ && !all_allocations_failed_) {
    violation("I5: one failed allocation ended several jobs");
  }
}

void Simulation::judge(SimulatedJob& model, const JobResult& result) {
  // A row after a draft token only matters if the draft token was correct, and earlier tokens may have ended
  // the job.
  const FaultInjector::Record& faults = faults_->record();
  const bool counts = faults.non_finite_is_first || model.request.kind == JobKind::score;
  const bool non_finite_owner = counts && faults.non_finite_owner == model.request.tag;
  // If the message of one fault could not be allocated, another fault may be reported first.
  if (non_finite_owner && result.error != ErrorCode::numeric && failed_allocations_ == 0) {
    violation("I5: a row that is not finite did not fail the job: " + describe(model));
  }
  if (result.reason == FinishReason::cancelled) {
    if (!model.cancelled) violation("cancelled without a cancel call: " + describe(model));
    return;
  }
  if (result.reason == FinishReason::failed) return judge_failure(model, result);
  if (model.never_fits) violation("I7: a fork that can never fit was accepted: " + describe(model));
  if (result.reason != model.expected.reason) {
    violation(fmt::format("ended with reason {} after {} tokens, expected {}: {}",
                          static_cast<int32_t>(result.reason), result.new_tokens,
                          static_cast<int32_t>(model.expected.reason), describe(model)));
  }
  if (result.new_tokens != static_cast<int32_t>(model.expected.tokens.size())) {
    violation("ended with a wrong number of tokens: " + describe(model));
  }
  if (result.reason == FinishReason::completed) check_output(model);
}

// A failure must be caused by the job itself (its tokens, deadline or reader), or by a fault during this
// event.
void Simulation::judge_failure(SimulatedJob& model, const JobResult& result) {
  const ErrorCode code = result.error;
  if (engine_ended_ == code) return;
  const bool is_its_own = model.expected.reason == FinishReason::failed || model.was_rewound;
  if (is_its_own && model.expected.may_fail_with(code)) return;
  const FaultInjector::Record& faults = faults_->record();
  if (faults.culprit == model.request.tag && faults.code == code) return;
  if (faults.non_finite_owner == model.request.tag && code == ErrorCode::numeric) return;
  // Forced tokens skip rows that are examined if the tokens are draft tokens.
  if (code == ErrorCode::numeric && (drafts_ || model.had_candidates) && model.request.constraint != nullptr)
    return;
  if (code == ErrorCode::out_of_memory && failed_allocations_ > 0) {
    ++ended_for_memory_;
    return;
  }
  // Its parent may have failed in the same step.
  if (code == ErrorCode::closed && model.forked && failed_allocations_ > 0) return;
  if (code == ErrorCode::deadline && missed_deadline(model, result)) return;
  if (code == ErrorCode::slow_reader && model.request.slow_reader == SlowReaderPolicy::end) return;
  if (model.never_fits && code == ErrorCode::too_large) return;
  violation(fmt::format("I5: failed with {} ({}) without a fault of its own: {}", error_code_name(code),
                        result.message, describe(model)));
}

bool Simulation::missed_deadline(const SimulatedJob& model, const JobResult& result) const {
  const Duration age = clock_.now() - model.submitted;
  const auto missed = [&](Duration deadline) { return deadline > Duration{0} && age >= deadline; };
  const JobRequest& request = model.request;
  if (result.message == "queue_deadline_ns passed") return missed(request.queue_deadline);
  if (result.message == "first_token_deadline_ns passed") return missed(request.first_token_deadline);
  if (result.message == "deadline_ns passed") return missed(request.total_deadline);
  const bool any = missed(request.queue_deadline) || missed(request.first_token_deadline) ||
                   missed(request.total_deadline);
  return any && failed_allocations_ > 0;  // the message could not be allocated
}

void Simulation::check_output(const SimulatedJob& model) {
  if (model.request.kind != JobKind::score) return;
  const std::vector<float> expected = oracle_->scores(model.request.prompt);
  const std::vector<float> scores = model.job->scores();
  bool same = scores.size() == expected.size();
  // Both sum in double, so they differ only by the rounding to float.
  for (size_t i = 0; same && i < scores.size(); ++i) same = std::abs(scores[i] - expected[i]) < 1e-4F;
  if (!same) violation("wrong scores: " + describe(model));
}

void Simulation::take(SimulatedJob& model, Event event) {
  digest(stats_.digest, model.request.tag * 8 + static_cast<uint64_t>(event.kind));
  for (const TokenId token : event.token_ids) digest(stats_.digest, static_cast<uint64_t>(token));
  digest(stats_.digest, event.text.size() * 64 + static_cast<uint64_t>(event.error));
  // If a constraint ends without a token, the held text is reported alone, because its tokens may have been
  // reported before.
  const bool may_be_bare = model.expected.reason == FinishReason::completed;
  if (event.kind == EventKind::text && event.token_ids.empty() && !may_be_bare)
    violation("a text event without tokens");
  if (event.kind == EventKind::started && model.seen.num_started > 0) violation("a job started twice");
  if (event.kind == EventKind::progress && event.done_tokens > event.total_tokens)
    violation("progress beyond the end");
  const size_t num_log_probs = model.request.want_log_probs ? event.token_ids.size() : 0;
  if (event.log_probs.size() != num_log_probs) violation("log_probs per token");
  const bool terminal = event.terminal();
  add_event(model.seen, std::move(event));
  if (model.seen.num_terminal > 1 || model.seen.num_after_terminal > 0)
    violation("I3: an event after the last one");
  if (terminal) check_transcript(model);
}

// The output of a job is the same with any other jobs as alone.
void Simulation::check_transcript(const SimulatedJob& model) {
  const Transcript& seen = model.seen;
  const TokenIds& expected = model.expected.tokens;
  if (!model.ended) violation("I3: a terminal event of a job that has not ended");
  const JobResult result = model.job->result();
  if (seen.terminal.reason != result.reason || seen.terminal.error != result.error) {
    violation("the terminal event and the result differ: " + describe(model));
  }
  size_t position = 0;
  size_t jump = 0;
  for (size_t i = 0; i <= seen.tokens.size(); ++i) {
    while (jump < model.jumps.size() && model.jumps[jump].first == i) position = model.jumps[jump++].second;
    if (i == seen.tokens.size()) break;
    const bool same =
        position < expected.size() && seen.tokens[i] == expected[position] &&
        (!model.request.want_log_probs || seen.log_probs[i] == model.expected.log_probs[position]);
    if (!same) {
      return violation(fmt::format("I5: token {} differs from a run alone: {}; got {}, expected {}", i,
                                   describe(model), fmt::join(seen.tokens, " "), fmt::join(expected, " ")));
    }
    ++position;
  }
  const bool whole = result.reason != FinishReason::failed && result.reason != FinishReason::cancelled;
  if (whole && position != expected.size()) violation("tokens are missing: " + describe(model));
  if (model.rewound()) return;  // text that was output before a rewind is not withdrawn
  const bool text_fits = whole ? seen.text == model.expected.text
                               : model.expected.text.compare(0, seen.text.size(), seen.text) == 0;
  if (!text_fits)
    violation(fmt::format("I14: the text is \"{}\", expected \"{}\": {}", seen.text, model.expected.text,
                          describe(model)));
}

void Simulation::check_pages() {
  const KvCache& kv = loop().kv();
  if (engine_->executor->num_bad_reads() > 0) violation("I9: a sequence was read from a wrong position");
  const std::string problem = kv.audit();
  if (!problem.empty()) violation("I4: " + problem);
  poison_empty_slots();
  for (int32_t slot = 0; slot < limits_.num_pages; ++slot) {
    const PageId page{slot};
    if (kv.pool().is_free(page)) {
      engine_->executor->poison(page);
      engine_->executor->mark(page) = kNoSpace;
    }
    const auto tokens = kv.pool().tokens(page);
    if (!engine_->executor->holds(page, tokens))
      violation("I9: the content of a page differs from its recorded tokens");
    check_slots(page, tokens);
    if (!kv.pool().is_cached(page)) continue;
    const TokenId poison = oracle_->special().poison;
    if (std::find(tokens.begin(), tokens.end(), poison) != tokens.end())
      violation("I5: a poisoned page is shared");
  }
}

// A reader of page events has exactly the pages that can be found, or was notified of a gap. A lost event
// shows in the number of the next one.
void Simulation::check_followed_pages() {
  const std::vector<Event> events = page_queue_->drain(100000, Duration{0});
  for (const Event& event : events) replay_.take(event);
  if (!replay_.problem().empty()) violation("I4: page events: " + replay_.problem());
  page_events_may_lack_ |= failed_allocations_ > 0;
  PageReplay::Pages there;
  if (engine_ended_ == ErrorCode::ok) there = PageReplay::of(loop().kv());
  const bool agrees = replay_.in_order() && replay_.pages_on(PageMedium::device) == there;
  if (agrees && failed_allocations_ == 0 && !events.empty()) page_events_may_lack_ = false;
  stats_.pages_followed += agrees ? there.size() : 0;
  if (agrees || loop().jobs().metrics_store().cache().steps == 0) return;
  if (!page_events_may_lack_) {
    violation(fmt::format("I4: a page reader has {} pages{}, and {} can be found",
                          replay_.count(PageMedium::device), replay_.in_order() ? "" : " and a gap",
                          there.size()));
  }
  if (engine_ended_ == ErrorCode::ok) engine_->cache->follow_pages({page_queue_, std::nullopt, 0});
}

// The budget counts the memory of the cache beyond its smallest size, to the byte.
void Simulation::check_room() {
  const int32_t num_pages = loop().kv().pool().num_pages();
  if (num_pages < limits_.guaranteed_pages() || num_pages > limits_.num_pages)
    violation(fmt::format("I4: the cache has {} pages", num_pages));
  uint64_t others = 0;
  for (const MemoryLease& lease : others_) others += lease.bytes();
  const uint64_t grown = 10 * static_cast<uint64_t>(num_pages - limits_.guaranteed_pages());
  const uint64_t leased = engine_->cache->runtime()->leased_bytes("card:0");
  if (leased != others + grown)
    violation(fmt::format("I4: {} bytes are leased, others have {} and the cache {}", leased, others, grown));
  if (leased > 10 * static_cast<uint64_t>(limits_.num_pages)) violation("I4: bytes were leased twice");
  stats_.grown += num_pages > num_pages_seen_ ? 1 : 0;
  stats_.shrunk += num_pages < num_pages_seen_ ? 1 : 0;
  num_pages_seen_ = num_pages;
}

// The slots of a page have the same tokens as the page itself.
void Simulation::check_slots(PageId page, gsl::span<const TokenId> tokens) {
  const auto windows = loop().kv().windows();
  for (size_t g = 0; g < windows.size(); ++g) {
    if (windows[g].has(page) && !engine_->executor->slot_holds(g, windows[g].slot(page), tokens))
      violation("I9: the content of a slot differs from its page");
  }
}

// Overwrites slots that are no longer used, whose content must not matter.
void Simulation::poison_empty_slots() {
  const auto windows = loop().kv().windows();
  for (size_t g = 0; g < windows.size(); ++g) {
    for (int32_t slot = 0; slot < windows[g].num_slots(); ++slot) {
      if (windows[g].page_of(slot) < 0) engine_->executor->poison_slot(g, slot);
    }
  }
  const StatePool& states = loop().kv().states();
  for (int32_t slot = 0; slot < states.num_slots(); ++slot) {
    if (!states.is_used(slot) && !states.is_snapshot(slot)) engine_->executor->poison_state(slot);
  }
}

void Simulation::check_counts() {
  const CacheStats stats = engine_->cache->stats();
  const PageStats& pages = stats.pages;
  if (pages.free + pages.cached + pages.referenced != pages.total) violation("I4: pages do not add up");
  size_t num_live = dropped_.size();
  for (const auto& [tag, model] : jobs_) num_live += model.ended ? 0 : 1;
  if (door().num_live() != num_live) {
    std::string names;
    for (const auto& [tag, model] : jobs_) names += model.ended ? "" : "; " + describe(model);
    violation(fmt::format("I3: the engine has {} jobs, {} are alive, {} of them dropped{}", door().num_live(),
                          num_live, dropped_.size(), names));
  }
  const auto known = static_cast<uint64_t>(stats.queued_jobs + stats.running_jobs) + stats.finished_jobs;
  if (stats.submitted_jobs != known) violation("jobs do not add up");
  const bool idle = num_live == 0 && pins_.empty() && pages.pinned == 0;
  if (idle && loop().kv().pool().num_referenced() != 0)
    violation("I4: pages are referenced but no job is alive");
  for (const SlotPool& window : loop().kv().windows()) {
    if (idle && window.num_unused() != window.num_slots())
      violation("I4: slots are used but no job is alive");
    stats_.full_windows += window.num_unused() == 0 ? 1 : 0;
  }
  const StatePool& states = loop().kv().states();
  if (idle && states.num_used() != 0) violation("I4: state slots are used but no job is alive");
  stats_.snapshots += states.num_snapshots() > 0 ? 1 : 0;
}

// A namespace holds at most the pages of its quota; a shared page counts for each job that uses it.
void Simulation::check_quotas() {
  for (const NamespaceOptions& space : cache_options_.namespaces) {
    if (space.quota.max_pages == 0) continue;
    int32_t held_pages = 0;
    const auto add = [&](JobId id) {
      const JobRecord* const record = loop().jobs().find(id);
      if (record == nullptr || record->request.name_space != space.name) return;
      record->for_each_lane([&](const Lane& lane) {
        if (lane.sequence) held_pages += loop().kv().num_pages(*lane.sequence);
      });
    };
    for (const auto& [tag, model] : jobs_) add(model.id);
    for (const JobId id : dropped_) add(id);
    if (held_pages > space.quota.max_pages)
      violation(fmt::format("I4: namespace {} holds {} pages, its quota is {}", space.name, held_pages,
                            space.quota.max_pages));
    stats_.full_quotas += held_pages == space.quota.max_pages ? 1 : 0;
  }
}

// The cached tokens of a running job are its own, and the rules of the queue were followed.
void Simulation::check_running(SimulatedJob& model) {
  if (model.ended) return;
  const JobRecord* const record = loop().jobs().find(model.id);
  if (record == nullptr) return;
  if (record->overtaken > cache_options_.max_overtakes)
    violation("I11: overtaken too often: " + describe(model));
  if (!model.forked && !model.request.reuse_prefix && record->result.cached_tokens != 0) {
    violation("I9: a prefix was found although reuse is off: " + describe(model));
  }
  record->for_each_lane([&](const Lane& lane) {
    if (lane.sequence.has_value() != record->holds_pages())
      violation("I4: one lane alone: " + describe(model));
    if (!lane.sequence) return;
    const auto length = static_cast<size_t>(loop().kv().length(*lane.sequence));
    if (length >= lane.known().size())
      return violation("I9: no token is left to compute: " + describe(model));
    const auto tokens = gsl::span<const TokenId>(lane.tokens).first(length);
    if (!engine_->executor->holds_sequence(loop().kv().pages(*lane.sequence), tokens))
      violation(fmt::format("I9: the pages do not contain its {} tokens: {}", length, describe(model)));
  });
}

// The device works here: if a job can run, a step is never idle, and steps make progress.
void Simulation::check_progress(StepOutcome outcome) {
  if (engine_ended_ != ErrorCode::ok) return;
  const CacheStats stats = engine_->cache->stats();
  const uint64_t mark = stats.new_tokens + stats.finished_jobs;
  const bool excused = faults_->record().step_failed || failed_allocations_ > 0 || stats.running_jobs == 0;
  steps_without_progress_ = excused || mark != progress_mark_ ? 0 : steps_without_progress_ + 1;
  progress_mark_ = mark;
  const auto bound = (static_cast<uint64_t>(limits_.max_sequences) + 1) * uint64_t{2 * kMaxSeqLen};
  if (outcome == StepOutcome::advanced) {
    if (steps_without_progress_ > bound) violation("I11: steps without progress");
    return;
  }
  steps_without_progress_ = 0;
  // If a plan could not be allocated, the engine tries again by itself.
  if (failed_allocations_ > 0 && loop().next_event() != TimePoint::max()) return;
  for (const auto& [tag, model] : jobs_) {
    const JobRecord* const record = model.ended ? nullptr : loop().jobs().find(model.id);
    if (record == nullptr || !record->runnable()) continue;
    violation("I11: no job runs, but this one could: " + describe(model));
  }
}

// Returns the lane of the last row of a sequence; null if the engine no longer needs it.
const PlannedLane* Simulation::planned_of(const Batch& batch, int32_t sequence) {
  const int32_t end = batch.sequence_starts[static_cast<size_t>(sequence) + 1];
  const auto row = std::lower_bound(batch.logit_rows.begin(), batch.logit_rows.end(), end) - 1;
  for (const PlannedLane& planned : loop().plan().lanes) {
    if (planned.last_row() == row - batch.logit_rows.begin()) return &planned;
  }
  return nullptr;
}

// Returns the job of a sequence; 0 if the engine no longer needs it.
uint64_t Simulation::owner_of(const Batch& batch, int32_t sequence) {
  const PlannedLane* const planned = planned_of(batch, sequence);
  if (planned == nullptr) return 0;
  const JobId id = planned->lane->job->id;
  const auto entry =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job.second.id == id; });
  return entry == jobs_.end() ? 0 : entry->first;
}

// A sequence owns the pages that it writes to.
void Simulation::check_owner(const Batch& batch, int32_t sequence, const SimulatedJob& model) {
  const int32_t page_idx = (batch.kv_lengths[static_cast<size_t>(sequence)] - 1) / limits_.page_tokens;
  const int32_t page =
      batch.page_table[static_cast<size_t>(sequence) * static_cast<size_t>(batch.page_table_stride) +
                       static_cast<size_t>(page_idx)];
  const JobRecord* const record = model.ended ? nullptr : loop().jobs().find(model.id);
  if (record == nullptr || !record->holds_pages()) return violation("a finished job takes part in a step");
  const auto pages = loop().kv().pages(*planned_of(batch, sequence)->lane->sequence);
  if (static_cast<size_t>(page_idx) >= pages.size() || pages[static_cast<size_t>(page_idx)].value != page)
    violation("a job writes to a page that it does not own");
}

void Simulation::before_step(const Batch& batch) {
  const AllocationFaultsOff off;
  for (const PageCopy& copy : batch.copies) {
    if (copy.table != 0) continue;
    engine_->executor->mark(copy.target) = engine_->executor->mark(copy.source);
  }
  for (int32_t sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const auto entry = jobs_.find(owner_of(batch, sequence));
    if (entry == jobs_.end()) {
      if (!engine_->executor->runs_ahead()) violation("an unknown job takes part in a step");
      continue;
    }
    const SimulatedJob& model = entry->second;
    check_owner(batch, sequence, model);
    if (model.cancelled) violation("a cancelled job takes part in a step: " + describe(model));
    if (model.paused) violation("a paused job takes part in a step: " + describe(model));
    check_name_space(batch, sequence, place_of(model.request.name_space));
  }
  if (cancel_in_step_ != nullptr) std::exchange(cancel_in_step_, nullptr)->cancel();
}

// I9: a sequence reads only pages written in its namespace.
void Simulation::check_name_space(const Batch& batch, int32_t sequence, int8_t space) {
  const auto s = static_cast<size_t>(sequence);
  const int32_t end = batch.kv_lengths[s];
  const int32_t start = end - (batch.sequence_starts[s + 1] - batch.sequence_starts[s]);
  const int32_t page_tokens = limits_.page_tokens;
  for (int32_t page_idx = 0; page_idx * page_tokens < end; ++page_idx) {
    const size_t entry = s * static_cast<size_t>(batch.page_table_stride) + static_cast<size_t>(page_idx);
    int8_t& written_by = engine_->executor->mark(PageId{batch.page_table[entry]});
    const bool reads = page_idx * page_tokens < start;
    if (reads && written_by != space) violation("I9: a page of another namespace is read");
    if ((page_idx + 1) * page_tokens > start) written_by = space;
  }
}

// The engine recovers from failed steps by itself, so they are visible only in the log.
void Simulation::note_warning(std::string_view line) {
  const AllocationFaultsOff off;
  if (faults_->record().step_failed || step_may_lack_memory_) return;
  violation(fmt::format("I5: a warning without a fault: {}", line));
}

void Simulation::forget_ended() {
  std::erase_if(jobs_, [](const auto& entry) { return entry.second.seen.num_terminal > 0; });
}

}  // namespace quire::testing
