#include "core/drafting/answer_store.h"

#include <algorithm>

#include "core/drafting/run_hash.h"

namespace quire {

AnswerRing::AnswerRing(size_t capacity)
    : tokens_(capacity, kEnd), previous_(capacity, 0), newest_(capacity, 0) {}

uint64_t AnswerRing::bytes_of(size_t capacity) {
  return capacity * (sizeof(TokenId) + 2 * sizeof(uint64_t));
}

void AnswerRing::add(gsl::span<const TokenId> answer) {
  const size_t first = answer.size() - std::min(answer.size(), tokens_.size() / 2);
  for (const TokenId token : answer.subspan(first)) push(token);
  push(kEnd);
  num_in_answer_ = 0;
}

void AnswerRing::push(TokenId token) {
  const uint64_t place = num_added_++;
  const size_t index = place & (tokens_.size() - 1);
  tokens_[index] = token;
  previous_[index] = 0;
  if (token == kEnd || ++num_in_answer_ < kMinMatch) return;
  uint64_t hash = 0;
  for (uint64_t i = place + 1 - kMinMatch; i <= place; ++i) hash = add_to_hash(hash, at(i));
  uint64_t& newest = newest_[bucket_of(hash, newest_.size())];
  previous_[index] = newest;
  newest = place + 1;
}

// Places are tried while they are older than the one before: a chain ends where its next place was
// overwritten.
AnswerRing::Match AnswerRing::find(gsl::span<const TokenId> history) const {
  Match best;
  if (history.size() < kMinMatch) return best;
  uint64_t hash = 0;
  for (const TokenId token : history.last(kMinMatch)) hash = add_to_hash(hash, token);
  uint64_t link = newest_[bucket_of(hash, newest_.size())];
  for (int32_t n = 0; n < kMaxPlaces && link > 0 && is_held(link - 1); ++n) {
    const uint64_t place = link - 1;
    const int32_t length = match_length(history, place + 1);
    if (length >= kMinMatch && length > best.length) best = {place + 1, length};
    const uint64_t older = previous_[place & (tokens_.size() - 1)];
    if (older >= link) break;
    link = older;
  }
  return best;
}

// Returns how many tokens before the place `end` equal the last ones of the history, at most kMaxMatch.
int32_t AnswerRing::match_length(gsl::span<const TokenId> history, uint64_t end) const {
  const auto most = static_cast<int32_t>(std::min<size_t>(history.size(), kMaxMatch));
  int32_t length = 0;
  while (length < most) {
    const auto back = static_cast<uint64_t>(length) + 1;
    if (end < back || !is_held(end - back)) break;
    const TokenId token = at(end - back);
    if (token == kEnd || token != history[history.size() - static_cast<size_t>(back)]) break;
    ++length;
  }
  return length;
}

void AnswerRing::read(uint64_t next, int32_t count, TokenIds& out) const {
  for (int32_t i = 0; i < count && is_held(next) && at(next) != kEnd; ++i, ++next) out.push_back(at(next));
}

AnswerStore::AnswerStore(uint64_t max_bytes) : max_rings_(max_bytes / AnswerRing::bytes_of(kRingTokens)) {}

void AnswerStore::add(std::string_view name_space, gsl::span<const TokenId> answer) {
  if (max_rings_ == 0 || answer.size() <= AnswerRing::kMinMatch) return;
  if (find(name_space) == nullptr) {
    if (rings_.size() == max_rings_) rings_.pop_back();
    rings_.push_front({std::string(name_space), AnswerRing(kRingTokens)});
  }
  rings_.front().ring.add(answer);
}

const AnswerRing* AnswerStore::find(std::string_view name_space) {
  const auto ring = std::find_if(rings_.begin(), rings_.end(),
                                 [&](const Named& named) { return named.name_space == name_space; });
  if (ring == rings_.end()) return nullptr;
  rings_.splice(rings_.begin(), rings_, ring);
  return &rings_.front().ring;
}

}  // namespace quire
