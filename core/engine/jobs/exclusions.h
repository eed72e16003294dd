// Tokens that are not drawn again at their places, because a text that must not appear began with them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// Places count the new tokens of a job. One thread at a time.
class Exclusions {
 public:
  // Draws that one job may take back.
  static constexpr int32_t kMaxTakenBack = 1 << 16;

  bool empty() const { return excluded_.empty(); }
  // What was excluded after the place counts no more: other tokens will stand before it. False where
  // too many were taken back.
  bool add(int32_t place, TokenId token) {
    drop_from(place + 1);
    excluded_.emplace_back(place, token);
    return ++num_added_ <= kMaxTakenBack;
  }
  void drop_from(int32_t place) {
    while (!excluded_.empty() && excluded_.back().first >= place) excluded_.pop_back();
  }
  // No token before the place can be taken back any more.
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
