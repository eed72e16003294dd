// A trie of byte strings with values, for prefix search.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

// A trie whose edges are all in one hash table: a step is one look-up regardless of the number of children,
// and memory is proportional to the inserted bytes. Immutable once filled; then safe to use from any thread.
class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;

  ByteTrie();

  // Returns false, without a change, if the string is already present. `value` is 0 or more.
  bool insert(std::string_view key, int32_t value);

  bool empty() const { return nodes_.size() == 1; }
  size_t num_nodes() const { return nodes_.size(); }
  // Returns whether some string begins with this byte.
  bool may_start(char byte) const { return root_[static_cast<unsigned char>(byte)] != kNone; }

  // Nodes are numbers; 0 is the root, and children have larger numbers than their parents. child() returns
  // kNone if no string continues with that byte.
  int32_t child(int32_t node, unsigned char byte) const {
    if (node == 0) return root_[byte];
    const uint64_t slot = edges_[find_slot(key_of(node, byte))];
    return slot == 0 ? kNone : static_cast<int32_t>(slot & kNodeMask);
  }
  int32_t value(int32_t node) const { return nodes_[static_cast<size_t>(node)].value; }
  // Parent and incoming byte of a node other than the root.
  int32_t parent(int32_t node) const { return nodes_[static_cast<size_t>(node)].parent; }
  unsigned char byte(int32_t node) const { return nodes_[static_cast<size_t>(node)].byte; }

 private:
  struct Node {
    int32_t value = kNone;
    int32_t parent = kNone;
    unsigned char byte = 0;
  };
  // An edge is one word: parent and byte in the high bits, child in the low bits. No child is 0, so 0 marks a
  // free slot.
  static constexpr int kNodeBits = 28;
  static constexpr uint64_t kNodeMask = (uint64_t{1} << kNodeBits) - 1;

  static uint64_t key_of(int32_t node, unsigned char byte) {
    return (static_cast<uint64_t>(node) << 8) | byte;
  }
  size_t find_slot(uint64_t key) const {
    size_t slot_idx = (key * 0x9e3779b97f4a7c15U) >> shift_;
    while (edges_[slot_idx] != 0 && edges_[slot_idx] >> kNodeBits != key) {
      slot_idx = (slot_idx + 1) & (edges_.size() - 1);
    }
    return slot_idx;
  }
  int32_t add_child(int32_t node, unsigned char byte);
  void grow();

  std::vector<Node> nodes_;
  std::vector<uint64_t> edges_;    // open addressing, at most half full
  int shift_;                      // shift that leaves as many top bits of a hash as edges_ needs
  std::array<int32_t, 256> root_;  // the children of node 0
};

}  // namespace quire
