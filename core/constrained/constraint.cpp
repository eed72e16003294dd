#include "core/constrained/constraint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/constrained/forced_cut.h"

namespace quire {
namespace {

constexpr size_t kMaxForcedBytes = 256;     // looked at in one call
constexpr size_t kBytesBeforeForced = 64;   // context for the tokenizer
constexpr size_t kMaxMaskBytes = 8U << 20;  // of masks cached by position
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

bool Constraint::is_half_used() const {
  const auto most = [](size_t first, size_t limit) { return first + (limit - std::min(first, limit)) / 2; };
  MutexLock lock(mutex_);
  const Held now = held();
  return now.items > most(initially_held_.items, limits_.max_items) ||
         now.states > most(initially_held_.states, limits_.max_states);
}

std::shared_ptr<const Constraint> Constraint::current() const {
  if (!is_half_used()) return shared_from_this();
  std::shared_ptr<const Constraint> successor;
  {
    MutexLock lock(mutex_);
    successor = successor_;
  }
  if (successor != nullptr && !successor->is_half_used()) return successor;
  successor = compile(kind_, source_, vocabulary_, limits_);
  MutexLock lock(mutex_);
  successor_ = successor;
  return successor;
}

size_t Constraint::held_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = machine_.held_bytes() + masks_.size() * vocabulary_->num_words() * 4 +
                 found_.ids.size() * 4 + cuts_.size() * 40;
  for (const auto& [state, walk] : walks_)
    bytes += walk.mask.size() * 4 + walk.tokens.size() * 4 + walk.exits.size() * 4;
  return bytes + (successor_ == nullptr ? 0 : successor_->held_bytes());
}

void Constraint::spend(uint64_t steps) const {
  if (steps > mask_progress_.steps_left) {
    throw Error(ErrorCode::capacity,
                "one token mask of the constraint needs more than max_mask_steps = {} steps",
                limits_.max_mask_steps);
  }
  mask_progress_.steps_left -= steps;
}

// The main loop of a mask: records tokens without a branch, and finds transition rows by depth.
void Constraint::walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, FoundTokens& found,
                            std::vector<uint32_t>& exits) const {
  const auto& [trie, begin, end, flag] = tree;
  if (begin >= end) return;
  ByteAutomaton& automaton = machine_.automaton();
  std::vector<const ByteRow*>& rows = rows_by_depth_;
  rows[trie.nodes[begin].depth] = &automaton.row(state);
  uint64_t steps = 0;
  for (uint32_t i = begin; i < end;) {
    const TrieNode& node = trie.nodes[i];
    const ByteStateId next = (*rows[node.depth])[node.byte];
    ++steps;
    if (next == ByteAutomaton::kDead) {
      i = node.end;
      continue;
    }
    const bool has_children = node.end > i + 1;
    // All tokens below are whole characters of a string, and any characters may come.
    if (has_children && flag == kPlainNode && (node.below & ~automaton.free_classes(next)) == 0) {
      for (; i < node.end; ++i) vocabulary_->note(trie.nodes[i], found);
      continue;
    }
    const uint8_t traits = automaton.traits(next);
    const bool accepts = (traits & ByteAutomaton::kAccepts) != 0;
    const bool later = accepts && (traits & ByteAutomaton::kMayContinue) == 0 && marks == Marks::later;
    if (!later) vocabulary_->note(node, found);
    if (accepts && (has_children || later)) exits.push_back(i | flag);
    const ByteRow* row = automaton.known_row(next);
    if (row == nullptr && has_children) row = &automaton.row(next);
    rows[node.depth + size_t{1}] = row;
    ++i;
  }
  spend(steps);
}

// Walks the nodes below `node`; its own bytes are already read.
void Constraint::walk(uint32_t node, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
                      std::vector<uint32_t>& exits) const {
  const bool plain = (node & kPlainNode) != 0;
  const TokenTrie& trie = plain ? vocabulary_->plain() : vocabulary_->other();
  const uint32_t idx = node & ~kPlainNode;
  found_.begin(vocabulary_->size());
  walk_nodes({trie, idx + 1, trie.nodes[idx].end, plain ? kPlainNode : 0}, state, marks, found_, exits);
  for (const TokenId token : found_.tokens()) set_bit(mask, token);
}

// Maps states that no token can distinguish to one state, so that they share a walk.
ByteStateId Constraint::cut(ByteStateId exact) const {
  const auto [known, is_new] = cuts_.emplace(exact, ByteAutomaton::kDead);
  if (is_new) known->second = machine_.automaton().cut(exact, vocabulary_->max_bytes());
  return known->second;
}

