// Reservation of the pages of a step: allocation, commit and rollback.
#include <algorithm>

#include "core/base/error.h"
#include "core/kv/kv_cache.h"

namespace quire {

// Finds the prefixes of all sequences before it allocates the first page, so that no eviction takes a page
// that another sequence of the same step was going to share.
Reservation KvCache::reserve(StepPlan& plan) {
  Expects(!step_.is_open);
  step_.is_open = true;
  Reservation reservation(*this);  // from here on, an exception rolls back
  for (PlannedLane& lane : plan.lanes) {
    Sequence& sequence = get(*lane.lane->sequence);
    lane.state_slot = -1;
    step_.changes.push_back(
        {&sequence, sequence.length, sequence.length, sequence.tail, sequence.slots, &lane, {}});
    if (sequence.state_slot >= 0) step_.changes.back().old_state = states_.name(sequence.state_slot);
    adopt(step_.changes.size() - 1);
  }
  for (size_t i = 0; i < step_.changes.size(); ++i) extend(i);
  for (const Change& change : step_.changes) change.lane->pages = change.sequence->pages;
  return reservation;
}

bool KvCache::preallocate_pages(SequenceId id, int32_t num_tokens) {
  Sequence& sequence = get(id);
  const auto wanted = static_cast<size_t>(pages_for(num_tokens, pool_.page_tokens()));
  const auto open = std::find_if(step_.changes.begin(), step_.changes.end(),
                                 [&](const Change& change) { return change.sequence == &sequence; });
  while (sequence.pages.size() < wanted) {
    if (pool_.num_available() == 0 || sequence.pages.size() >= sequences_.max_pages()) return false;
    if (open == step_.changes.end()) {
      sequence.pages.push_back(allocate_page());  // within the capacity reserved at creation
    } else {
      place(static_cast<size_t>(open - step_.changes.begin()), sequence.pages.size(), allocate_page());
    }
  }
  if (open != step_.changes.end()) open->lane->pages = sequence.pages;
  return preallocate_slots(sequence, static_cast<int32_t>(wanted), open != step_.changes.end());
}

bool KvCache::preallocate_slots(Sequence& sequence, int32_t end, bool is_open) {
  for (size_t g = 0; g < windows_.size(); ++g) {
    for (SlotRange& range = sequence.slots[g]; range.end < end; ++range.end) {
      const PageId page = sequence.pages[static_cast<size_t>(range.end)];
      if (!windows_[g].is_used(page) && windows_[g].num_unused() == 0) return false;
      if (is_open) {
        take_slot(g, page);
      } else {
        use_slot(g, page);
      }
    }
  }
  return true;
}

// Puts `page`, which already has a reference for this sequence, into its page table.
void KvCache::place(size_t change_idx, size_t page_idx, PageId page) {
  std::vector<PageId>& pages = step_.changes[change_idx].sequence->pages;
  const bool appends = page_idx == pages.size();
  try {
    if (page_idx >= sequences_.max_pages()) {
      throw Error(ErrorCode::capacity, "a sequence may have at most {} pages", sequences_.max_pages());
    }
    step_.undo.push_back({change_idx, page_idx, appends ? PageId{-1} : pages[page_idx]});
  } catch (...) {
    release_page(page);
    throw;
  }
  if (appends) {
    pages.push_back(page);  // within the capacity reserved at creation
  } else {
    pages[page_idx] = page;
  }
}

// Adds all whole pages that a sequence at a page boundary can share to its table. Always leaves the last
// token to compute: its row gives the next logits.
void KvCache::adopt(size_t change_idx) {
  if (!states_.is_empty()) return adopt_state(change_idx);
  Sequence& sequence = *step_.changes[change_idx].sequence;
  const gsl::span<const TokenId> tokens = step_.changes[change_idx].lane->lane->known();
  if (!sequence.reuse || sequence.tail.value == 0 || sequence.length % pool_.page_tokens() != 0) return;
  const auto length = static_cast<size_t>(sequence.length);
  const auto first = length / static_cast<size_t>(pool_.page_tokens());
  const auto found = find_pages(sequence.tail, static_cast<int32_t>(first),
                                tokens.subspan(length, tokens.size() - length - 1));
  adopt_pages(change_idx, found);
}

void KvCache::adopt_pages(size_t change_idx, gsl::span<const PageId> found) {
  if (found.empty()) return;
  Sequence& sequence = *step_.changes[change_idx].sequence;
  const auto first = static_cast<size_t>(sequence.length / pool_.page_tokens());
  adopt_slots(change_idx, found);
  for (size_t i = 0; i < found.size(); ++i) {
    pool_.reference(found[i]);
    place(change_idx, first + i, found[i]);
  }
  sequence.tail = pool_.content(found.back());
  sequence.length += static_cast<int32_t>(found.size()) * pool_.page_tokens();
}

namespace {

// Ends a step at the junction of a sequence, so that its state there becomes a snapshot.
int32_t before_junction(const Sequence& sequence, int32_t start, int32_t num_tokens) {
  return start < sequence.junction ? std::min(num_tokens, sequence.junction - start) : num_tokens;
}

}  // namespace

void KvCache::extend(size_t change_idx) {
  PlannedLane& lane = *step_.changes[change_idx].lane;
  const gsl::span<const TokenId> tokens = lane.lane->tokens;
  Sequence& sequence = *step_.changes[change_idx].sequence;
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  step_.changes[change_idx].own_start = sequence.length;
  if (must_copy_tail(sequence)) {
    copy_tail(change_idx);
  } else if (sequence.length % pool_.page_tokens() != 0) {
    // Drops the record of the tokens that are about to be overwritten, even if the step is rolled back later.
    pool_.truncate(sequence.pages[static_cast<size_t>(sequence.length) / page_tokens],
                   sequence.length % pool_.page_tokens());
  }

  const auto start = static_cast<size_t>(sequence.length);
  const PagePool::PartialMatch partial = find_rest(step_.changes[change_idx]);
  const int32_t found = partial.num_tokens;
  if (found > 0 && states_.is_empty()) touch(partial.page);
  const SlotCounts source_slots = slots_of(partial.page);
  const auto left = static_cast<int32_t>(tokens.size()) - sequence.length - found;
  const int32_t num_tokens =
      before_junction(sequence, sequence.length + found, std::min(left, lane.max_tokens));
  const auto target =
      static_cast<size_t>(std::max(sequence.length + found + num_tokens, lane.reserve_tokens));
  while (sequence.pages.size() * page_tokens < target)
    place(change_idx, sequence.pages.size(), allocate_page());
  take_slots(sequence, pages_for(sequence.length + found + num_tokens, pool_.page_tokens()));
  if (found > 0) {
    const PageId target_page = sequence.pages[start / page_tokens];
    // If the source itself was the last available page, its content is in place already.
    if (target_page != partial.page) step_.copies.push_back({partial.page, target_page, found});
    copy_slots(source_slots, target_page, found);
    sequence.length += found;
  }
  lane.start = sequence.length;
  lane.num_tokens = num_tokens;
  lane.num_rows = std::min(num_tokens, lane.num_rows);
  lane.num_found_tokens = sequence.length - step_.changes[change_idx].old_length;
  take_state(change_idx);
}

// Returns the page whose first tokens the sequence copies, and how many of them.
PagePool::PartialMatch KvCache::find_rest(const Change& change) const {
  const Sequence& sequence = *change.sequence;
  const auto tokens = change.lane->lane->known().subspan(static_cast<size_t>(sequence.length));
  if (states_.is_empty()) {
    const bool shares = sequence.reuse && sequence.tail.value != 0;
    return shares && sequence.length % pool_.page_tokens() == 0 ? find_partial_page(sequence.tail, tokens)
                                                                : PagePool::PartialMatch();
  }
  if (change.found_rest == 0) return {};
  const auto rest = pool_.find_longest(sequence.tail, tokens.first(static_cast<size_t>(change.found_rest)),
                                       [this](PageId page) { return has_slots(page); });
  // adopt_state has marked it as just used, so it is still there unless the plan takes too many pages.
  if (rest.num_tokens < change.found_rest)
    throw Error(ErrorCode::capacity, "a page of a found prefix was evicted for this step");
  return rest;
}

// Copy-on-write: other sequences share the page that this sequence would write to, so it gets a copy of its
// own.
void KvCache::copy_tail(size_t change_idx) {
  Sequence& sequence = *step_.changes[change_idx].sequence;
  const auto page_idx = static_cast<size_t>(sequence.length / pool_.page_tokens());
  const PageId shared = sequence.pages[page_idx];
  const PageId own = allocate_page();
  place(change_idx, page_idx, own);
  for (size_t g = 0; g < windows_.size(); ++g) {
    step_.released_slots.push_back({g, shared});
    take_slot(g, own);
  }
  const int32_t num_tokens = sequence.length % pool_.page_tokens();
  step_.copies.push_back({shared, own, num_tokens});
  copy_slots(slots_of(shared), own, num_tokens);
}

void KvCache::commit() noexcept {
  for (const SlotUse& left : step_.released_slots) windows_[left.group].leave(left.page);
  for (const Undo& undo : step_.undo) {
    if (undo.before.value >= 0) release_page(undo.before);
  }
  for (const Change& change : step_.changes) {
    // If its lane faulted, a page filled by a copy was not accepted and stays unpublished; the sequence is
    // about to be destroyed.
    if (change.lane->faulted) {
      change.sequence->publish = false;
      continue;
    }
    keep(change, change.lane->num_accepted);
    release_slots_before_window(*change.sequence);
    settle_state(*change.sequence);
    freeze_state(change);
  }
  step_.clear();
}

// Records the accepted tokens: those copied from another page, then the computed ones. Adopted pages have
// theirs recorded already.
void KvCache::keep(const Change& change, int32_t num_tokens) noexcept {
  Sequence& sequence = *change.sequence;
  const gsl::span<const TokenId> tokens = change.lane->lane->tokens;
  const int32_t page_tokens = pool_.page_tokens();
  const int32_t end = sequence.length + num_tokens;
  int32_t position = change.own_start / page_tokens * page_tokens;
  while (position < end) {
    const auto page_idx = static_cast<size_t>(position / page_tokens);
    const int32_t page_end = std::min(end, position + page_tokens);
    // A page that the sequence wrote before has its older tokens recorded; a copied page has none.
    const auto recorded = static_cast<int32_t>(pool_.tokens(sequence.pages[page_idx]).size());
    const int32_t first = position + std::min(recorded, std::max(0, change.own_start - position));
    keep_page(sequence, page_idx, first - position,
              tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(page_end - first)));
    position = page_end;
  }
  sequence.length = end;
}

