// The computed states of a constraint, and the token masks made with them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/constrained/push_down.h"
#include "core/constrained/token_trie.h"

namespace quire {

// The automaton of a constraint with all states and masks computed so far. Any number of texts may use it. An
// exception leaves it as it was, except for states that are complete. Not thread-safe.
class MaskMaker {
 public:
  MaskMaker(std::shared_ptr<const TokenVocabulary> vocabulary, const ConstraintLimits& limits,
            const JsonForm& form);

  // Called once, with a grammar over the languages of the machine.
  void build(Grammar grammar);
  PushDown& machine() { return machine_; }
  // Sets the mask of a position. `text` is the text read so far.
  void fill_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask);
  // Returns whether the mask is empty because of the maximum depth.
  bool is_cut_by_depth(const Position& position, std::string_view text);

  // Returns whether texts have used more than half of what a limit leaves to them.
  bool is_half_full() const;
  size_t held_bytes() const;

 private:
  // The tokens that stay within the lexeme they begin in, and the trie nodes at which the lexeme may end.
  struct Walk {
    TokenBits mask;  // empty if `tokens` is used instead
    TokenIds tokens;
    std::vector<uint32_t> exits;  // trie nodes; kPlainNode is set for nodes of the plain trie
    uint64_t num_steps = 0;       // counted again for each mask, so that a cached walk changes no limit
  };
  static constexpr uint32_t kPlainNode = 0x80000000U;

  // The quantities that the limits apply to.
  struct Held {
    size_t items = 0;
    size_t states = 0;
    size_t bytes = 0;
  };
  // Fills an empty mask. Returns whether the mask is valid for the position regardless of the text.
  bool make_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask);
  // The time to allow a token that completes a lexeme: at once, or only after its stack is resolved with the
  // text and found to continue.
  enum class Marks { now, later };
  Marks marks_for(StackId stack) {
    return machine_.depends_on_text(stack) || !machine_.goes_on(stack) ? Marks::later : Marks::now;
  }
  // The stacks that follow, by the trie node at which a lexeme may end.
  using Exits = std::map<uint32_t, std::vector<StackId>>;
  bool follow_exits(Exits todo, std::string_view text, gsl::span<uint32_t> mask);
  void settle(uint32_t node, std::string_view read, gsl::span<StackId> stacks, gsl::span<uint32_t> mask);
  void follow(uint32_t node, gsl::span<const StackId> stacks, gsl::span<uint32_t> mask, Exits& todo);
  void mark_tokens(const TokenSet& set, gsl::span<uint32_t> mask);
  ByteStateId cut(ByteStateId exact);
  const Walk& walk_from(ByteStateId state, Marks marks);
  void walk(uint32_t node, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
            std::vector<uint32_t>& exits);
  // Sibling nodes of a trie, with all nodes below them.
  struct Subtree {
    const TokenTrie& trie;
    uint32_t begin;
    uint32_t end;
    uint32_t flag;  // added to exits: kPlainNode or 0
  };
  void walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, FoundTokens& found,
                  std::vector<uint32_t>& exits);
  void spend(uint64_t steps);
  std::string path_to(uint32_t node) const;

  // State of the mask being computed.
  struct Making {
    uint64_t steps_left = 0;
    bool reached_max_depth = false;  // a token would open another level, but the stack has its maximum depth
  };
  struct PositionHash {
    size_t operator()(const Position& position) const;
  };

  const ConstraintLimits limits_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  PushDown machine_;
  Held initially_held_;  // before the first text
  std::unordered_map<uint64_t, Walk> walks_;
  size_t walk_bytes_ = 0;
  std::unordered_map<ByteStateId, ByteStateId> cuts_;
  std::unordered_map<Position, TokenBits, PositionHash> masks_;
  size_t mask_bytes_ = 0;
  Making mask_progress_;
  FoundTokens found_;  // by the current walk
  std::vector<const ByteRow*> rows_by_depth_;
};

}  // namespace quire
