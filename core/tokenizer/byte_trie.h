// A set of byte strings, each with a number, searched from the front of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

// One hash table holds the edges of all nodes: a step is one look-up, however many children a node has, and
// memory is proportional to the bytes inserted. Immutable once filled: any thread may search.
class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;

  ByteTrie();

  // False, and no change, where the string is in the set. `value` is 0 or more.
  bool insert(std::string_view key, int32_t value);

  bool empty() const { return nodes_.size() == 1; }
  size_t num_nodes() const { return nodes_.size(); }
  // Whether some string begins with this byte.
  bool may_start(char byte) const { return root_[static_cast<unsigned char>(byte)] != kNone; }

  // Nodes are numbers; 0 is the root and a child's is larger than its parent's. child() is kNone where no
  // string goes on with that byte.
  int32_t child(int32_t node, unsigned char byte) const {
    if (node == 0) return root_[byte];
    const uint64_t slot = edges_[find_slot(key_of(node, byte))];
    return slot == 0 ? kNone : static_cast<int32_t>(slot & kNodeMask);
  }
  int32_t value(int32_t node) const { return nodes_[static_cast<size_t>(node)].value; }
  // Of every node but the root: where it hangs, and by which byte.
  int32_t parent(int32_t node) const { return nodes_[static_cast<size_t>(node)].parent; }
  unsigned char byte(int32_t node) const { return nodes_[static_cast<size_t>(node)].byte; }

 private:
  struct Node {
    int32_t value = kNone;
    int32_t parent = kNone;
    unsigned char byte = 0;
  };
  // An edge is one word: parent and byte above, child below; no child is 0, so that 0 is a free slot.
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
  int shift_;                      // leaves the top bits of a hash: as many as edges_ has places for
  std::array<int32_t, 256> root_;  // the children of node 0
};

}  // namespace quire
