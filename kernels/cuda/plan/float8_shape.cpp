#include "kernels/cuda/plan/float8_shape.h"

#include <algorithm>
#include <limits>

namespace quire::kernels {
namespace {

int32_t octets_for(int32_t rows) {
  int32_t octets = 1;
  while (octets < kMostFloat8Octets && octets * kFloat8Octet < rows) octets *= 2;
  return octets;
}

void place(const CardLimits& card, Float8Shape& s) {
  const auto at_once = static_cast<uint32_t>(float8_blocks_at_once(s.octets, s.groups));
  const uint32_t limit = std::min(card.shared_per_block, card.shared_per_multiprocessor / at_once - 1024);
  const uint32_t stage = float8_stage_bytes(s.octets, s.groups);
  s.stages = std::min(kMostFloat8Stages, static_cast<int32_t>((limit - kFloat8StagesAt) / stage));
  s.shared_bytes = kFloat8StagesAt + static_cast<uint32_t>(s.stages) * stage;
}

// Clocks for a block of K, of a block's warpgroups together, where as many as fit share a multiprocessor.
int64_t clocks(const Float8Shape& s) {
  constexpr int64_t kOfWholeTiles[] = {800, 1250, 1400};
  if (s.octets == kMostFloat8Octets) return kOfWholeTiles[s.groups - 1];
  return (s.octets == 8 ? 500 : 400) * s.groups * float8_blocks_at_once(s.octets, s.groups) / 2;  // by bytes
}

int64_t cost(const Float8Shape& s, int32_t num_blocks, int32_t places) {
  constexpr int64_t kEnds = 3000;
  const int64_t rounds = (int64_t{s.tasks} + places - 1) / places;
  return rounds * (num_blocks * clocks(s) + kEnds);
}

}  // namespace

Float8Shape float8_shape(const CardLimits& card, int32_t column_tiles, int32_t num_blocks, int32_t rows) {
  Float8Shape best;
  int64_t least = std::numeric_limits<int64_t>::max();
  const int32_t octets = octets_for(rows);
  for (int32_t groups = 1; groups <= (octets == kMostFloat8Octets ? kMostFloat8Groups : 2); ++groups) {
    Float8Shape s;
    s.octets = octets;
    s.groups = groups;
    s.token_tiles = (rows + s.octets * kFloat8Octet - 1) / (s.octets * kFloat8Octet);
    s.pairs = card.warpgroup_products && s.octets == kMostFloat8Octets ? 1 : 0;
    const int32_t width = 1 + s.pairs, of_task = width * groups;
    s.tasks = (column_tiles + of_task - 1) / of_task * s.token_tiles;
    const int32_t places =
        std::max(1, card.num_multiprocessors * float8_blocks_at_once(s.octets, s.groups) / width);
    s.blocks = std::min(s.tasks, places) * width;
    const int64_t of_this = cost(s, num_blocks, places);
    if (of_this >= least) continue;
    least = of_this;
    best = s;
  }
  place(card, best);
  return best;
}

}  // namespace quire::kernels
