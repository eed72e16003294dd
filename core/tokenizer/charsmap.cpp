#include "core/tokenizer/charsmap.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

// Longer entries would make normalization slow for every text; real entries have up to about 30 bytes.
constexpr size_t kMaxMatchBytes = 512;

// A unit of the trie has a label and an offset to its children, or a value.
bool has_leaf(uint32_t unit) {
  return ((unit >> 8) & 1) == 1;
}
uint32_t value_of(uint32_t unit) {
  return unit & ((1U << 31) - 1);
}
uint32_t label_of(uint32_t unit) {
  return unit & ((1U << 31) | 0xff);
}
uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & (1U << 9)) >> 6);
}

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& where) {
  if (blob.empty()) return;
  uint32_t num_trie_bytes = 0;  // little endian, like all supported machines
  if (blob.size() >= sizeof num_trie_bytes) std::memcpy(&num_trie_bytes, blob.data(), sizeof num_trie_bytes);
  blob.remove_prefix(std::min(blob.size(), sizeof num_trie_bytes));
  if (num_trie_bytes == 0 || num_trie_bytes % sizeof(uint32_t) != 0 || num_trie_bytes > blob.size()) {
    throw Error(ErrorCode::format, "{}: the trie's size of {} does not fit into the map", where,
                num_trie_bytes);
  }
  units_.resize(num_trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data(), num_trie_bytes);
  replacements_ = blob.substr(num_trie_bytes);
  if (find_invalid_utf8(replacements_) != replacements_.size()) {
    throw Error(ErrorCode::format, "{}: a replacement is not UTF-8", where);
  }
}

// Links of a damaged trie that point outside of it count as no match.
std::optional<Charsmap::Match> Charsmap::find(std::string_view text, size_t max_matches) const {
  std::optional<Match> match;
  if (units_.empty()) return match;
  size_t node = offset_of(units_[0]);
  text = text.substr(0, kMaxMatchBytes);
  for (size_t pos = 0, num_matches = 0; pos < text.size() && num_matches < max_matches; ++pos) {
    const auto byte = static_cast<unsigned char>(text[pos]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (!leaf || node >= units_.size()) continue;
    const uint32_t begin = value_of(units_[node]);
    if (begin >= replacements_.size() || is_inside_character(replacements_[begin])) continue;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    match = Match{rest.substr(0, rest.find('\0')), pos + 1};
    ++num_matches;
  }
  return match;
}

}  // namespace quire
