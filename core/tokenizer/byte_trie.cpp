#include "core/tokenizer/byte_trie.h"

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int kFirstBits = 6;

}  // namespace

ByteTrie::ByteTrie() : nodes_(1), edges_(size_t{1} << kFirstBits), shift_(64 - kFirstBits) {
  root_.fill(kNone);
}

bool ByteTrie::insert(std::string_view key, int32_t value) {
  int32_t node = 0;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const int32_t next = child(node, byte);
    node = next != kNone ? next : add_child(node, byte);
  }
  Node& last = nodes_[static_cast<size_t>(node)];
  if (last.value != kNone) return false;
  last.value = value;
  return true;
}

int32_t ByteTrie::add_child(int32_t node, unsigned char byte) {
  if (nodes_.size() > kNodeMask) throw Error(ErrorCode::unsupported, "the vocabulary has too many bytes");
  if (nodes_.size() * 2 > edges_.size()) grow();
  const auto next = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({kNone, node, byte});
  if (node == 0) {
    root_[byte] = next;
  } else {
    const uint64_t key = key_of(node, byte);
    edges_[find_slot(key)] = (key << kNodeBits) | static_cast<uint64_t>(next);
  }
  return next;
}

void ByteTrie::grow() {
  std::vector<uint64_t> edges(edges_.size() * 2);
  edges.swap(edges_);
  --shift_;
  for (const uint64_t edge : edges) {
    if (edge != 0) edges_[find_slot(edge >> kNodeBits)] = edge;
  }
}

}  // namespace quire
