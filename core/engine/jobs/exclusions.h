// Tokens that must not be sampled again at a position, because a banned text began with them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// Positions count the new tokens of a job. Not thread-safe.
class Exclusions {
 public:
  // Maximum number of retracted tokens of one job.
  static constexpr int32_t kMaxTakenBack = 1 << 16;

  bool empty() const { return excluded_.empty(); }
  // Excludes the token at `place`. Drops exclusions at later positions: they depend on tokens that will
  // change. Returns false once too many tokens were retracted.
  bool add(int32_t place, TokenId token) {
    drop_from(place + 1);
    excluded_.emplace_back(place, token);
    return ++num_added_ <= kMaxTakenBack;
  }
  void drop_from(int32_t place) {
    while (!excluded_.empty() && excluded_.back().first >= place) excluded_.pop_back();
  }
  // Called when no token before `place` can be retracted any more.
  void settle(int32_t place) {
    if (!excluded_.empty() && excluded_.back().first < place) excluded_.clear();
  }
  void append_of(int32_t place, TokenIds& out) const {
    for (auto it = excluded_.rbegin(); it != excluded_.rend() && it->first >= place; ++it)
      out.push_back(it->second);
  }

 private:
  std::vector<std::pair<int32_t, TokenId>> excluded_;  // by place, ascending
  int32_t num_added_ = 0;
};

}  // namespace quire