const Constraint::Walk& Constraint::walk_from(ByteStateId exact, Marks marks) const {
  ByteAutomaton& automaton = machine_.automaton();
  const ByteStateId state = cut(exact);
  const uint64_t key = uint64_t{state} << 1 | (marks == Marks::later ? 1 : 0);
  const auto known = walks_.find(key);
  if (known != walks_.end()) return known->second;
  if (walks_.size() * vocabulary_->num_words() * 4 > kMaxWalkBytes) walks_.clear();
  Walk walk;
  found_.begin(vocabulary_->size());
  const auto walk_trie = [&](const TokenTrie& trie, uint32_t flag) QUIRE_NO_THREAD_ANALYSIS {
    walk_nodes({trie, 0, static_cast<uint32_t>(trie.nodes.size()), flag}, state, marks, found_, walk.exits);
  };
  walk_trie(vocabulary_->other(), 0);
  const uint32_t num_free = automaton.free_chars(state);
  const bool known_plain =
      num_free >= kMaxPlainChars ||
      (num_free > 0 && machine_.languages().ends_after_free_length(automaton.place(state).language));
  if (known_plain) {
    walk.mask = vocabulary_->plain_up_to(num_free);
  } else {
    walk_trie(vocabulary_->plain(), kPlainNode);
  }
  const gsl::span<const TokenId> tokens = found_.tokens();
  if (!known_plain && tokens.size() < vocabulary_->num_words() / 4) {
    walk.tokens.assign(tokens.begin(), tokens.end());
  } else {
    walk.mask.resize(vocabulary_->num_words());
    for (const TokenId token : tokens) set_bit(walk.mask, token);
  }
  return walks_.emplace(key, std::move(walk)).first->second;
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
  mask_progress_ = {limits_.max_mask_steps};
  Exits exits;
  const Walk* found = nullptr;
  std::optional<std::pair<ByteStateId, Marks>> last;  // ways are sorted, and many share a state
  for (const Way& way : position.ways) {
    if ((way.state & kTokenState) != 0) {
      mask_progress_.reached_max_depth =
          mask_progress_.reached_max_depth || machine_.closure(way.stack).is_cut;
      if (!machine_.goes_on(way.stack)) continue;
      mark_tokens(machine_.grammar().token_sets[way.state & ~kTokenState], mask);
      continue;
    }
    const std::pair walked(way.state, marks_for(way.stack));
    if (last != walked) {
      found = &walk_from(way.state, walked.second);
      if (!found->mask.empty()) join(mask, found->mask);
      for (const TokenId token : found->tokens) set_bit(mask, token);
      last = walked;
    }
    for (const uint32_t node : found->exits) exits[node].push_back(way.stack);
  }
  const bool by_position_alone = follow_exits(std::move(exits), text, mask);
  if (position.ends) {
    for (const TokenId end : vocabulary_->ends()) set_bit(mask, end);
  }
  return by_position_alone;
}

void Constraint::mark_tokens(const TokenSet& set, gsl::span<uint32_t> mask) const {
  for (size_t i = 0; i < vocabulary_->size(); ++i) {
    if (machine_.takes(set, static_cast<TokenId>(i))) set_bit(mask, static_cast<TokenId>(i));
  }
}

// Completes tokens that span several lexemes, node by node; nodes below a node have higher numbers. Stacks
// that depend on the text are resolved with the text and the bytes on the path to the node. Returns whether
// the result is independent of the text.
bool Constraint::follow_exits(Exits todo, std::string_view text, gsl::span<uint32_t> mask) const {
  bool by_position_alone = true;
  std::string read(text);
  while (!todo.empty()) {
    const uint32_t node = todo.begin()->first;
    std::vector<StackId> stacks = std::move(todo.begin()->second);
    todo.erase(todo.begin());
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    spend(stacks.size());
    const auto settled = std::partition(
        stacks.begin(), stacks.end(),
        [&](StackId stack) QUIRE_NO_THREAD_ANALYSIS { return !machine_.depends_on_text(stack); });
    if (settled != stacks.end()) {
      by_position_alone = false;
      read.resize(text.size());
      read += path_to(node);
      settle(node, read, gsl::span(stacks).last(static_cast<size_t>(stacks.end() - settled)), mask);
    }
    follow(node, stacks, mask, todo);
  }
  return by_position_alone;
}

// Resolves stacks with the text and sets those that cannot continue to kNoStack. If any continues, allows the
// token that ends at the node.
void Constraint::settle(uint32_t node, std::string_view read, gsl::span<StackId> stacks,
                        gsl::span<uint32_t> mask) const {
  JsonMachine::EndedItems items;
  for (StackId& stack : stacks) stack = machine_.settle(stack, read, items);
  const bool goes_on = std::any_of(stacks.begin(), stacks.end(), [&](StackId stack) QUIRE_NO_THREAD_ANALYSIS {
    return stack != JsonMachine::kNoStack && machine_.goes_on(stack);
  });
  const TokenTrie& trie = (node & kPlainNode) != 0 ? vocabulary_->plain() : vocabulary_->other();
  const TrieNode& at = trie.nodes[node & ~kPlainNode];
  if (goes_on && at.token >= 0) vocabulary_->mark(at, mask);
}

