#include "core/tokenizer/aho_corasick.h"

#include <algorithm>

namespace quire {
namespace {

// Returns all nodes except the root, sorted by depth; also writes the depths to `depths`.
std::vector<int32_t> nodes_by_depth(const ByteTrie& trie, std::vector<uint32_t>& depths) {
  std::vector<int32_t> nodes;
  for (size_t node = 1; node < trie.num_nodes(); ++node) {
    nodes.push_back(static_cast<int32_t>(node));
    depths[node] = depths[static_cast<size_t>(trie.parent(nodes.back()))] + 1;
  }
  std::stable_sort(nodes.begin(), nodes.end(), [&depths](int32_t a, int32_t b) {
    return depths[static_cast<size_t>(a)] < depths[static_cast<size_t>(b)];
  });
  return nodes;
}

}  // namespace

AhoCorasick::AhoCorasick(gsl::span<const std::string> strings) {
  for (size_t i = 0; i < strings.size(); ++i) {
    trie_.insert(strings[i], static_cast<int32_t>(i));
    lengths_.push_back(strings[i].size());
  }
  fallbacks_.assign(trie_.num_nodes(), 0);
  matches_.assign(trie_.num_nodes(), kNone);
  depths_.assign(trie_.num_nodes(), 0);
  matches_[0] = trie_.value(0);

  // In order of depth, because a node's fallback has a smaller depth.
  for (const int32_t node : nodes_by_depth(trie_, depths_)) {
    const auto idx = static_cast<size_t>(node);
    const int32_t parent = trie_.parent(node);
    if (parent != 0) fallbacks_[idx] = step(fallbacks_[static_cast<size_t>(parent)], trie_.byte(node));
    const int32_t own = trie_.value(node);
    matches_[idx] = own != ByteTrie::kNone ? own : matches_[static_cast<size_t>(fallbacks_[idx])];
  }
}

int32_t AhoCorasick::step(int32_t state, unsigned char byte) const {
  while (true) {
    const int32_t next = trie_.child(state, byte);
    if (next != ByteTrie::kNone) return next;
    if (state == 0) return 0;
    state = fallbacks_[static_cast<size_t>(state)];
  }
}

}  // namespace quire
