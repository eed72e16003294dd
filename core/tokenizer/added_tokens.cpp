#include "core/tokenizer/added_tokens.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/tokenizer/unicode_text.h"

namespace quire {
namespace {

bool touches_word(std::string_view text, const TextRange& match) {
  const std::string_view before = text.substr(0, match.begin);
  if (!before.empty() && is_word_character(last_code_point(before))) return true;
  return match.end < text.size() && is_word_character(decode_utf8(text, match.end).code_point);
}

}  // namespace

bool is_inside(const TextRange& inner, gsl::span<const TextRange> ranges) {
  const auto it = std::upper_bound(ranges.begin(), ranges.end(), inner.begin,
                                   [](size_t begin, const TextRange& range) { return begin < range.end; });
  return it != ranges.end() && it->begin <= inner.begin && inner.end <= it->end;
}

bool looks_like_marker(std::string_view text) {
  if (text.size() < 3) return false;
  if (text.substr(0, 2) == "<|" || text.substr(text.size() - 2) == "|>") return true;
  return (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
}

void AddedTokenMatcher::add(const AddedToken& token, std::string_view text) {
  if (text.empty()) return;
  if (!trie_.insert(text, static_cast<int32_t>(tokens_.size()))) return;
  tokens_.push_back(token);
  is_marker_.push_back(looks_like_marker(text));
}

void AddedTokenMatcher::split(std::string_view text, const SpecialRanges& special, Sink& sink) const {
  size_t done = 0;  // text before this was passed to the sink
  size_t pos = 0;
  size_t white_end = 0;  // end of the last white space swallowed; each run is scanned only once
  const auto emit_text = [&](size_t end) {
    if (done < end) sink.text(text.substr(done, end - done), done);
  };
  while (!trie_.empty() && pos < text.size()) {
    if (!trie_.may_start(text[pos])) {
      ++pos;
      continue;
    }
    const Match match = match_at(text, pos, special);
    if (match.token == nullptr) {
      ++pos;
      continue;
    }
    const TextRange range{pos, match.end};
    pos = match.end;
    if (match.token->single_word && touches_word(text, range)) continue;
    // White space that a token swallows can contain another added token, which is still found. The exception
    // is a token that swallows the space before it: nothing of it would be left.
    size_t begin = range.begin;
    size_t end = range.end;
    if (match.token->lstrip) {
      begin = std::max(begin, done);
      begin -= trailing_white_space(text.substr(done, begin - done));
    }
    if (match.token->rstrip) {
      if (end >= white_end) white_end = end + leading_white_space(text.substr(end));
      end = white_end;
    }
    if (begin >= end) continue;
    emit_text(begin);
    sink.token(match.token->id);
    done = end;
  }
  emit_text(text.size());
}

// Returns the longest token that begins at `begin`.
AddedTokenMatcher::Match AddedTokenMatcher::match_at(std::string_view text, size_t begin,
                                                     const SpecialRanges& special) const {
  Match longest;
  int32_t node = 0;
  for (size_t pos = begin; pos < text.size(); ++pos) {
    node = trie_.child(node, static_cast<unsigned char>(text[pos]));
    if (node == ByteTrie::kNone) break;
    if (trie_.value(node) == ByteTrie::kNone) continue;
    const auto idx = static_cast<size_t>(trie_.value(node));
    const bool guarded = tokens_[idx].special || (special.restrict_markers && is_marker_[idx]);
    if (!guarded || is_inside({begin, pos + 1}, special.ranges)) longest = {&tokens_[idx], pos + 1};
  }
  return longest;
}

}  // namespace quire
