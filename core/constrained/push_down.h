// The automaton of a constraint: ways to read a text, each with one lexeme on top of a stack of what is to
// come.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/constrained/byte_automaton.h"
#include "core/constrained/grammar.h"
#include "core/constrained/json_machine.h"
#include "core/constrained/language_store.h"
#include "core/constrained/stack_store.h"

namespace quire {

struct ConstraintLimits {
  size_t max_items = size_t{1} << 20;    // of stacks that are ever held, and alternatives that they name
  size_t max_states = size_t{1} << 18;   // of languages, and as many of bytes
  size_t max_ways = 20'000;              // ways to read a text at once
  uint64_t max_mask_steps = 50'000'000;  // nodes of the vocabulary visited for one mask
};

// A way waits for a token, not for bytes, where its state has this bit; the rest is the set's number.
constexpr ByteStateId kTokenState = 0x80000000U;

// Where a text stands: all ways to go on. Sorted.
struct Position {
  std::vector<Way> ways;
  bool ends = false;  // the text may end here
  bool operator==(const Position&) const = default;
};

// Not thread-safe.
class PushDown {
 public:
  explicit PushDown(const ConstraintLimits& limits);

  LanguageStore& languages() { return languages_; }
  ByteAutomaton& automaton() { return automaton_; }
  const Grammar& grammar() const { return grammar_; }
  // Once; what of the grammar is regular becomes lexemes. ErrorCode::unsupported where a rule begins with
  // itself in a way that cannot be turned around.
  void build(Grammar grammar);

  Position start();
  // Where `byte` leads after `text`, the text read so far and the byte.
  Position after(const Position& from, uint8_t byte, std::string_view text);
  Position after_token(const Position& from, TokenId token);
  // The byte that must come next; -1 where there is a choice, or none.
  int only_byte(const Position& from);
  // The bytes that may come next, as characters for those that are one; token sets are not looked at.
  std::bitset<256> next_bytes(const Position& from);
  const Closure& closure(StackId stack);
  // Whether a text has a way on from it: none where it is so deep that nothing more opens.
  bool goes_on(StackId stack) {
    if (JsonMachine::always_goes_on(stacks_.at(stack).op)) return true;
    const Closure& then = closure(stack);
    return then.ends || !then.ways.empty();
  }
  // What the limits count.
  size_t num_items() const { return stacks_.size(); }
  size_t num_states() const { return std::max(automaton_.num_states(), languages_.num_terms()); }
  // Settled for the text read so far; JsonMachine::kNoStack where there is no way on.
  StackId settle(StackId stack, std::string_view text, JsonMachine::EndedItems& items) {
    return depends_on_text(stack) ? json_.settle(stack, text, items) : stack;
  }
  bool depends_on_text(StackId stack) const { return JsonMachine::depends_on_text(stacks_.at(stack).op); }
  bool takes(const TokenSet& set, TokenId token) const;
  size_t held_bytes() const;

 private:
  void expand(StackId stack, Closure& closure);
  void expand_expression(const StackNode& node, Closure& closure, std::vector<StackId>& more);
  void expand_sequence(ExpressionId id, uint32_t done, StackId next, std::vector<StackId>& more);
  void expand_repetition(const StackNode& node, std::vector<StackId>& more);
  void arrive(StackId stack, Position& position);
  void finish(Position& position) const;

  ConstraintLimits limits_;
  LanguageStore languages_;
  ByteAutomaton automaton_;
  StackStore stacks_;
  JsonMachine json_;
  Grammar grammar_;
  std::vector<GoalId> goals_;        // of the grammar's schemas
  std::vector<ByteStateId> starts_;  // of expressions that are languages
  Chunked<std::unique_ptr<Closure>> closures_;
  StackId root_ = 0;
};

}  // namespace quire
