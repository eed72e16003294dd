#include "core/tokenizer/bpe.h"

#include <algorithm>

#include <gsl/gsl>

#include "core/base/utf8.h"
#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

// Pieces of up to this many tokens use the quadratic algorithm, which is faster for them.
constexpr size_t kShortTokens = 32;
// Longer tokens are not in the table of whole words, so that loading takes linear time.
constexpr size_t kMaxWordBytes = 64;

struct LowestRankOnTop {
  bool operator()(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) const {
    if (a.merge.rank != b.merge.rank) return a.merge.rank > b.merge.rank;
    return a.position > b.position;
  }
};

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, Parts parts)
    : vocabulary_(vocabulary),
      merges_(std::move(parts.merges)),
      speller_(std::move(parts.speller)),
      ignore_merges_(parts.ignore_merges),
      words_(vocabulary.size()) {
  fill_words();
  fill_adjacent_pairs();
}

// Returns the text of a piece that is encoded as this token.
std::string_view Bpe::key(TokenId id) const {
  const bool bytes = speller_.alphabet() == BpeSpeller::Alphabet::bytes;
  return bytes ? vocabulary_.bytes(id) : vocabulary_.text(id);
}

bool Bpe::is_candidate(TokenId id) const {
  if (!vocabulary_.contains(id) || !vocabulary_.in_model(id)) return false;
  return speller_.alphabet() == BpeSpeller::Alphabet::characters || vocabulary_.is_spelled(id);
}

void Bpe::fill_words() {
  if (speller_.has_affixes() && !ignore_merges_) return;
  BpeScratch scratch;
  TokenIds ids;
  const auto is_merged_to = [&](TokenId id) {
    const std::string_view text = vocabulary_.text(id);
    if (text.empty() || text.size() > kMaxWordBytes) return false;
    scratch.tokens.clear();
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char next = decode_utf8(text, pos);
      scratch.tokens.push_back(speller_.token(next.code_point));
      if (scratch.tokens.back() == CharTokens::kNone) return false;
      pos += next.length;
    }
    ids.clear();
    merge(true, scratch, ids);
    return ids.size() == 1 && ids[0] == id;
  };
  for (size_t idx = 0; idx < vocabulary_.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (!is_candidate(id) || (!ignore_merges_ && !is_merged_to(id))) continue;
    words_.insert(id, [this](TokenId other) { return key(other); });
  }
}

void Bpe::fill_adjacent_pairs() {
  for (size_t idx = 0; idx < vocabulary_.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (is_candidate(id)) adjacent_pairs_.add_token(vocabulary_.text(id));
  }
}

void Bpe::encode(std::string_view piece, bool allow_special, EncodeScratch& scratch, TokenIds& ids) const {
  const bool whole =
      ignore_merges_ || speller_.has_affixes() || speller_.alphabet() == BpeSpeller::Alphabet::bytes;
  if (whole) return encode_part(piece, allow_special, scratch.bpe, ids);
  size_t begin = 0;
  Utf8Char left = decode_utf8(piece, 0);
  for (size_t pos = left.length; pos < piece.size();) {
    const Utf8Char right = decode_utf8(piece, pos);
    if (!adjacent_pairs_.joins(left.code_point, right.code_point) &&
        speller_.token(left.code_point) != CharTokens::kNone &&
        speller_.token(right.code_point) != CharTokens::kNone) {
      encode_part(piece.substr(begin, pos - begin), allow_special, scratch.bpe, ids);
      begin = pos;
    }
    pos += right.length;
    left = right;
  }
  encode_part(piece.substr(begin), allow_special, scratch.bpe, ids);
}

void Bpe::encode_part(std::string_view part, bool allow_special, BpeScratch& scratch, TokenIds& ids) const {
  const TokenId word = words_.find(part, [this](TokenId id) { return key(id); });
  if (word != IdTable::kNone && (allow_special || !vocabulary_.is_special(word))) {
    ids.push_back(word);
    return;
  }
  scratch.tokens.clear();
  speller_.spell(part, scratch.tokens);
  merge(allow_special, scratch, ids);
}

// Merges scratch.tokens and appends the result to `ids`.
void Bpe::merge(bool allow_special, BpeScratch& scratch, TokenIds& ids) const {
  if (scratch.tokens.size() <= kShortTokens) {
    merge_short(allow_special, scratch, ids);
  } else {
    merge_long(allow_special, scratch, ids);
  }
}

Merge Bpe::find_merge(TokenId left, TokenId right, bool allow_special) const {
  const Merge merge = merges_.find(left, right);
  if (!allow_special && merge.exists() && vocabulary_.is_special(merge.result)) return {};
  return merge;
}

void Bpe::merge_short(bool allow_special, BpeScratch& scratch, TokenIds& ids) const {
  TokenIds& tokens = scratch.tokens;
  std::array<Merge, kShortTokens + 1> merges;  // of each token with the next; the last has none
  size_t num_tokens = tokens.size();
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

void Bpe::push_candidate(int32_t left_idx, bool allow_special, BpeScratch& scratch) const {
  const BpeScratch::Symbol& left = scratch.symbols[static_cast<size_t>(left_idx)];
  if (left.next < 0) return;
  const TokenId right = scratch.symbols[static_cast<size_t>(left.next)].id;
  const Merge merge = find_merge(left.id, right, allow_special);
  if (!merge.exists()) return;
  scratch.queue.push_back({merge, static_cast<uint32_t>(left_idx), left.id, right});
  std::push_heap(scratch.queue.begin(), scratch.queue.end(), LowestRankOnTop{});
  ++scratch.num_steps;
}

// Merges with a linked list of symbols and a heap of candidates: O(n log n). Candidates whose symbols have
// changed since are ignored.
void Bpe::merge_long(bool allow_special, BpeScratch& scratch, TokenIds& ids) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.queue.clear();
  for (const TokenId token : scratch.tokens) {
    const auto idx = static_cast<int32_t>(symbols.size());
    symbols.push_back({token, idx - 1, idx + 1});
  }
  symbols.back().next = -1;
  const auto num_symbols = static_cast<int32_t>(symbols.size());
  for (int32_t idx = 0; idx < num_symbols; ++idx) push_candidate(idx, allow_special, scratch);

  while (!scratch.queue.empty()) {
    std::pop_heap(scratch.queue.begin(), scratch.queue.end(), LowestRankOnTop{});
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
