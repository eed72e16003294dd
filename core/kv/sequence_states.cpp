// Recurrent states of sequences: how sequences use slots, find snapshots and make them.
#include <algorithm>

#include "core/base/error.h"
#include "core/kv/kv_cache.h"

namespace quire {

namespace {

// Number of tokens after which a long prompt gets a snapshot before its end.
constexpr int32_t kSnapshotTokens = 4096;

int32_t line_before(int32_t position) {
  return position / kernels::kStateLine * kernels::kStateLine;
}

}  // namespace

// Returns whether all windows that end with the found pages have their slots.
bool KvCache::has_windows(int32_t num_found_pages) const {
  const int32_t num_tokens = num_found_pages * pool_.page_tokens();
  return num_tokens == usable_length(num_tokens, [&](const SlotPool& window, int32_t page_idx) {
           return window.has(found_[static_cast<size_t>(page_idx)]);
         });
}

// Returns the last snapshot in `tokens` before which every page and every slot of a window is cached. At
// least one token is left to compute.
KvCache::FoundState KvCache::find_state(ContentId root, gsl::span<const TokenId> tokens) const {
  FoundState best;
  find_whole_pages(root, tokens.first(tokens.size() - 1));
  const gsl::span<const PageId> whole = found_;
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot) {
    if (!states_.is_snapshot(slot)) continue;
    const SnapshotPlace place = states_.place(slot);
    const auto num_pages = static_cast<size_t>(place.position / pool_.page_tokens());
    if (place.position <= best.position || static_cast<size_t>(place.position) >= tokens.size() ||
        num_pages > whole.size() ||
        place.parent != (num_pages == 0 ? root : pool_.content(whole[num_pages - 1])))
      continue;
    const auto own = tokens.first(static_cast<size_t>(place.position)).last(place.tokens.size());
    if (!std::equal(own.begin(), own.end(), place.tokens.begin(), place.tokens.end())) continue;
    if (!has_windows(static_cast<int32_t>(num_pages))) continue;
    const auto rest = pool_.find_longest(place.parent, own, [this](PageId page) { return has_slots(page); });
    if (static_cast<size_t>(rest.num_tokens) < own.size()) continue;
    best = {slot, place.position, whole.first(num_pages)};
  }
  return best;
}

void KvCache::match_state(ContentId root, gsl::span<const TokenId> tokens, PageDemand& demand) const {
  if (root.value == 0 || tokens.size() < 2) return;
  const FoundState found = find_state(root, tokens);
  if (found.slot < 0) return;
  count_found(found.pages, demand);
  demand.found_tokens = found.position;
}

// Returns the pages that a pin of `tokens` keeps. With states these include the page of the last tokens
// before the snapshot.
PinnedPrefix KvCache::find_pinned(ContentId root, gsl::span<const TokenId> tokens) const {
  PinnedPrefix prefix;
  if (states_.is_empty()) {
    const auto found = find_pages(root, 0, tokens);
    prefix.pages.assign(found.begin(), found.end());
    prefix.num_whole = static_cast<int32_t>(found.size());
    return prefix;
  }
  if (tokens.size() < 2) return prefix;
  const FoundState found = find_state(root, tokens);
  if (found.slot < 0) return prefix;
  prefix.state_slot = found.slot;
  prefix.pages.assign(found.pages.begin(), found.pages.end());
  prefix.num_whole = static_cast<int32_t>(found.pages.size());
  const SnapshotPlace place = states_.place(found.slot);
  if (place.tokens.empty()) return prefix;
  prefix.pages.push_back(
      pool_.find_longest(place.parent, place.tokens, [this](PageId page) { return has_slots(page); }).page);
  return prefix;
}

// Throws if a pin of this slot would leave fewer slots than sequences that may run.
void KvCache::check_pinned_states(int32_t slot) const {
  if (slot < 0 || std::find(pins_.states.begin(), pins_.states.end(), slot) != pins_.states.end()) return;
  std::vector<int32_t> pinned = pins_.states;
  std::sort(pinned.begin(), pinned.end());
  const auto num_pinned = std::unique(pinned.begin(), pinned.end()) - pinned.begin();
  if (num_pinned < pins_.max_states) return;
  throw Error(
      ErrorCode::quota,
      "{} prefixes with recurrent states are pinned, and {} is the limit of this cache; unpin one, or "
      "create the cache with a larger max_batch_size",
      num_pinned, pins_.max_states);
}

// Returns the last line before the place where `tokens` leave other cached ones, at least one token before
// their end; 0 if they leave none.
int32_t KvCache::find_junction(ContentId root, gsl::span<const TokenId> tokens) const {
  const auto before_last = tokens.first(tokens.size() - 1);
  find_whole_pages(root, before_last);
  const ContentId tail = found_.empty() ? root : pool_.content(found_.back());
  const size_t whole = found_.size() * static_cast<size_t>(pool_.page_tokens());
  const auto rest = pool_.find_longest(tail, before_last.subspan(whole), [](PageId) { return true; });
  const bool is_left = rest.num_tokens == 0
                           ? pool_.is_continued(tail)
                           : rest.num_tokens < static_cast<int32_t>(pool_.tokens(rest.page).size());
  return is_left ? line_before(static_cast<int32_t>(whole) + rest.num_tokens) : 0;
}

