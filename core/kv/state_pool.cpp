#include "core/kv/state_pool.h"

#include <algorithm>

#include <fmt/core.h>

namespace quire {

StatePool::StatePool(const StateSlotRange& range, int32_t page_tokens)
    : range_(range),
      page_tokens_(page_tokens),
      slots_(static_cast<size_t>(range.num_slots)),
      tokens_(static_cast<size_t>(range.num_slots) * static_cast<size_t>(page_tokens)),
      num_slots_(range.slots_at(range.least_pages)) {}

void StatePool::grow(int32_t num_slots) noexcept {
  Expects(num_slots <= max_slots());
  for (; num_slots_ < num_slots; ++num_slots_) ++at(num_slots_).generation;  // undefined content
}

void StatePool::shrink(int32_t num_slots) noexcept {
  for (int32_t slot = num_slots; slot < num_slots_; ++slot) Expects(!is_used(slot) && !is_snapshot(slot));
  num_slots_ = std::min(num_slots_, num_slots);
}

int32_t StatePool::end_of_used() const noexcept {
  int32_t end = num_slots_;
  while (end > 0 && !is_used(end - 1)) --end;
  return end;
}

int32_t StatePool::num_snapshots() const {
  return static_cast<int32_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.position >= 0; }));
}

// Returns a free slot, else the snapshot of the least worth without users; -1 if all slots are used.
int32_t StatePool::next_taken() const noexcept {
  int32_t taken = -1;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    if (is_used(slot)) continue;
    if (!is_snapshot(slot)) return slot;
    if (taken < 0 || at(slot).worth < at(taken).worth) taken = slot;
  }
  return taken;
}

int32_t StatePool::next_dropped() const noexcept {
  const int32_t taken = next_taken();
  return taken >= 0 && is_snapshot(taken) ? taken : -1;
}

int32_t StatePool::take() noexcept {
  const int32_t taken = next_taken();
  if (taken < 0) return -1;
  if (is_snapshot(taken)) {
    dropped_worth_ = std::max(dropped_worth_, at(taken).worth);
    thaw(taken);
  }
  Slot& slot = at(taken);
  slot.lines = {};
  ++slot.generation;
  use(taken);
  return taken;
}

void StatePool::use(int32_t slot) noexcept {
  num_used_ += at(slot).num_users++ == 0 ? 1 : 0;
  most_used_ = std::max(most_used_, num_used_);
}

void StatePool::leave(int32_t slot) noexcept {
  Expects(is_used(slot));
  num_used_ -= --at(slot).num_users == 0 ? 1 : 0;
}

int32_t StatePool::record(int32_t slot, int32_t position, int32_t num_tokens) noexcept {
  kernels::StateLines& lines = at(slot).lines;
  const int32_t bank = kernels::state_bank(lines, position);
  Expects(bank >= 0 && is_used(slot));
  lines = kernels::lines_after(lines, position, num_tokens, bank);
  ++at(slot).generation;
  return bank;
}

void StatePool::abandon(int32_t slot, int32_t bank) noexcept {
  at(slot).lines.line[1 - bank % kernels::kFromLineBefore] = -1;
}

// Computes the worth of a snapshot that is used now.
void StatePool::rate(Slot& snapshot) noexcept {
  const bool saves = snapshot.kind == SnapshotKind::junction || !snapshot.is_followed;
  snapshot.worth = dropped_worth_ + (saves ? static_cast<uint64_t>(snapshot.num_saved_tokens) : 0);
}

// A snapshot that is found although another one follows it is a place where prompts part.
void StatePool::touch(int32_t slot) noexcept {
  if (at(slot).is_followed) at(slot).kind = SnapshotKind::junction;
  rate(at(slot));
}

void StatePool::freeze(int32_t slot, const SnapshotPlace& place, int32_t before, SnapshotKind kind) noexcept {
  Expects(is_used(slot) && static_cast<int32_t>(place.tokens.size()) < page_tokens_);
  if (const int32_t same = find(place); same >= 0) return touch(same);
  Slot& frozen = at(slot);
  frozen.position = place.position;
  frozen.parent = place.parent;
  frozen.id = ++last_id_;
  frozen.before_id = before < 0 ? 0 : at(before).id;
  frozen.kind = kind;
  frozen.is_followed = false;
  frozen.num_saved_tokens = place.position - (before < 0 ? 0 : at(before).position);
  std::copy(place.tokens.begin(), place.tokens.end(), tokens_.begin() + ptrdiff_t{slot} * page_tokens_);
  rate(frozen);
  if (before < 0) return;
  at(before).is_followed = true;
  rate(at(before));
}

void StatePool::thaw(int32_t slot) noexcept {
  Slot& thawed = at(slot);
  thawed.position = -1;
  thawed.parent = {};
  ++num_dropped_;
  bool is_followed = false;  // the snapshot before it, by another one
  for (Slot& next : slots_) {
    if (next.position < 0) continue;
    if (thawed.before_id != 0 && next.before_id == thawed.before_id) is_followed = true;
    if (next.before_id != thawed.id) continue;
    // A hit of the next snapshot in the prefix now saves the tokens of both.
    next.before_id = thawed.before_id;
    next.num_saved_tokens += thawed.num_saved_tokens;
    if (next.kind == SnapshotKind::junction || !next.is_followed)
      next.worth += static_cast<uint64_t>(thawed.num_saved_tokens);
    is_followed = true;
  }
  for (Slot& before : slots_) {
    if (before.position < 0 || before.id != thawed.before_id || is_followed || !before.is_followed) continue;
    before.is_followed = false;
    rate(before);
  }
}

void StatePool::fill(int32_t slot, int32_t position, int32_t bank) noexcept {
  Expects(is_used(slot) && position % kernels::kStateLine == 0);
  at(slot).lines = {};
  at(slot).lines.line[0] = position / kernels::kStateLine - (bank >= kernels::kFromLineBefore ? 1 : 0);
}

SnapshotPlace StatePool::place(int32_t slot) const {
  const Slot& of = at(slot);
  const auto first = static_cast<size_t>(slot) * static_cast<size_t>(page_tokens_);
  return {of.parent, of.position,
          gsl::span<const TokenId>(tokens_).subspan(first, static_cast<size_t>(of.position % page_tokens_))};
}

int32_t StatePool::find(const SnapshotPlace& wanted) const noexcept {
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    if (at(slot).position != wanted.position || at(slot).parent != wanted.parent) continue;
    const SnapshotPlace held = place(slot);
    if (std::equal(held.tokens.begin(), held.tokens.end(), wanted.tokens.begin(), wanted.tokens.end()))
      return slot;
  }
  return -1;
}

std::string StatePool::audit(gsl::span<const int32_t> users) const {
  int32_t used = 0;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    const Slot& held = at(slot);
    if (held.num_users != users[static_cast<size_t>(slot)])
      return fmt::format("state slot {} counts {} users but has {}", slot, held.num_users,
                         users[static_cast<size_t>(slot)]);
    used += held.num_users > 0 ? 1 : 0;
    if (held.position < 0) continue;
    if (held.position % kernels::kStateLine != 0 || !can_continue(slot, held.position))
      return fmt::format("state slot {} cannot continue at its snapshot", slot);
    for (int32_t other = 0; other < slot; ++other)
      if (at(other).position == held.position && find(place(slot)) != slot)
        return fmt::format("state slot {} has the snapshot of another", slot);
  }
  return used == num_used_ ? std::string()
                           : fmt::format("{} state slots are used, {} counted", used, num_used_);
}

}  // namespace quire
