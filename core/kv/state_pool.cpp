#include "core/kv/state_pool.h"

#include <algorithm>

#include <fmt/core.h>

namespace quire {

StatePool::StatePool(int32_t num_slots, int32_t page_tokens)
    : page_tokens_(page_tokens),
      slots_(static_cast<size_t>(num_slots)),
      tokens_(static_cast<size_t>(num_slots) * static_cast<size_t>(page_tokens)) {}

int32_t StatePool::num_snapshots() const {
  return static_cast<int32_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.position >= 0; }));
}

int32_t StatePool::take() noexcept {
  int32_t taken = -1;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    if (is_used(slot)) continue;
    if (!is_snapshot(slot)) {
      taken = slot;
      break;
    }
    if (taken < 0 || at(slot).used_at < at(taken).used_at) taken = slot;
  }
  if (taken < 0) return -1;
  if (is_snapshot(taken)) thaw(taken);
  Slot& slot = at(taken);
  slot.lines = {};
  ++slot.generation;
  use(taken);
  return taken;
}

void StatePool::use(int32_t slot) noexcept {
  num_used_ += at(slot).num_users++ == 0 ? 1 : 0;
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

void StatePool::freeze(int32_t slot, const SnapshotPlace& place) noexcept {
  Expects(is_used(slot) && static_cast<int32_t>(place.tokens.size()) < page_tokens_);
  if (const int32_t same = find(place); same >= 0) return touch(same);
  Slot& frozen = at(slot);
  frozen.position = place.position;
  frozen.parent = place.parent;
  std::copy(place.tokens.begin(), place.tokens.end(), tokens_.begin() + ptrdiff_t{slot} * page_tokens_);
  touch(slot);
}

void StatePool::thaw(int32_t slot) noexcept {
  Slot& thawed = at(slot);
  thawed.position = -1;
  thawed.parent = {};
  ++num_dropped_;
}

void StatePool::forget_after(ContentId parent) noexcept {
  if (parent.value == 0) return;
  for (int32_t slot = 0; slot < num_slots(); ++slot)
    if (is_snapshot(slot) && at(slot).parent == parent) thaw(slot);
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