bool KvCache::must_copy_state(const Sequence& sequence) const {
  return sequence.state_slot >= 0 && !states_.is_writable(sequence.state_slot);
}

// Lets a sequence without tokens continue from a snapshot.
void KvCache::adopt_state(size_t change_idx) {
  Change& change = step_.changes[change_idx];
  Sequence& sequence = *change.sequence;
  const gsl::span<const TokenId> tokens = change.lane->lane->known();
  if (!sequence.reuse || sequence.tail.value == 0 || sequence.length > 0 || tokens.size() < 2) return;
  sequence.junction = sequence.publish ? find_junction(sequence.tail, tokens) : 0;
  const FoundState found = find_state(sequence.tail, tokens);
  if (sequence.junction <= found.position ||
      sequence.junction >= line_before(change.lane->lane->num_prompt_tokens - 1))
    sequence.junction = 0;
  if (found.slot < 0) return;
  const SnapshotPlace place = states_.place(found.slot);
  adopt_pages(change_idx, found.pages);
  change.found_rest = static_cast<int32_t>(place.tokens.size());
  if (change.found_rest > 0) touch(find_rest(change).page);
  if (sequence.state_slot >= 0) states_.leave(sequence.state_slot);
  sequence.state_slot = found.slot;
  states_.use(found.slot);
  states_.touch(found.slot);
}

// Gives a lane a state slot that it may write: its own, or a new one into which its state is copied. With as
// many slots as sequences there is always one: a slot that no sequence uses is free or a snapshot, and if
// every slot is used, each has one user, which may overwrite a snapshot in it.
void KvCache::take_state(size_t change_idx) {
  if (states_.is_empty()) return;
  Sequence& sequence = *step_.changes[change_idx].sequence;
  PlannedLane& lane = *step_.changes[change_idx].lane;
  const int32_t before = sequence.state_slot;
  if (before < 0 || !states_.is_writable(before)) {
    step_.state_copies.push_back({before, -1});
    const int32_t own = take_state_slot();
    if (before < 0 || own < 0) step_.state_copies.pop_back();
    if (own >= 0 && before >= 0) {
      step_.state_copies.back().target = own;
      states_.copy_lines(before, own);
      states_.leave(before);
    }
    if (own < 0 && (before < 0 || !states_.has_one_user(before)))
      throw Error(ErrorCode::capacity, "all {} slots of recurrent states are in use", states_.num_slots());
    if (own < 0) {
      offload_state(before);
      states_.thaw(before);
    }
    if (own >= 0) sequence.state_slot = own;
  }
  lane.state_slot = sequence.state_slot;
  lane.state_bank = states_.record(sequence.state_slot, lane.start, lane.num_tokens);
}

bool KvCache::plan_state_ahead(PlannedLane& planned) noexcept {
  if (states_.is_empty()) return true;
  const int32_t slot = get(*planned.lane->sequence).state_slot;
  if (slot < 0 || !states_.is_writable(slot) || !states_.can_continue(slot, planned.start)) return false;
  planned.state_slot = slot;
  planned.state_bank = kernels::state_bank(states_.lines(slot), planned.start);
  states_.abandon(slot, planned.state_bank);
  return true;
}

// Undoes the record of the step and a change of the slot. The slot that a sequence has left may have been
// written since; then it has none.
void KvCache::return_state(const Change& change) noexcept {
  Sequence& sequence = *change.sequence;
  if (change.lane->state_slot >= 0) states_.abandon(change.lane->state_slot, change.lane->state_bank);
  if (sequence.state_slot == change.old_state.slot) return;
  if (sequence.state_slot >= 0) states_.leave(sequence.state_slot);
  sequence.state_slot = -1;
  if (!states_.is_current(change.old_state)) return;
  sequence.state_slot = change.old_state.slot;
  states_.use(sequence.state_slot);
}

// Returns the place of a snapshot of a sequence; without a parent if its pages cannot be found.
SnapshotPlace KvCache::place_of(const Sequence& sequence, int32_t position) const {
  const auto page_idx = static_cast<size_t>(position / pool_.page_tokens());
  const auto num_rest = static_cast<size_t>(position % pool_.page_tokens());
  SnapshotPlace place;
  place.position = position;
  place.parent = page_idx == 0 ? sequence.root.content : pool_.content(sequence.pages[page_idx - 1]);
  if (num_rest == 0) return place;
  const auto recorded = pool_.tokens(sequence.pages[page_idx]);
  if (recorded.size() < num_rest) return {};
  place.tokens = recorded.first(num_rest);
  return place;
}

// Returns whether a snapshot is of the beginning of a sequence.
bool KvCache::holds_place(const Sequence& sequence, const SnapshotPlace& place) const {
  const SnapshotPlace own = place_of(sequence, place.position);
  return own.parent == place.parent &&
         std::equal(own.tokens.begin(), own.tokens.end(), place.tokens.begin(), place.tokens.end());
}

