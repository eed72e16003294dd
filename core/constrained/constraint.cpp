#include "core/constrained/constraint.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxForcedBytes = 256;     // looked at for one call
constexpr size_t kMaxMaskBytes = 8U << 20;  // of masks kept by position
constexpr size_t kMaxWalkBytes = 16U << 20;

void join(gsl::span<uint32_t> into, const TokenBits& mask) {
  for (size_t i = 0; i < into.size(); ++i) into[i] |= mask[i];
}

void set_bit(gsl::span<uint32_t> mask, TokenId id) {
  mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
}

}  // namespace

size_t Constraint::PositionHash::operator()(const Position& position) const {
  uint64_t hash = position.ways.size() * 2 + (position.ends ? 1 : 0);
  for (const Way& way : position.ways) {
    hash = (hash ^ (uint64_t{way.stack} << 32 | way.state)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash);
}

size_t Constraint::held_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = machine_.held_bytes() + masks_.size() * vocabulary_->num_words() * 4;
  for (const auto& [state, walk] : walks_)
    bytes += walk.mask.size() * 4 + walk.tokens.size() * 4 + walk.exits.size() * 4;
  return bytes;
}

void Constraint::spend(uint64_t steps) const {
  if (steps > steps_left_) {
    throw Error(ErrorCode::capacity, "a mask of the constraint takes more than max_mask_steps = {} steps",
                limits_.max_mask_steps);
  }
  steps_left_ -= steps;
}

void Constraint::walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
                            std::vector<uint32_t>& exits) const {
  const auto& [trie, begin, end, flag] = tree;
  if (begin >= end) return;
  ByteAutomaton& automaton = machine_.automaton();
  const uint32_t base = trie.nodes[begin].depth;
  std::vector<const ByteRow*> rows(static_cast<size_t>(vocabulary_->max_bytes()) + 2);
  rows[0] = &automaton.row(state);
  uint64_t steps = 0;
  for (uint32_t i = begin; i < end;) {
    const TrieNode& node = trie.nodes[i];
    const uint32_t level = node.depth - base;
    const ByteStateId next = (*rows[level])[node.byte];
    ++steps;
    if (next == ByteAutomaton::kDead) {
      i = node.end;
      continue;
    }
    const bool accepts = automaton.accepts(next);
    const bool over = accepts && !automaton.leads_on(next);
    const bool later = over && marks == Marks::later;
    if (node.token >= 0 && !later) vocabulary_->mark(node, mask);
    const bool has_children = node.end > i + 1;
    if ((has_children && accepts) || later) exits.push_back(i | flag);
    if (has_children) rows[level + 1] = &automaton.row(next);
    ++i;
  }
  spend(steps);
}

// From a node on, its own bytes already read.
void Constraint::walk(uint32_t node, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
                      std::vector<uint32_t>& exits) const {
  const bool plain = (node & kPlainNode) != 0;
  const TokenTrie& trie = plain ? vocabulary_->plain() : vocabulary_->other();
  const uint32_t idx = node & ~kPlainNode;
  walk_nodes({trie, idx + 1, trie.nodes[idx].end, plain ? kPlainNode : 0}, state, marks, mask, exits);
}

