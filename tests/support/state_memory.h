// A recurrent state of the simplest kind, kept lazily as docs/adr/0062 describes: the state after a token is
// a hash of it and of the state before. It has no memory of positions of its own, so a wrong slot, a wrong
// bank, or a row that another sequence wrote results in another hash.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "kernels/interface/state_specs.h"

namespace quire::testing {

// Returns the state after a token.
inline uint64_t next_state(uint64_t state, TokenId token) {
  state = (state ^ static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15U;
  return state ^ (state >> 29);
}
inline uint64_t state_of(gsl::span<const TokenId> tokens) {
  uint64_t state = 1;
  for (const TokenId token : tokens) state = next_state(state, token);
  return state;
}

class StateMemory {
  struct Bank {
    uint64_t state = 0;
    std::array<TokenId, kernels::kStateLine> rows{};
  };
  using Slot = std::array<Bank, 2>;

 public:
  explicit StateMemory(int32_t num_slots) : slots_(static_cast<size_t>(num_slots)) {}

  void copy(int32_t from, int32_t to) { at(to) = at(from); }
  // Destroys the content of a slot.
  void poison(int32_t slot) {
    for (Bank& bank : at(slot)) {
      bank.state ^= 0x5bd1e995;
      bank.rows.fill(-7);
    }
  }
  // Copy the content of a bank to and from `bytes`, which has bank_bytes().
  static constexpr size_t bank_bytes() { return sizeof(Bank); }
  void read(int32_t slot, int32_t bank, gsl::span<std::byte> bytes) {
    std::memcpy(bytes.data(), &at(slot)[static_cast<size_t>(bank)], sizeof(Bank));
  }
  void write(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) {
    std::memcpy(&at(slot)[static_cast<size_t>(bank)], bytes.data(), sizeof(Bank));
  }
  // Runs a step of one sequence: appends the state after each token. `bank` is as in BatchView::state_banks.
  void run(int32_t slot, int32_t bank, int32_t position, gsl::span<const TokenId> tokens,
           std::vector<uint64_t>& states) {
    const auto own = static_cast<size_t>(bank % kernels::kFromLineBefore);
    Bank* current = &at(slot)[own];
    Bank* const other = &at(slot)[1 - own];
    if (position == 0) current->state = state_of({});
    if (bank >= kernels::kFromLineBefore) current = next_line(*current, other);
    for (size_t i = 0; i < tokens.size(); ++i, ++position) {
      const auto row = static_cast<size_t>(position % kernels::kStateLine);
      if (row == 0 && i > 0) current = next_line(*current, other);
      current->rows[row] = tokens[i];
      uint64_t state = current->state;
      for (size_t before = 0; before <= row; ++before) state = next_state(state, current->rows[before]);
      states.push_back(state);
    }
  }

 private:
  // Forms the state at the line after a bank in the other bank.
  static Bank* next_line(const Bank& bank, Bank* other) {
    uint64_t state = bank.state;
    for (const TokenId token : bank.rows) state = next_state(state, token);
    other->state = state;
    return other;
  }

  Slot& at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }

  std::vector<Slot> slots_;
};

}  // namespace quire::testing
