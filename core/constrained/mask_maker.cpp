#include "core/constrained/mask_maker.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxMaskBytes = 8U << 20;  // of masks cached by position
constexpr size_t kMaxWalkBytes = 16U << 20;
constexpr size_t kEntryOverhead = 128;  // bytes of a cached mask or walk, besides its lists

void join(gsl::span<uint32_t> into, const TokenBits& mask) {
  for (size_t i = 0; i < into.size(); ++i) into[i] |= mask[i];
}

void set_bit(gsl::span<uint32_t> mask, TokenId id) {
  mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
}

}  // namespace

MaskMaker::MaskMaker(std::shared_ptr<const TokenVocabulary> vocabulary, const ConstraintLimits& limits,
                     const JsonForm& form)
    : limits_(limits),
      vocabulary_(std::move(vocabulary)),
      machine_(limits, form),
      rows_by_depth_(vocabulary_->max_bytes() + size_t{2}) {}

void MaskMaker::build(Grammar grammar) {
  machine_.build(std::move(grammar));
  machine_.start();
  machine_.check_limits();
  initially_held_ = {machine_.num_items(), machine_.num_states(), machine_.held_bytes()};
}

bool MaskMaker::is_half_full() const {
  const auto half = [](size_t first, size_t limit) { return first + (limit - std::min(first, limit)) / 2; };
  return machine_.num_items() > half(initially_held_.items, limits_.max_items) ||
         machine_.num_states() > half(initially_held_.states, limits_.max_states) ||
         machine_.held_bytes() > half(initially_held_.bytes, limits_.max_bytes);
}

size_t MaskMaker::held_bytes() const {
  return machine_.held_bytes() + mask_bytes_ + found_.ids.size() * 4 + cuts_.size() * 40 + walk_bytes_;
}

size_t MaskMaker::PositionHash::operator()(const Position& position) const {
  uint64_t hash = position.ways.size() * 2 + (position.ends ? 1 : 0);
  for (const Way& way : position.ways) {
    hash = (hash ^ (uint64_t{way.stack} << 32 | way.state)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash);
}

// Also checks the memory, because walks make most of the states.
void MaskMaker::spend(uint64_t steps) {
  machine_.check_bytes();
  if (steps > mask_progress_.steps_left) {
    throw Error(ErrorCode::capacity,
                "one token mask of the constraint needs more than max_mask_steps = {} steps",
                limits_.max_mask_steps);
  }
  mask_progress_.steps_left -= steps;
}

// The main loop of a mask: records tokens without a branch, and finds transition rows by depth.
void MaskMaker::walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, FoundTokens& found,
                           std::vector<uint32_t>& exits) {
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
    const ByteRow* row = automaton.known_row(next);
    // The row is made before its free classes are read, so that the steps of a walk do not depend on earlier
    // walks.
    if (row == nullptr && has_children && automaton.free_classes(next) == 0) row = &automaton.row(next);
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
    if (row == nullptr && has_children) row = &automaton.row(next);
    rows[node.depth + size_t{1}] = row;
    ++i;
  }
  spend(steps);
}

// Walks the nodes below `node`; its own bytes are already read.
void MaskMaker::walk(uint32_t node, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
                     std::vector<uint32_t>& exits) {
  const bool plain = (node & kPlainNode) != 0;
  const TokenTrie& trie = plain ? vocabulary_->plain() : vocabulary_->other();
  const uint32_t idx = node & ~kPlainNode;
  found_.begin(vocabulary_->size());
  walk_nodes({trie, idx + 1, trie.nodes[idx].end, plain ? kPlainNode : 0}, state, marks, found_, exits);
  for (const TokenId token : found_.tokens()) set_bit(mask, token);
}

// Maps states that no token can distinguish to one state, so that they share a walk.
ByteStateId MaskMaker::cut(ByteStateId exact) {
  const auto known = cuts_.find(exact);
  if (known != cuts_.end()) return known->second;
  const ByteStateId state = machine_.automaton().cut(exact, vocabulary_->max_bytes());
  cuts_.emplace(exact, state);
  return state;
}