const Constraint::Walk& Constraint::walk_from(ByteStateId exact, Marks marks) const {
  ByteAutomaton& automaton = machine_.automaton();
  const ByteStateId state = automaton.cut(exact, vocabulary_->max_bytes());
  const uint64_t key = uint64_t{state} << 1 | (marks == Marks::later ? 1 : 0);
  const auto known = walks_.find(key);
  if (known != walks_.end()) return known->second;
  if (walks_.size() * vocabulary_->num_words() * 4 > kMaxWalkBytes) walks_.clear();
  Walk found;
  TokenBits mask(vocabulary_->num_words());
  const auto walk_trie = [&](const TokenTrie& trie, uint32_t flag) QUIRE_NO_THREAD_ANALYSIS {
    walk_nodes({trie, 0, static_cast<uint32_t>(trie.nodes.size()), flag}, state, marks, mask, found.exits);
  };
  walk_trie(vocabulary_->other(), 0);
  const LanguageId language = automaton.place(state).language;
  const uint32_t num_free = machine_.languages().free_length(language);
  const bool known_plain = automaton.in_json_text(state) &&
                           (num_free >= TokenVocabulary::kMaxPlainChars ||
                            (num_free > 0 && machine_.languages().ends_after_free_length(language)));
  if (known_plain) {
    join(mask, vocabulary_->plain_up_to(num_free));
  } else {
    walk_trie(vocabulary_->plain(), kPlainNode);
  }
  found.mask = std::move(mask);
  size_t count = 0;
  for (const uint32_t word : found.mask) count += static_cast<size_t>(__builtin_popcount(word));
  if (count < found.mask.size() / 4) {
    for (size_t i = 0; i < found.mask.size(); ++i) {
      for (uint32_t bits = found.mask[i]; bits != 0; bits &= bits - 1) {
        found.tokens.push_back(static_cast<TokenId>(i * 32 + static_cast<size_t>(__builtin_ctz(bits))));
      }
    }
    found.mask = {};
  }
  return walks_.emplace(key, std::move(found)).first->second;
}

std::string Constraint::path_to(uint32_t node) const {
  const TokenTrie& trie = (node & kPlainNode) != 0 ? vocabulary_->plain() : vocabulary_->other();
  const uint32_t target = node & ~kPlainNode;
  std::string path;
  for (uint32_t i = 0; i <= target;) {
    if (trie.nodes[i].end <= target) {
      i = trie.nodes[i].end;
      continue;
    }
    path.push_back(static_cast<char>(trie.nodes[i].byte));
    ++i;
  }
  return path;
}

void Constraint::fill_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const {
  const auto known = masks_.find(position);
  if (known != masks_.end()) {
    std::copy(known->second.begin(), known->second.end(), mask.begin());
    return;
  }
  std::fill(mask.begin(), mask.end(), 0);
  const bool by_position_alone = make_mask(position, text, mask);
  if (!by_position_alone) return;
  if (masks_.size() * mask.size_bytes() > kMaxMaskBytes) masks_.clear();
  masks_.emplace(position, TokenBits(mask.begin(), mask.end()));
}

bool Constraint::make_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const {
  bool by_position_alone = true;
  steps_left_ = limits_.max_mask_steps;
  struct Exit {
    uint32_t node;
    StackId stack;
  };
  std::vector<Exit> todo;
  for (const Way& way : position.ways) {
    if ((way.state & kTokenState) != 0) {
      const TokenSet& set = machine_.grammar().token_sets[way.state & ~kTokenState];
      for (size_t i = 0; i < vocabulary_->size(); ++i) {
        if (machine_.takes(set, static_cast<TokenId>(i))) set_bit(mask, static_cast<TokenId>(i));
      }
      continue;
    }
    const Walk& found = walk_from(way.state, marks_for(way.stack));
    if (!found.mask.empty()) join(mask, found.mask);
    for (const TokenId token : found.tokens) set_bit(mask, token);
    for (const uint32_t exit : found.exits) todo.push_back({exit, way.stack});
  }
  std::unordered_set<uint64_t> seen;
  std::vector<uint32_t> exits;
  while (!todo.empty()) {
    const Exit exit = todo.back();
    todo.pop_back();
    if (!seen.insert(uint64_t{exit.stack} << 32 | exit.node).second) continue;
    StackId stack = exit.stack;
    if (machine_.depends_on_text(stack)) {
      by_position_alone = false;
      stack = machine_.settle(stack, std::string(text) + path_to(exit.node));
    }
    if (stack == JsonMachine::kNoStack) continue;
    if (stack != exit.stack) {
      const bool plain = (exit.node & kPlainNode) != 0;
      const TrieNode& node =
          (plain ? vocabulary_->plain() : vocabulary_->other()).nodes[exit.node & ~kPlainNode];
      if (node.token >= 0) vocabulary_->mark(node, mask);
    }
    for (const Way& way : machine_.closure(stack).ways) {
      if ((way.state & kTokenState) != 0) continue;
      exits.clear();
      walk(exit.node, way.state, marks_for(way.stack), mask, exits);
      for (const uint32_t node : exits) todo.push_back({node, way.stack});
    }
  }
  if (position.ends) {
    for (const TokenId end : vocabulary_->ends()) set_bit(mask, end);
  }
  return by_position_alone;
}

