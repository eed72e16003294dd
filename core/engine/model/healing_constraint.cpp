#include "core/engine/model/healing_constraint.h"

#include <algorithm>
#include <string_view>

namespace quire {
namespace {

// Calls `see` with each node whose token begins with `rest` or is a prefix of it, and the number of bytes of
// `rest` that the token covers.
template <typename See>
void find_tokens(const TokenTrie& trie, std::string_view rest, const See& see) {
  uint32_t node = 0;
  auto end = static_cast<uint32_t>(trie.nodes.size());
  for (size_t depth = 0; depth < rest.size(); ++depth) {
    while (node < end && trie.nodes[node].byte != static_cast<uint8_t>(rest[depth]))
      node = trie.nodes[node].end;
    if (node >= end) return;
    end = trie.nodes[node].end;
    if (depth + 1 == rest.size()) break;
    if (trie.nodes[node].token >= 0) see(trie.nodes[node], depth + 1);
    ++node;
  }
  for (; node < end; ++node) {
    if (trie.nodes[node].token >= 0) see(trie.nodes[node], rest.size());
  }
}

template <typename See>
void find_tokens(const TokenVocabulary& vocabulary, std::string_view rest, const See& see) {
  find_tokens(vocabulary.plain(), rest, see);
  find_tokens(vocabulary.other(), rest, see);
}

}  // namespace

HealingConstraint::HealingConstraint(std::shared_ptr<const TokenVocabulary> vocabulary, std::string text) {
  auto made = std::make_shared<Text>();
  made->vocabulary = std::move(vocabulary);
  made->bytes = std::move(text);
  made->leads_on.assign(made->bytes.size() + 1, false);
  made->leads_on.back() = true;
  for (size_t done = made->bytes.size(); done-- > 0;) {
    find_tokens(*made->vocabulary, std::string_view(made->bytes).substr(done),
                [&](const TrieNode&, size_t num_bytes) {
                  if (made->leads_on[done + num_bytes]) made->leads_on[done] = true;
                });
  }
  text_ = std::move(made);
}

class HealingConstraint::Place final : public TokenMatcher {
 public:
  explicit Place(std::shared_ptr<const Text> text) : text_(std::move(text)) {}

  bool allows_all() const override { return rest().empty(); }
  void mask(gsl::span<uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0U);
    scratch_.assign(text_->vocabulary->num_words(), 0U);
    const size_t done = done_.back();
    find_tokens(*text_->vocabulary, rest(), [&](const TrieNode& node, size_t num_bytes) {
      if (text_->leads_on[done + num_bytes]) text_->vocabulary->mark(node, scratch_);
    });
    std::copy_n(scratch_.begin(), std::min(scratch_.size(), words.size()), words.begin());
  }
  bool accept(TokenId token) override {
    const std::string_view left = rest();
    const std::string_view bytes =
        text_->vocabulary->is_text(token) ? text_->vocabulary->bytes(token) : std::string_view();
    const size_t num_shared = std::min(bytes.size(), left.size());
    if (!left.empty() && (num_shared == 0 || bytes.substr(0, num_shared) != left.substr(0, num_shared)))
      return false;
    done_.push_back(done_.back() + num_shared);
    return true;
  }
  void rollback(int32_t num_tokens) override { done_.resize(done_.size() - static_cast<size_t>(num_tokens)); }
  bool may_end() const override { return rest().empty(); }
  std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

 private:
  std::string_view rest() const { return std::string_view(text_->bytes).substr(done_.back()); }

  std::shared_ptr<const Text> text_;
  std::vector<size_t> done_ = {0};  // number of bytes done after each token; the first entry is for none
  TokenBits scratch_;
};

std::unique_ptr<TokenMatcher> HealingConstraint::start() const {
  return std::make_unique<Place>(text_);
}

}  // namespace quire
