#include "core/tokenizer/aho_corasick.h"

namespace quire {

AhoCorasick::AhoCorasick(gsl::span<const std::string> strings) {
  for (size_t i = 0; i < strings.size(); ++i) {
    trie_.insert(strings[i], static_cast<int32_t>(i));
    lengths_.push_back(strings[i].size());
  }
  fallbacks_.assign(trie_.num_nodes(), 0);
  matches_.assign(trie_.num_nodes(), kNone);
  depths_.assign(trie_.num_nodes(), 0);
  matches_[0] = trie_.value(0);

  std::vector<int32_t> queue = {0};  // breadth first: a fallback is less deep than its node
  for (size_t next = 0; next < queue.size(); ++next) {
    const int32_t parent = queue[next];
    for (const auto& [byte, node] : trie_.children(parent)) {
      const auto idx = static_cast<size_t>(node);
      depths_[idx] = depths_[static_cast<size_t>(parent)] + 1;
      fallbacks_[idx] = parent == 0 ? 0 : step(fallbacks_[static_cast<size_t>(parent)], byte);
      const int32_t own = trie_.value(node);
      matches_[idx] = own != ByteTrie::kNone ? own : matches_[static_cast<size_t>(fallbacks_[idx])];
      queue.push_back(node);
    }
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
