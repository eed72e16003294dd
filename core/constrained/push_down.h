// The push-down automaton of a constraint. It follows all ways to read a text; each has one lexeme on top of
// a stack of parts still to come.
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
#include "core/constrained/states_full.h"

namespace quire {

// Limits of one text. States that texts share do not count twice.
struct ConstraintLimits {
  size_t max_items = size_t{1} << 20;    // stack items ever held, and the alternatives that they refer to
  size_t max_states = size_t{1} << 18;   // states of languages, and the same number for bytes
  size_t max_ways = 20'000;              // ways to read a text at once
  uint64_t max_mask_steps = 50'000'000;  // vocabulary nodes visited for one mask
  size_t max_bytes = size_t{512} << 20;  // of all states
};

// If this bit is set in its state, a way expects a token, not bytes; the other bits are the number of the
// token set.
constexpr ByteStateId kTokenState = 0x80000000U;

// A position in a text: all ways to continue, sorted.
struct Position {
  std::vector<Way> ways;
  bool ends = false;  // the text may end here
  bool operator==(const Position&) const = default;
};

// A running grammar. Not thread-safe.
class PushDown {
 public:
  PushDown(const ConstraintLimits& limits, const JsonForm& form);

  LanguageStore& languages() { return languages_; }
  ByteAutomaton& automaton() { return automaton_; }
  const Grammar& grammar() const { return grammar_; }
  // Called once; regular parts of the grammar become lexemes. Throws ErrorCode::unsupported for indirect left
  // recursion.
  void build(Grammar grammar);

  Position start();
  // Returns the position after `byte`. `text` is the text read so far, including the byte.
  Position after(const Position& from, uint8_t byte, std::string_view text);
  Position after_token(const Position& from, TokenId token);
  // Returns the byte that must come next; -1 if there is a choice or none.
  int only_byte(const Position& from);
  // Returns the bytes that may come next, ignoring token sets; a character outside ASCII counts by its first
  // byte.
  std::bitset<256> next_bytes(const Position& from);
  const Closure& closure(StackId stack);
  // Returns whether the text can continue from this stack; false if the stack is too deep to open what must
  // come.
  bool goes_on(StackId stack) {
    if (JsonMachine::can_always_continue(stacks_.at(stack).op)) return true;
    const Closure& then = closure(stack);
    return then.ends || !then.ways.empty();
  }
  // The quantities that the limits apply to.
  size_t num_items() const { return stacks_.size(); }
  size_t num_states() const { return std::max(automaton_.num_states(), languages_.num_terms()); }
  // Resolves a stack with the text read so far; JsonMachine::kNoStack if the text cannot continue.
  StackId settle(StackId stack, std::string_view text, JsonMachine::EndedItems& items) {
    return depends_on_text(stack) ? json_.settle(stack, text, items) : stack;
  }
  bool depends_on_text(StackId stack) const { return JsonMachine::depends_on_text(stacks_.at(stack).op); }
  bool takes(const TokenSet& set, TokenId token) const;
  size_t held_bytes() const;
  // Throws StatesFull if the memory of the states is used up. The stores check their counts themselves.
  void check_bytes() const {
    if (held_bytes() > capacity_of(limits_.max_bytes))
      throw StatesFull("max_bytes", limits_.max_bytes, "bytes");
  }
  // Throws StatesFull if the states exceed a limit.
  void check_limits() const;

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
  size_t closure_bytes_ = 0;
  StackId root_ = 0;
};

}  // namespace quire
