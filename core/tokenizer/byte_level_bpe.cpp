#include "core/tokenizer/byte_level_bpe.h"

#include <algorithm>

#include <gsl/gsl>

#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

// Pieces up to this many bytes take the quadratic way, which is faster there and needs no memory.
constexpr size_t kShortBytes = 32;
// Longer tokens are not looked up whole: the time to load stays linear in the file.
constexpr size_t kMaxWordBytes = 64;

struct LaterFirst {
  bool operator()(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) const {
    if (a.merge.rank != b.merge.rank) return a.merge.rank > b.merge.rank;
    return a.position > b.position;
  }
};

}  // namespace

ByteLevelBpe::ByteLevelBpe(const Vocabulary& vocabulary, Parts parts)
    : vocabulary_(vocabulary),
      merges_(std::move(parts.merges)),
      unknown_(parts.unknown),
      fuse_unknown_(parts.fuse_unknown) {
  fill_byte_tokens();
  words_ = IdTable(vocabulary.size());
  fill_words(parts.ignore_merges);
}

void ByteLevelBpe::fill_byte_tokens() {
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_to_code_point(static_cast<uint8_t>(byte)));
    const auto id = vocabulary_.find(spelling);
    const bool found = id && vocabulary_.in_model(*id);
    byte_tokens_[byte] = found ? *id : -1;
  }
}

void ByteLevelBpe::fill_words(bool ignore_merges) {
  const auto bytes_of = [this](TokenId id) { return vocabulary_.bytes(id); };
  BpeScratch scratch;
  TokenIds ids;
  for (size_t idx = 0; idx < vocabulary_.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (!vocabulary_.contains(id) || !vocabulary_.in_model(id) || !vocabulary_.is_spelled(id)) continue;
    const std::string_view bytes = vocabulary_.bytes(id);
    if (!ignore_merges) {
      if (bytes.empty() || bytes.size() > kMaxWordBytes) continue;
      ids.clear();
      merge(bytes, true, scratch, ids);
      if (ids.size() != 1 || ids[0] != id) continue;
    }
    words_.insert(id, bytes_of);
  }
}

void ByteLevelBpe::encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
                          TokenIds& ids) const {
  const TokenId word = words_.find(piece, [this](TokenId id) { return vocabulary_.bytes(id); });
  if (word != IdTable::kNone && (allow_special || !vocabulary_.is_special(word))) {
    ids.push_back(word);
    return;
  }
  merge(piece, allow_special, scratch.bpe, ids);
}

void ByteLevelBpe::merge(std::string_view piece, bool allow_special, BpeScratch& scratch,
                         TokenIds& ids) const {
  if (piece.size() <= kShortBytes) {
    merge_short(piece, allow_special, scratch, ids);
  } else {
    merge_long(piece, allow_special, scratch, ids);
  }
}

Merge ByteLevelBpe::find_merge(TokenId left, TokenId right, bool allow_special) const {
  const Merge merge = merges_.find(left, right);
  if (!allow_special && merge.exists() && vocabulary_.is_special(merge.result)) return {};
  return merge;
}

// One token for each byte at most: `tokens` has room for them.
size_t ByteLevelBpe::spell(std::string_view piece, TokenId* tokens) const {
  size_t num_tokens = 0;
  bool after_unknown = false;
  for (const char byte : piece) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token >= 0) {
      tokens[num_tokens++] = token;
    } else if (unknown_ && !(fuse_unknown_ && after_unknown)) {
      tokens[num_tokens++] = *unknown_;
    }
    after_unknown = token < 0;
  }
  return num_tokens;
}

void ByteLevelBpe::merge_short(std::string_view piece, bool allow_special, BpeScratch& scratch,
                               TokenIds& ids) const {
  std::array<TokenId, kShortBytes + 1> tokens;
  std::array<Merge, kShortBytes + 1> merges;  // of each token and the next; the last has none
  size_t num_tokens = spell(piece, tokens.data());
  if (num_tokens == 0) return;
  for (size_t i = 0; i + 1 < num_tokens; ++i) merges[i] = find_merge(tokens[i], tokens[i + 1], allow_special);
  while (num_tokens > 1) {
    const auto best =
        std::min_element(merges.begin(), merges.begin() + static_cast<ptrdiff_t>(num_tokens - 1),
                         [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (!best->exists()) break;
    const auto at = static_cast<size_t>(best - merges.begin());
    tokens[at] = best->result;
    std::copy(tokens.begin() + at + 2, tokens.begin() + num_tokens, tokens.begin() + at + 1);
    std::copy(merges.begin() + at + 1, merges.begin() + num_tokens - 1, merges.begin() + at);
    --num_tokens;
    if (at > 0) merges[at - 1] = find_merge(tokens[at - 1], tokens[at], allow_special);
    if (at + 1 < num_tokens) merges[at] = find_merge(tokens[at], tokens[at + 1], allow_special);
    ++scratch.num_steps;
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + num_tokens);
}

void ByteLevelBpe::push_candidate(int32_t left_idx, bool allow_special, BpeScratch& scratch) const {
  const BpeScratch::Symbol& left = scratch.symbols[static_cast<size_t>(left_idx)];
  if (left.next < 0) return;
  const TokenId right = scratch.symbols[static_cast<size_t>(left.next)].id;
  const Merge merge = find_merge(left.id, right, allow_special);
  if (!merge.exists()) return;
  scratch.queue.push_back({merge, static_cast<uint32_t>(left_idx), left.id, right});
  std::push_heap(scratch.queue.begin(), scratch.queue.end(), LaterFirst{});
  ++scratch.num_steps;
}

// A list of symbols and a heap of candidates: O(n log n). A candidate whose symbols have changed since is
// void.
void ByteLevelBpe::merge_long(std::string_view piece, bool allow_special, BpeScratch& scratch,
                              TokenIds& ids) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.queue.clear();
  scratch.tokens.resize(piece.size());
  const size_t num_tokens = spell(piece, scratch.tokens.data());
  for (const TokenId token : gsl::span(scratch.tokens).first(num_tokens)) {
    const auto idx = static_cast<int32_t>(symbols.size());
    symbols.push_back({token, idx - 1, idx + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto num_symbols = static_cast<int32_t>(symbols.size());
  for (int32_t idx = 0; idx < num_symbols; ++idx) push_candidate(idx, allow_special, scratch);

  while (!scratch.queue.empty()) {
    std::pop_heap(scratch.queue.begin(), scratch.queue.end(), LaterFirst{});
    const BpeScratch::Candidate candidate = scratch.queue.back();
    scratch.queue.pop_back();
    ++scratch.num_steps;
    auto& left = symbols[candidate.position];
    if (left.id != candidate.left || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != candidate.right) continue;
    left.id = candidate.merge.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0)
      symbols[static_cast<size_t>(left.next)].previous = static_cast<int32_t>(candidate.position);
    if (left.previous >= 0) push_candidate(left.previous, allow_special, scratch);
    push_candidate(static_cast<int32_t>(candidate.position), allow_special, scratch);
  }
  for (int32_t idx = 0; idx >= 0; idx = symbols[static_cast<size_t>(idx)].next) {
    ids.push_back(symbols[static_cast<size_t>(idx)].id);
  }
}

}  // namespace quire