Matcher::Matcher(std::shared_ptr<const Constraint> constraint) : constraint_(std::move(constraint)) {
  MutexLock lock(constraint_->mutex_);
  steps_.push_back({constraint_->machine_.start(), 0, false});
}

void Matcher::mask(gsl::span<uint32_t> mask) const {
  Expects(mask.size() == constraint_->vocabulary().num_words());
  if (has_ended()) {
    std::fill(mask.begin(), mask.end(), 0);
    return;
  }
  MutexLock lock(constraint_->mutex_);
  constraint_->fill_mask(steps_.back().position, text_, mask);
}

bool Matcher::advance(std::string_view bytes, Position position) {
  const size_t old_size = text_.size();
  for (const char byte : bytes) {
    text_.push_back(byte);
    position = constraint_->machine_.after(position, static_cast<uint8_t>(byte), text_);
    if (position.ways.empty() && !position.ends) {
      text_.resize(old_size);
      return false;
    }
  }
  steps_.push_back({std::move(position), text_.size(), false});
  return true;
}

bool Matcher::accept(TokenId token) {
  if (has_ended()) return false;
  const TokenVocabulary& vocabulary = constraint_->vocabulary();
  if (token < 0 || static_cast<size_t>(token) >= vocabulary.size()) return false;
  MutexLock lock(constraint_->mutex_);
  const Position& here = steps_.back().position;
  const bool is_end =
      std::find(vocabulary.ends().begin(), vocabulary.ends().end(), token) != vocabulary.ends().end();
  if (is_end && here.ends) {
    steps_.push_back({here, text_.size(), true});
    return true;
  }
  Position by_token = constraint_->machine_.after_token(here, token);
  if (!by_token.ways.empty() || by_token.ends) {
    text_ += vocabulary.bytes(token);
    steps_.push_back({std::move(by_token), text_.size(), false});
    return true;
  }
  return vocabulary.is_text(token) && advance(vocabulary.bytes(token), here);
}

bool Matcher::accept_text(std::string_view bytes) {
  if (has_ended()) return false;
  MutexLock lock(constraint_->mutex_);
  return advance(bytes, steps_.back().position);
}

void Matcher::rollback(size_t num_steps) {
  Expects(num_steps < steps_.size());
  steps_.resize(steps_.size() - num_steps);
  text_.resize(steps_.back().text_bytes);
}

std::string Matcher::forced(size_t max_bytes) const {
  std::string bytes;
  if (has_ended()) return bytes;
  MutexLock lock(constraint_->mutex_);
  PushDown& machine = constraint_->machine_;
  int byte = machine.only_byte(steps_.back().position);
  if (byte < 0) return bytes;
  Position position = steps_.back().position;
  std::string text = text_;
  for (; byte >= 0 && bytes.size() < max_bytes; byte = machine.only_byte(position)) {
    text.push_back(static_cast<char>(byte));
    bytes.push_back(static_cast<char>(byte));
    position = machine.after(position, static_cast<uint8_t>(byte), text);
  }
  return bytes;
}

void Matcher::force(size_t max_tokens, TokenIds& out) const {
  const std::string bytes = forced(kMaxForcedBytes);
  std::string_view rest = bytes;
  for (size_t n = 0; n < max_tokens && !rest.empty(); ++n) {
    const TokenVocabulary::Longest longest = constraint_->vocabulary().longest(rest);
    if (longest.token < 0 || longest.is_open) return;
    out.push_back(longest.token);
    rest.remove_prefix(longest.num_bytes);
  }
}

}  // namespace quire
