#include "core/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

constexpr double kUnknownPenalty = 10.0;  // how much an unknown character scores below the worst token
constexpr TokenId kNowhere = -1;

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, Parts parts)
    : vocabulary_(vocabulary),
      scores_(std::move(parts.scores)),
      unknown_(parts.unknown),
      single_precision_(parts.single_precision),
      where_(std::move(parts.where)) {
  if (parts.byte_fallback) fallback_.emplace(vocabulary);
  double least = std::numeric_limits<double>::infinity();
  for (size_t idx = 0; idx < scores_.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (!vocabulary.contains(id) || !vocabulary.in_model(id) || std::isinf(scores_[idx])) continue;
    least = std::min(least, scores_[idx]);
    const std::string_view text = vocabulary.text(id);
    if (text.size() > kMaxTokenBytes) {
      throw Error(ErrorCode::unsupported, "{}: a token of {} bytes, more than {}", where_, text.size(),
                  kMaxTokenBytes);
    }
    if (!text.empty()) trie_.insert(text, id);
  }
  unknown_score_ = (std::isinf(least) ? 0.0 : least) - kUnknownPenalty;
}

void Unigram::encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
                     TokenIds& ids) const {
  UnigramScratch& work = scratch.unigram;
  find_best(piece, allow_special, work);
  work.reversed.clear();
  work.begins.clear();
  for (size_t end = piece.size(); end > 0; end = work.begins.back()) {
    const UnigramScratch::Node& node = work.nodes[end];
    const bool fuses =
        unknown_ && node.id == *unknown_ && !work.reversed.empty() && work.reversed.back() == *unknown_;
    if (fuses) {
      work.begins.back() = node.begin;
    } else {
      work.reversed.push_back(node.id);
      work.begins.push_back(node.begin);
    }
  }
  for (size_t i = work.reversed.size(); i-- > 0;) {
    if (unknown_ && work.reversed[i] == *unknown_) {
      const size_t begin = work.begins[i];
      const size_t end = i == 0 ? piece.size() : work.begins[i - 1];
      append_unknown(piece.substr(begin, end - begin), ids);
    } else {
      ids.push_back(work.reversed[i]);
    }
  }
}

// Finds the best split of a piece (Viterbi). As in the `tokenizers` library, a position at which no token
// matches exactly one character gets the unknown token for that character.
void Unigram::find_best(std::string_view piece, bool allow_special, UnigramScratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.assign(piece.size() + 1, {0.0, 0, kNowhere});
  const auto rounded = [this](double score) {
    return single_precision_ ? static_cast<double>(static_cast<float>(score)) : score;
  };
  const auto offer = [&](size_t begin, size_t end, TokenId id, double score) {
    UnigramScratch::Node& node = nodes[end];
    if (node.id == kNowhere || score > node.score) node = {rounded(score), static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const double score_here = nodes[begin].score;
    const size_t char_end = begin + decode_utf8(piece, begin).length;
    bool has_single = false;
    int32_t node = 0;
    for (size_t pos = begin; pos < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[pos++]));
      if (node == ByteTrie::kNone) break;
      ++scratch.num_steps;
      const TokenId id = trie_.value(node);
      if (id == ByteTrie::kNone || (!allow_special && vocabulary_.is_special(id))) continue;
      offer(begin, pos, id, score_here + scores_[static_cast<size_t>(id)]);
      has_single = has_single || pos == char_end;
    }
    if (!has_single) {
      if (!unknown_) refuse_unknown();
      offer(begin, char_end, *unknown_, rounded(score_here + unknown_score_));
    }
    begin = char_end;
  }
}

// Appends a run of unknown characters. The run as a whole can still be a token, even if its characters are
// not.
void Unigram::append_unknown(std::string_view text, TokenIds& ids) const {
  if (const auto id = vocabulary_.find(text);
      id && vocabulary_.in_model(*id) && !vocabulary_.is_special(*id)) {
    ids.push_back(*id);
    return;
  }
  if (fallback_ && fallback_->append(text, ids)) return;
  ids.push_back(*unknown_);
}

void Unigram::refuse_unknown() const {
  throw Error(ErrorCode::unsupported, "{}: the text has a character without a token, and there is no unk_id",
              where_);
}

}  // namespace quire