const MaskMaker::Walk& MaskMaker::walk_from(ByteStateId exact, Marks marks) {
  ByteAutomaton& automaton = machine_.automaton();
  const ByteStateId state = cut(exact);
  const uint64_t key = uint64_t{state} << 1 | (marks == Marks::later ? 1 : 0);
  const auto known = walks_.find(key);
  if (known != walks_.end()) {
    spend(known->second.num_steps);
    return known->second;
  }
  if (walk_bytes_ > kMaxWalkBytes) {
    walks_.clear();
    walk_bytes_ = 0;
  }
  const uint64_t steps_before = mask_progress_.steps_left;
  Walk walk;
  found_.begin(vocabulary_->size());
  const auto walk_trie = [&](const TokenTrie& trie, uint32_t flag) {
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
  walk.num_steps = steps_before - mask_progress_.steps_left;
  const size_t num_bytes = (walk.mask.size() + walk.tokens.size() + walk.exits.size()) * 4 + kEntryOverhead;
  const Walk& kept = walks_.emplace(key, std::move(walk)).first->second;
  walk_bytes_ += num_bytes;
  return kept;
}

std::string MaskMaker::path_to(uint32_t node) const {
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

void MaskMaker::fill_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) {
  const auto known = masks_.find(position);
  if (known != masks_.end()) {
    std::copy(known->second.begin(), known->second.end(), mask.begin());
    return;
  }
  std::fill(mask.begin(), mask.end(), 0);
  const bool by_position_alone = make_mask(position, text, mask);
  if (!by_position_alone) return;
  if (mask_bytes_ > kMaxMaskBytes) {
    masks_.clear();
    mask_bytes_ = 0;
  }
  masks_.emplace(position, TokenBits(mask.begin(), mask.end()));
  mask_bytes_ += mask.size_bytes() + position.ways.size() * sizeof(Way) + kEntryOverhead;
}

bool MaskMaker::make_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) {
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

void MaskMaker::mark_tokens(const TokenSet& set, gsl::span<uint32_t> mask) {
  for (size_t i = 0; i < vocabulary_->size(); ++i) {
    if (machine_.takes(set, static_cast<TokenId>(i))) set_bit(mask, static_cast<TokenId>(i));
  }
}

// Completes tokens that span several lexemes, node by node; nodes below a node have higher numbers. Stacks
// that depend on the text are resolved with the text and the bytes on the path to the node. Returns whether
// the result is independent of the text.
bool MaskMaker::follow_exits(Exits todo, std::string_view text, gsl::span<uint32_t> mask) {
  bool by_position_alone = true;
  std::string read(text);
  while (!todo.empty()) {
    const uint32_t node = todo.begin()->first;
    std::vector<StackId> stacks = std::move(todo.begin()->second);
    todo.erase(todo.begin());
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    spend(stacks.size());
    const auto settled = std::partition(stacks.begin(), stacks.end(),
                                        [&](StackId stack) { return !machine_.depends_on_text(stack); });
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
void MaskMaker::settle(uint32_t node, std::string_view read, gsl::span<StackId> stacks,
                       gsl::span<uint32_t> mask) {
  JsonMachine::EndedItems items;
  for (StackId& stack : stacks) stack = machine_.settle(stack, read, items);
  const bool goes_on = std::any_of(stacks.begin(), stacks.end(), [&](StackId stack) {
    return stack != JsonMachine::kNoStack && machine_.goes_on(stack);
  });
  const TokenTrie& trie = (node & kPlainNode) != 0 ? vocabulary_->plain() : vocabulary_->other();
  const TrieNode& at = trie.nodes[node & ~kPlainNode];
  if (goes_on && at.token >= 0) vocabulary_->mark(at, mask);
}

// Continues from a node with the lexemes of each stack. Stacks that share a state share the walk.
void MaskMaker::follow(uint32_t node, gsl::span<const StackId> stacks, gsl::span<uint32_t> mask,
                       Exits& todo) {
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

bool MaskMaker::is_cut_by_depth(const Position& position, std::string_view text) {
  TokenBits mask(vocabulary_->num_words());
  make_mask(position, text, mask);
  return mask_progress_.reached_max_depth &&
         std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; });
}

}  // namespace quire
