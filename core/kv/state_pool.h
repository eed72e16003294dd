// Slots with the states of recurrent layers: who uses them, which lines they hold, and which are snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/kv/content.h"
#include "core/step/state_slots.h"
#include "kernels/interface/state_specs.h"

namespace quire {

// Number of the slot of a sequence, and the contents that it had then. A slot that was given away since has
// another generation.
struct StateSlot {
  int32_t slot = -1;  // -1: none
  uint64_t generation = 0;
};

// What a snapshot is for.
enum class SnapshotKind {
  end,       // the end of a prompt or a job, or some tokens of a long prompt
  junction,  // a place where prompts part
};

// Place of a snapshot in its prefix: the last whole page before it, and the tokens of the next page up to it.
struct SnapshotPlace {
  ContentId parent;
  int32_t position = 0;  // tokens before it
  gsl::span<const TokenId> tokens;
};

// A slot is free, used by sequences or pins, a snapshot, or both of the latter. It may be written only by its
// single user, and only if it is no snapshot: so a published state never changes. A snapshot without users
// stays until its slot is needed; the one of the least worth is dropped first. Its worth is the number of
// tokens that a hit saves over the snapshot before it in the same prefix, plus the worth of the last dropped
// one at the time of its last use (GreedyDual). A snapshot that is followed by another one of the same
// prefix, as an older turn of a conversation is, saves nothing while that one is there, unless prompts part
// at it. Allocates all its memory at construction. For one thread at a time.
class StatePool {
 public:
  // `page_tokens` is the size of a page, which bounds the tokens of a SnapshotPlace. At first as many slots
  // have memory as with range.least_pages; the others are in none of these states.
  StatePool(const StateSlotRange& range, int32_t page_tokens);

  bool is_empty() const { return slots_.empty(); }
  int32_t num_slots() const { return num_slots_; }  // that have memory
  int32_t max_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t slots_at(int32_t num_pages) const { return range_.slots_at(num_pages); }
  // Set the number of slots that have memory, to a larger or a smaller value. `shrink` requires that the
  // slots after the first num_slots have no user and are no snapshots.
  void grow(int32_t num_slots) noexcept;
  void shrink(int32_t num_slots) noexcept;
  // Returns the number of slots up to the last used one.
  int32_t end_of_used() const noexcept;
  // Returns how many slots were used at the same time, at most, since the last call.
  int32_t take_most_used() noexcept { return std::exchange(most_used_, num_used_); }
  int32_t num_used() const { return num_used_; }
  int32_t num_snapshots() const;  // used or not
  uint64_t num_dropped() const { return num_dropped_; }

  // Returns a slot without content and with one user: a free one, else that of the snapshot of the least
  // worth without users. Returns -1 if all slots are used.
  int32_t take() noexcept;
  // Returns the snapshot that `take` would drop next; -1 if it would drop none.
  int32_t next_dropped() const noexcept;
  void use(int32_t slot) noexcept;
  // Removes a user. Without users and snapshot the slot is free.
  void leave(int32_t slot) noexcept;

  StateSlot name(int32_t slot) const { return {slot, at(slot).generation}; }
  // Returns whether the slot still has the contents that it had when it was named.
  bool is_current(const StateSlot& named) const {
    return named.slot >= 0 && at(named.slot).generation == named.generation;
  }
  bool is_used(int32_t slot) const { return at(slot).num_users > 0; }
  bool has_one_user(int32_t slot) const { return at(slot).num_users == 1; }
  bool is_snapshot(int32_t slot) const { return at(slot).position >= 0; }
  bool is_writable(int32_t slot) const { return has_one_user(slot) && !is_snapshot(slot); }
  const kernels::StateLines& lines(int32_t slot) const { return at(slot).lines; }
  // Records a step of num_tokens tokens from `position` on. Returns the bank that it reads, as in
  // BatchView::state_banks. The slot can continue at `position`.
  int32_t record(int32_t slot, int32_t position, int32_t num_tokens) noexcept;
  // Withdraws a step that read this bank and may have written the other: only the bank that it read is kept.
  // Does the same before a step that is issued ahead, and may not run.
  void abandon(int32_t slot, int32_t bank) noexcept;
  bool can_continue(int32_t slot, int32_t position) const {
    return kernels::state_bank(at(slot).lines, position) >= 0;
  }
  // Gives the slot `to` the lines of `from`, whose content is copied.
  void copy_lines(int32_t from, int32_t to) noexcept { at(to).lines = at(from).lines; }

  // Makes a used slot a snapshot, unless there is one of the same place; that one is then marked as just
  // used. `before` is the snapshot before it in the same prefix, or -1.
  void freeze(int32_t slot, const SnapshotPlace& place, int32_t before,
              SnapshotKind kind = SnapshotKind::end) noexcept;
  // Drops a snapshot.
  void thaw(int32_t slot) noexcept;
  // Records that bank 0 of a used slot was filled with a state to continue from at `position`, with this bank
  // (0 or kernels::kFromLineBefore).
  void fill(int32_t slot, int32_t position, int32_t bank) noexcept;
  // Marks a snapshot as just used.
  void touch(int32_t slot) noexcept;
  // Returns the place of a snapshot.
  SnapshotPlace place(int32_t slot) const;

  // Returns an empty string if the pool is consistent, otherwise the first problem. `users` are the user
  // counts that the caller expects, by slot.
  std::string audit(gsl::span<const int32_t> users) const;

 private:
  struct Slot {
    int32_t num_users = 0;
    uint64_t generation = 0;
    kernels::StateLines lines;
    int32_t position = -1;  // of the snapshot; -1: it is none
    ContentId parent;
    uint64_t id = 0;         // of the snapshot; never given twice
    uint64_t before_id = 0;  // of the snapshot before it in the same prefix; 0: none
    SnapshotKind kind = SnapshotKind::end;
    bool is_followed = false;  // by another snapshot of the same prefix
    int32_t num_saved_tokens = 0;
    uint64_t worth = 0;
  };

  Slot& at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& at(int32_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  int32_t find(const SnapshotPlace& place) const noexcept;
  int32_t next_taken() const noexcept;
  void rate(Slot& snapshot) noexcept;

  StateSlotRange range_;
  int32_t page_tokens_;
  std::vector<Slot> slots_;
  std::vector<TokenId> tokens_;  // [num_slots, page_tokens] of snapshots
  int32_t num_slots_ = 0;
  int32_t num_used_ = 0;
  int32_t most_used_ = 0;  // since the last take_most_used
  uint64_t last_id_ = 0;
  uint64_t dropped_worth_ = 0;  // of the last snapshot that was dropped for its slot
  uint64_t num_dropped_ = 0;
};

}  // namespace quire