// Returns the last snapshot in the first num_tokens tokens of a sequence; -1 if there is none that it may
// use.
int32_t KvCache::find_own_snapshot(const Sequence& sequence, int32_t num_tokens) const noexcept {
  int32_t best = -1;
  if (!sequence.reuse || sequence.tail.value == 0) return best;
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot) {
    if (!states_.is_snapshot(slot)) continue;
    const SnapshotPlace place = states_.place(slot);
    if (place.position > num_tokens || (best >= 0 && place.position <= states_.place(best).position))
      continue;
    if (holds_place(sequence, place)) best = slot;
  }
  return best;
}

// Returns the largest length up to num_tokens from which the sequence can continue. Lets it continue in its
// own slot or in that of a snapshot; length 0 needs none.
int32_t KvCache::continue_state(Sequence& sequence, int32_t num_tokens) noexcept {
  if (states_.is_empty()) return num_tokens;
  if (num_tokens > 0 && sequence.state_slot >= 0 && states_.can_continue(sequence.state_slot, num_tokens))
    return num_tokens;
  const int32_t found = find_own_snapshot(sequence, num_tokens);
  if (found >= 0) states_.use(found);
  if (sequence.state_slot >= 0) states_.leave(sequence.state_slot);
  sequence.state_slot = found;
  if (found < 0) return 0;
  states_.touch(found);
  return states_.place(found).position;
}

// Shortens a sequence whose state cannot continue at its end: after many rejected drafts, or if a failed step
// has overwritten it.
void KvCache::settle_state(Sequence& sequence) noexcept {
  if (states_.is_empty() || sequence.length == 0) return;
  const bool can = sequence.state_slot >= 0 && states_.can_continue(sequence.state_slot, sequence.length);
  if (!can) cut(sequence, sequence.length);
}

// Makes the state of a sequence a snapshot if the step has computed the tokens that it has in common with
// another prompt, the end of its prompt, or many tokens since the last one. The token after the snapshot of a
// prompt belongs to the prompt, so that the same prompt finds it.
void KvCache::freeze_state(const Change& change) noexcept {
  const Sequence& sequence = *change.sequence;
  if (sequence.state_slot < 0 || !sequence.publish || sequence.tail.value == 0) return;
  const int32_t start = change.lane->start, end = sequence.length;
  const int32_t prompt = change.lane->lane->num_prompt_tokens;
  int32_t position = 0;
  if (start < sequence.junction && end >= sequence.junction) {
    position = sequence.junction;
  } else if (start < prompt && end >= prompt) {
    position = line_before(prompt - 1);
  } else if (end / kSnapshotTokens > start / kSnapshotTokens) {
    position = line_before(end);
  }
  if (position == 0 || states_.is_snapshot(sequence.state_slot) ||
      !states_.can_continue(sequence.state_slot, position))
    return;
  freeze(sequence, position);
}

void KvCache::freeze(const Sequence& sequence, int32_t position) noexcept {
  const SnapshotPlace place = place_of(sequence, position);
  if (place.parent.value == 0) return;
  states_.freeze(sequence.state_slot, place, find_own_snapshot(sequence, position - 1),
                 position == sequence.junction ? SnapshotKind::junction : SnapshotKind::end);
  const auto num_pages = static_cast<size_t>(position / pool_.page_tokens());
  const PageName& before = num_pages == 0
                               ? PageName{sequence.root.key, std::nullopt, sequence.root.name_space}
                               : names_[static_cast<size_t>(sequence.pages[num_pages - 1].value)];
  if (!states_.is_snapshot(sequence.state_slot)) return;
  name_state(sequence.state_slot, before);
  note_windows(sequence.state_slot, gsl::span<const PageId>(sequence.pages).first(num_pages));
}

// Leaves the slot of a sequence that ends. Its state becomes a snapshot, for the next turn of a conversation
// or when a preempted job continues.
void KvCache::leave_state(Sequence& sequence) noexcept {
  const int32_t slot = sequence.state_slot;
  if (slot < 0) return;
  const int32_t position = line_before(sequence.length);
  if (position > 0 && sequence.publish && sequence.tail.value != 0 && states_.is_writable(slot) &&
      states_.can_continue(slot, position))
    freeze(sequence, position);
  states_.leave(slot);
  sequence.state_slot = -1;
}

std::string KvCache::audit_states() const {
  std::vector<int32_t> users(static_cast<size_t>(states_.num_slots()), 0);
  for (const int32_t slot : pins_.states) ++users[static_cast<size_t>(slot)];
  for (const auto& sequence : sequences_.places()) {
    if (sequence->state_slot >= 0) ++users[static_cast<size_t>(sequence->state_slot)];
    if (states_.is_empty() || sequence->length == 0) continue;
    if (sequence->state_slot < 0 || !states_.can_continue(sequence->state_slot, sequence->length))
      return "a sequence cannot continue from its state";
  }
  return states_.audit(users);
}

}  // namespace quire
