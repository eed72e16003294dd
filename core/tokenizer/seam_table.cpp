#include "core/tokenizer/seam_table.h"

#include "core/base/utf8.h"

namespace quire {

void AdjacentPairs::add_token(std::string_view text) {
  uint32_t left = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    if (pos > 0) insert(key_of(left, next.code_point));
    left = next.code_point;
    pos += next.length;
  }
}

void AdjacentPairs::insert(uint64_t key) {
  uint64_t& place = pairs_[find_place(key)];
  if (place == key) return;
  place = key;
  if (++num_pairs_ * 2 <= pairs_.size()) return;
  std::vector<uint64_t> pairs(pairs_.size() * 2);
  pairs.swap(pairs_);
  for (const uint64_t other : pairs) {
    if (other != 0) pairs_[find_place(other)] = other;
  }
}

}  // namespace quire
