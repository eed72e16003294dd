#include "core/engine/jobs/random_seed.h"

#include <unistd.h>

#include "core/base/clock.h"

namespace quire {

uint64_t draw_seed() {
  uint64_t seed = 0;
  if (::getentropy(&seed, sizeof seed) == 0) return seed;
  return static_cast<uint64_t>(steady_clock().now().time_since_epoch().count());
}

}  // namespace quire
