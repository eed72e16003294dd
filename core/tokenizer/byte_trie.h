// A set of byte strings, each with a number, searched from the front of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

// Memory is proportional to the bytes inserted. Immutable once filled: any thread may search.
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
  int32_t child(int32_t node, unsigned char byte) const;
  int32_t value(int32_t node) const { return nodes_[static_cast<size_t>(node)].value; }
  const std::vector<std::pair<unsigned char, int32_t>>& children(int32_t node) const {
    return nodes_[static_cast<size_t>(node)].children;
  }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int32_t>> children;  // ascending by byte
    int32_t value = kNone;
  };

  std::vector<Node> nodes_;
  std::array<int32_t, 256> root_;  // the children of node 0
};

}  // namespace quire
