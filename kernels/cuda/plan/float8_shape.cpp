#include "kernels/cuda/plan/float8_shape.h"

#include <algorithm>
#include <limits>

namespace quire::kernels {
namespace {

// Returns how many blocks run on a multiprocessor at once: as many as fit, if there are that many.
int32_t blocks_there(const CardLimits& card, const Float8Shape& s) {
  const int32_t most = float8_blocks_at_once(s.octets, s.groups);
  const int32_t places = std::max(1, card.num_multiprocessors);
  return std::clamp((s.blocks + places - 1) / places, 1, most);
}

void place(const CardLimits& card, Float8Shape& s) {
  const auto at_once = static_cast<uint32_t>(blocks_there(card, s));
  const uint32_t limit = std::min(card.shared_per_block, card.shared_per_multiprocessor / at_once - 1024);
  const uint32_t stage = float8_slot_bytes(s.octets, s.groups);
  s.pipeline_slots = std::min(kMaxFloat8Slots, static_cast<int32_t>((limit - kFloat8SlotsAt) / stage));
  s.shared_bytes = kFloat8SlotsAt + static_cast<uint32_t>(s.pipeline_slots) * stage;
}

// Returns the clocks that a multiprocessor needs for one block of K of all blocks running on it: the time of
// a single warpgroup, or of reading all of their bytes.
int64_t clocks(const Float8Shape& s, int32_t at_once) {
  constexpr int64_t kOfWholeTiles[] = {800, 1000, 1250};
  const int64_t bytes = 250 * s.groups * at_once;
  if (s.octets == kMaxFloat8Octets) return kOfWholeTiles[s.groups - 1];
  return std::max<int64_t>(bytes, s.octets == 8 ? 320 + 80 * s.groups : 250);
}

int64_t cost(const CardLimits& card, const Float8Shape& s, int32_t num_blocks, int32_t places) {
  constexpr int64_t kEnds = 3000;
  const int64_t rounds = (int64_t{s.tasks} + places - 1) / places;
  return rounds * (num_blocks * clocks(s, blocks_there(card, s)) + kEnds);
}

// Returns true for tiles of tokens that are all full except the last, and at most twice as many as necessary.
bool suits(int32_t octets, int32_t rows) {
  if (octets > 1 && octets / 2 * kFloat8Octet >= rows) return false;
  return octets == kMaxFloat8Octets || octets * 2 * kFloat8Octet >= rows;
}

// Lays out the ring slots of as many blocks as a multiprocessor has registers and tasks for, if each gets
// three slots, otherwise of fewer. Returns the number of blocks; 0 if one does not get two slots.
int32_t place_strips(const CardLimits& card, Float8Shape& s) {
  const int32_t places = std::max(1, card.num_multiprocessors);
  const uint32_t slot = float8_slot_bytes(s.octets, s.groups);
  for (int32_t at_once = std::min(float8_strip_blocks(s.octets, s.groups), (s.tasks + places - 1) / places);
       at_once > 0; --at_once) {
    const uint32_t limit =
        std::min(card.shared_per_block,
                 card.shared_per_multiprocessor / static_cast<uint32_t>(at_once) - kReservedBytes);
    if (limit < kFloat8SlotsAt) continue;
    s.pipeline_slots = std::min(kMaxFloat8StripSlots, static_cast<int32_t>((limit - kFloat8SlotsAt) / slot));
    s.shared_bytes = kFloat8SlotsAt + static_cast<uint32_t>(s.pipeline_slots) * slot;
    if (s.pipeline_slots >= (at_once == 1 ? 2 : 3)) return at_once;
  }
  return 0;
}

// Returns the clocks of the busiest multiprocessor. For each block of K of its tasks: the products, or the
// bytes of the weights, and the bytes of the activations; and a meeting of the warps, which other blocks
// hide.
int64_t strips_cost(const CardLimits& card, const Float8Shape& s, int32_t num_blocks, int32_t at_once) {
  constexpr int64_t kWeights = 300, kProducts = 110, kActivations = 16, kMeeting = 250, kEnds = 3000;
  const int32_t places = std::max(1, card.num_multiprocessors);
  const int64_t rounds = (int64_t{s.tasks} + places - 1) / places, in_turn = (rounds + at_once - 1) / at_once;
  const int64_t block = s.groups * std::max(kWeights, kProducts * s.octets) + kActivations * s.octets;
  return rounds * num_blocks * block + in_turn * (num_blocks * kMeeting + kEnds);
}

Float8Shape strips_shape(const CardLimits& card, int32_t column_tiles, int32_t num_blocks, int32_t rows) {
  Float8Shape best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int32_t octets = kMaxFloat8Octets; octets > 0; octets /= 2) {
    if (!suits(octets, rows)) continue;
    for (int32_t groups = 1; groups <= kMaxFloat8StripGroups; ++groups) {
      Float8Shape s;
      s.octets = octets;
      s.groups = groups;
      s.token_tiles = (rows + octets * kFloat8Octet - 1) / (octets * kFloat8Octet);
      s.tasks = (column_tiles + groups - 1) / groups * s.token_tiles;
      const int32_t at_once = place_strips(card, s);
      if (at_once == 0) continue;
      s.blocks = std::min(s.tasks, std::max(1, card.num_multiprocessors) * at_once);
      const int64_t of_this = strips_cost(card, s, num_blocks, at_once);
      if (of_this >= least) continue;
      least = of_this;
      best = s;
    }
  }
  return best;
}

}  // namespace

Float8Shape float8_shape(const CardLimits& card, int32_t column_tiles, int32_t num_blocks, int32_t rows) {
  if (!card.warpgroup_products) return strips_shape(card, column_tiles, num_blocks, rows);
  Float8Shape best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int32_t octets = kMaxFloat8Octets; octets > 0; octets /= 2) {
    if (!suits(octets, rows)) continue;
    for (int32_t groups = 1; groups <= (octets == kMaxFloat8Octets ? kMaxFloat8Groups : 2); ++groups) {
      Float8Shape s;
      s.octets = octets;
      s.groups = groups;
      s.token_tiles = (rows + octets * kFloat8Octet - 1) / (octets * kFloat8Octet);
      s.pairs = octets == kMaxFloat8Octets ? 1 : 0;
      const int32_t width = 1 + s.pairs, of_task = width * groups;
      s.tasks = (column_tiles + of_task - 1) / of_task * s.token_tiles;
      const int32_t places =
          std::max(1, card.num_multiprocessors * float8_blocks_at_once(octets, groups) / width);
      s.blocks = std::min(s.tasks, places) * width;
      const int64_t of_this = cost(card, s, num_blocks, places);
      if (of_this >= least) continue;
      least = of_this;
      best = s;
    }
  }
  place(card, best);
  return best;
}

}  // namespace quire::kernels