// Continues from a node with the lexemes of each stack. Stacks that share a state share the walk.
void Constraint::follow(uint32_t node, gsl::span<const StackId> stacks, gsl::span<uint32_t> mask,
                        Exits& todo) const {
  std::unordered_map<uint64_t, std::vector<uint32_t>> walked;
  for (const StackId stack : stacks) {
    if (stack == JsonMachine::kNoStack) continue;
    const Closure& then = machine_.closure(stack);
    mask_progress_.reached_max_depth = mask_progress_.reached_max_depth || then.is_cut;
    for (const Way& way : then.ways) {
      if ((way.state & kTokenState) != 0) continue;
      const Marks marks = marks_for(way.stack);
      const uint64_t key = uint64_t{way.state} << 1 | (marks == Marks::later ? 1 : 0);
      const auto [known, is_new] = walked.try_emplace(key);
      if (is_new) walk(node, way.state, marks, mask, known->second);
      for (const uint32_t exit : known->second) todo[exit].push_back(way.stack);
    }
  }
}

bool Constraint::is_cut_by_depth(const Position& position, std::string_view text) const {
  TokenBits mask(vocabulary_->num_words());
  make_mask(position, text, mask);
  return mask_progress_.reached_max_depth &&
         std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; });
}

Matcher::Matcher(const std::shared_ptr<const Constraint>& constraint) : constraint_(constraint->current()) {
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

std::string Matcher::exceeded_limit() const {
  if (has_ended()) return {};
  MutexLock lock(constraint_->mutex_);
  if (!constraint_->is_cut_by_depth(steps_.back().position, text_)) return {};
  return fmt::format(
      "the text is nested max_depth = {} items deep, the limit of the constraint: let it nest less, or "
      "make the nested parts optional",
      JsonMachine::kMaxDepth);
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

Matcher::Forced Matcher::look_ahead(size_t max_bytes) const {
  Forced forced;
  if (has_ended()) return forced;
  MutexLock lock(constraint_->mutex_);
  PushDown& machine = constraint_->machine_;
  int byte = machine.only_byte(steps_.back().position);
  if (byte < 0) return forced;
  Position position = steps_.back().position;
  std::string text = text_;
  for (; byte >= 0 && forced.bytes.size() < max_bytes; byte = machine.only_byte(position)) {
    text.push_back(static_cast<char>(byte));
    Position next = machine.after(position, static_cast<uint8_t>(byte), text);
    if (next.ways.empty() && !next.ends) break;
    forced.bytes.push_back(static_cast<char>(byte));
    position = std::move(next);
  }
  forced.next = machine.next_bytes(position);
  return forced;
}

std::string Matcher::forced(size_t max_bytes) const {
  return look_ahead(max_bytes).bytes;
}

// Returns about the last `num_bytes` bytes of the text, beginning at a token boundary.
std::string_view Matcher::last_tokens(size_t num_bytes) const {
  size_t begin = text_.size();
  for (auto step = steps_.rbegin(); step != steps_.rend() && text_.size() - begin < num_bytes; ++step)
    begin = step->text_bytes;
  const auto is_inside = [this](size_t at) { return (static_cast<uint8_t>(text_[at]) & 0xC0U) == 0x80U; };
  while (begin < text_.size() && is_inside(begin)) ++begin;
  return std::string_view(text_).substr(begin);
}

namespace {

// Returns one sample character of each kind that tokenizers distinguish, from the bytes that may come.
std::vector<std::string> samples_of(const std::bitset<256>& bytes) {
  std::vector<std::string> samples;
  for (const auto& [first, last] : {std::pair{'a', 'z'}, {'A', 'Z'}, {'0', '9'}}) {
    const auto is_there = [&bytes](char byte) { return bytes[static_cast<uint8_t>(byte)]; };
    char byte = first;
    while (byte < last && !is_there(byte)) ++byte;
    if (is_there(byte)) samples.emplace_back(1, byte);
  }
  for (const char byte : std::string_view(" \n\"':,.}])_-/\\")) {
    if (bytes[static_cast<uint8_t>(byte)]) samples.emplace_back(1, byte);
  }
  if ((bytes >> 0xC2).any()) samples.emplace_back("\u00e9");
  return samples;
}

}  // namespace

void Matcher::force(size_t max_tokens, TokenIds& out) const {
  const Forced forced = look_ahead(kMaxForcedBytes);
  if (forced.bytes.empty()) return;
  if (const Tokenizer* const tokenizer = constraint_->vocabulary().tokenizer()) {
    const TokenIds tokens = split_as_tokenizer(*tokenizer, last_tokens(kBytesBeforeForced), forced.bytes,
                                               samples_of(forced.next));
    out.insert(out.end(), tokens.begin(),
               tokens.begin() + static_cast<ptrdiff_t>(std::min(max_tokens, tokens.size())));
    return;
  }
  std::string_view rest = forced.bytes;
  for (size_t n = 0; n < max_tokens && !rest.empty(); ++n) {
    const TokenVocabulary::Longest longest = constraint_->vocabulary().longest(rest);
    if (longest.token < 0 || longest.is_open) return;
    out.push_back(longest.token);
    rest.remove_prefix(longest.num_bytes);
  }
}

}  // namespace quire
