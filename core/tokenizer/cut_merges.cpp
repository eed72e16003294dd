#include "core/tokenizer/cut_merges.h"

#include <string_view>
#include <vector>

namespace quire {
namespace {

struct Cut {
  TokenId left;
  TokenId right;
  Merge merge;
};

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

}  // namespace

MergeTable find_all_merges(const Vocabulary& vocabulary, gsl::span<const RankedToken> tokens) {
  std::vector<bool> merges_too(vocabulary.size());
  for (const RankedToken& token : tokens) merges_too[static_cast<size_t>(token.id)] = true;
  const auto find = [&](std::string_view text) {
    const auto id = vocabulary.find(text);
    return id && merges_too[static_cast<size_t>(*id)] ? id : std::nullopt;
  };
  std::vector<Cut> cuts;
  for (const RankedToken& token : tokens) {
    const std::string_view text = vocabulary.text(token.id);
    for (size_t at = 1; at < text.size(); ++at) {
      if (!begins_character(text[at])) continue;
      const auto left = find(text.substr(0, at));
      const auto right = left ? find(text.substr(at)) : std::nullopt;
      if (right) cuts.push_back({*left, *right, {token.rank, token.id}});
    }
  }
  MergeTable merges(cuts.size());
  for (const Cut& cut : cuts) merges.insert(cut.left, cut.right, cut.merge);
  return merges;
}

}  // namespace quire