void KvCache::keep_page(Sequence& sequence, size_t page_idx, int32_t offset,
                        gsl::span<const TokenId> tokens) noexcept {
  const PageId page = sequence.pages[page_idx];
  pool_.record(page, offset, tokens);
  if (!sequence.publish || sequence.tail.value == 0) {
    sequence.tail = ContentId{};
    return;
  }
  pool_.show(page, sequence.tail);
  if (offset + static_cast<int32_t>(tokens.size()) < pool_.page_tokens()) return;
  const PageId kept = pool_.publish(page);
  if (kept != page) {
    pool_.reference(kept);
    for (SlotPool& window : windows_) window.hand_over(page, kept);
    release_page(page);
    sequence.pages[page_idx] = kept;
    ++num_deduplicated_;
  }
  sequence.tail = pool_.content(kept);
  if (kept != page) return;
  const PrefixKey parent =
      page_idx == 0 ? PrefixKey{} : names_[static_cast<size_t>(sequence.pages[page_idx - 1].value)].key;
  const PrefixKey& before = page_idx == 0 ? sequence.root.key : parent;
  name_page(kept, {key_after(before, pool_.tokens(kept)), parent, sequence.root.name_space});
}

void KvCache::roll_back() noexcept {
  for (auto taken = step_.allocated_slots.rbegin(); taken != step_.allocated_slots.rend(); ++taken)
    windows_[taken->group].leave(taken->page);
  for (auto undo = step_.undo.rbegin(); undo != step_.undo.rend(); ++undo) {
    std::vector<PageId>& pages = step_.changes[undo->sequence_idx].sequence->pages;
    const PageId page = pages[undo->page_idx];
    if (undo->before.value < 0) {
      pages.pop_back();
    } else {
      pages[undo->page_idx] = undo->before;
    }
    release_page(page);
  }
  for (const Change& change : step_.changes) {
    change.sequence->length = change.old_length;
    change.sequence->tail = change.old_tail;
    change.sequence->slots = change.old_slots;
    return_state(change);
  }
  for (const Change& change : step_.changes) settle_state(*change.sequence);
  step_.clear();
}

// Reserves the memory that steps of this many sequences are likely to need.
void KvCache::OpenStep::reserve(size_t num_sequences, size_t num_windows) {
  changes.reserve(num_sequences);
  copies.reserve(num_sequences * 2);
  state_copies.reserve(num_sequences);
  undo.reserve(num_sequences * 4);
  allocated_slots.reserve(num_sequences * 4 * num_windows);
  released_slots.reserve(num_sequences * 4 * num_windows);
}

void KvCache::OpenStep::clear() noexcept {
  changes.clear();
  undo.clear();
  copies.clear();
  state_copies.clear();
  allocated_slots.clear();
  released_slots.clear();
  is_open = false;
}

void Reservation::commit() noexcept {
  Expects(open_);
  open_ = false;
  cache_->commit();
}

Reservation::~Reservation() {
  if (open_) cache_->roll_back();
}

}  // namespace quire
