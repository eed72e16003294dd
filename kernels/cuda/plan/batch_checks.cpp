#include "kernels/cuda/plan/batch_checks.h"

#include <algorithm>

namespace quire::kernels {

bool batch_is_sound(const ContextLimits& l, const BatchView& b) {
  return b.num_tokens > 0 && b.num_tokens <= l.max_tokens && b.num_sequences > 0 &&
         b.num_sequences <= l.max_sequences && b.num_logit_rows >= 0 &&
         b.num_logit_rows <= l.max_logit_rows && b.page_table_stride >= 0 &&
         b.page_table_stride <= l.max_pages_per_sequence && b.num_page_tables > 0 &&
         b.num_page_tables <= l.num_page_tables;
}

bool states_are_sound(const BatchView& b) {
  if (b.read_slots == nullptr) return b.write_slots == nullptr && b.state_banks == nullptr;
  if (b.write_slots == nullptr || b.state_banks == nullptr) return false;
  for (int32_t s = 0; s < b.num_sequences; ++s) {
    if (b.sequence_starts[s] == b.sequence_starts[s + 1]) continue;
    const int32_t bank = b.state_banks[s], position = b.positions[b.sequence_starts[s]];
    const bool forms = bank >= kFromLineBefore;
    if (b.read_slots[s] < 0 || b.write_slots[s] < 0 || bank < 0 || bank >= 2 * kFromLineBefore ||
        position < 0 || (forms && (position == 0 || position % kStateLine != 0)))
      return false;
  }
  return true;
}

bool any_state_moves(const BatchView& b) {
  return b.read_slots != nullptr && !std::equal(b.read_slots, b.read_slots + b.num_sequences, b.write_slots);
}

}  // namespace quire::kernels
