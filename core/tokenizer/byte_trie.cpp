#include "core/tokenizer/byte_trie.h"

#include <algorithm>

namespace quire {
namespace {

bool byte_less(const std::pair<unsigned char, int32_t>& edge, unsigned char byte) {
  return edge.first < byte;
}

}  // namespace

ByteTrie::ByteTrie() : nodes_(1) {
  root_.fill(kNone);
}

bool ByteTrie::insert(std::string_view key, int32_t value) {
  int32_t node = 0;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<int32_t>(nodes_.size());
      auto& edges = nodes_[static_cast<size_t>(node)].children;
      edges.insert(std::lower_bound(edges.begin(), edges.end(), byte, byte_less), {byte, next});
      if (node == 0) root_[byte] = next;
      nodes_.emplace_back();
    }
    node = next;
  }
  Node& last = nodes_[static_cast<size_t>(node)];
  if (last.value != kNone) return false;
  last.value = value;
  return true;
}

int32_t ByteTrie::child(int32_t node, unsigned char byte) const {
  if (node == 0) return root_[byte];
  const auto& edges = nodes_[static_cast<size_t>(node)].children;
  const auto it = std::lower_bound(edges.begin(), edges.end(), byte, byte_less);
  return it != edges.end() && it->first == byte ? it->second : kNone;
}

}  // namespace quire
