// Structured output (guided decoding): a compiled constraint (JSON Schema, regular expression, grammar) over
// one vocabulary, and matchers that compute the token masks of a text.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/constrained/push_down.h"
#include "core/constrained/token_trie.h"

namespace quire {

enum class ConstraintKind { json_schema, json_object, regex, choice, gbnf, lark };

// A compiled constraint. It depends only on its source and the vocabulary; safe to use from any thread.
// Computed states and masks are cached, under a lock and within the limits.
class Constraint : public std::enable_shared_from_this<Constraint> {
 public:
  // Throws ErrorCode::format for a malformed source, ErrorCode::unsupported naming the unsupported feature,
  // and ErrorCode::capacity naming the exceeded limit. The source of a choice is a JSON list of strings; the
  // source of json_object is ignored.
  static std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source,
                                                   std::shared_ptr<const TokenVocabulary> vocabulary,
                                                   const ConstraintLimits& limits = {});

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  size_t held_bytes() const;
  // Returns the constraint for a new text: this one, or one compiled again from the same source if past texts
  // have used half of the limits. Lists with uniqueItems, for example, use up items with every text.
  std::shared_ptr<const Constraint> current() const;

 private:
  friend class Matcher;
  // The tokens that stay within the lexeme they begin in, and the trie nodes at which the lexeme may end.
  struct Walk {
    TokenBits mask;  // empty if `tokens` is used instead
    TokenIds tokens;
    std::vector<uint32_t> exits;  // trie nodes; kPlainNode is set for nodes of the plain trie
  };
  static constexpr uint32_t kPlainNode = 0x80000000U;

  Constraint(std::shared_ptr<const TokenVocabulary> vocabulary, const ConstraintLimits& limits)
      : limits_(limits),
        vocabulary_(std::move(vocabulary)),
        machine_(limits),
        rows_by_depth_(vocabulary_->max_bytes() + size_t{2}) {}

  // The quantities that the limits apply to.
  struct Held {
    size_t items = 0;
    size_t states = 0;
  };
  Held held() const QUIRE_REQUIRES(mutex_) { return {machine_.num_items(), machine_.num_states()}; }
  bool is_half_used() const;
  void fill_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const
      QUIRE_REQUIRES(mutex_);
  // Fills an empty mask. Returns whether the mask is valid for the position regardless of the text.
  bool make_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const
      QUIRE_REQUIRES(mutex_);
  // The time to allow a token that completes a lexeme: at once, or only after its stack is resolved with the
  // text and found to continue.
  enum class Marks { now, later };
  Marks marks_for(StackId stack) const QUIRE_REQUIRES(mutex_) {
    return machine_.depends_on_text(stack) || !machine_.goes_on(stack) ? Marks::later : Marks::now;
  }
  // The stacks that follow, by the trie node at which a lexeme may end.
  using Exits = std::map<uint32_t, std::vector<StackId>>;
  bool follow_exits(Exits todo, std::string_view text, gsl::span<uint32_t> mask) const QUIRE_REQUIRES(mutex_);
  void settle(uint32_t node, std::string_view read, gsl::span<StackId> stacks, gsl::span<uint32_t> mask) const
      QUIRE_REQUIRES(mutex_);
  void follow(uint32_t node, gsl::span<const StackId> stacks, gsl::span<uint32_t> mask, Exits& todo) const
      QUIRE_REQUIRES(mutex_);
  void mark_tokens(const TokenSet& set, gsl::span<uint32_t> mask) const QUIRE_REQUIRES(mutex_);
  ByteStateId cut(ByteStateId exact) const QUIRE_REQUIRES(mutex_);
  const Walk& walk_from(ByteStateId state, Marks marks) const QUIRE_REQUIRES(mutex_);
  void walk(uint32_t node, ByteStateId state, Marks marks, gsl::span<uint32_t> mask,
            std::vector<uint32_t>& exits) const QUIRE_REQUIRES(mutex_);
  // Sibling nodes of a trie, with all nodes below them.
  struct Subtree {
    const TokenTrie& trie;
    uint32_t begin;
    uint32_t end;
    uint32_t flag;  // added to exits: kPlainNode or 0
  };
  void walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, FoundTokens& found,
                  std::vector<uint32_t>& exits) const QUIRE_REQUIRES(mutex_);
  void spend(uint64_t steps) const QUIRE_REQUIRES(mutex_);
  std::string path_to(uint32_t node) const;
  bool is_cut_by_depth(const Position& position, std::string_view text) const QUIRE_REQUIRES(mutex_);

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
  ConstraintKind kind_ = ConstraintKind::json_object;
  std::string source_;
  Held initially_held_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<const Constraint> successor_ QUIRE_GUARDED_BY(mutex_);
  mutable PushDown machine_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<uint64_t, Walk> walks_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<ByteStateId, ByteStateId> cuts_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<Position, TokenBits, PositionHash> masks_ QUIRE_GUARDED_BY(mutex_);
  mutable Making mask_progress_ QUIRE_GUARDED_BY(mutex_);
  mutable FoundTokens found_ QUIRE_GUARDED_BY(mutex_);  // by the current walk
  mutable std::vector<const ByteRow*> rows_by_depth_ QUIRE_GUARDED_BY(mutex_);
};

// The state of one text under a constraint. Not thread-safe; a copy continues from the same position.
class Matcher {
 public:
  explicit Matcher(const std::shared_ptr<const Constraint>& constraint);

  const Constraint& constraint() const { return *constraint_; }
  // Sets the token mask: one bit for each token that may come next, including end tokens if the text may end
  // here. `mask` has TokenVocabulary::num_words() words.
  void mask(gsl::span<uint32_t> mask) const;
  // Returns false, without a change, if the token may not come next.
  bool accept(TokenId token);
  bool accept_text(std::string_view bytes);
  // Undoes the last `num_steps` successful calls of accept and accept_text.
  void rollback(size_t num_steps);
  bool may_end() const { return steps_.back().position.ends; }
  bool has_ended() const { return steps_.back().ended; }
  // Returns whether the text can continue at all.
  bool can_go_on() const { return !steps_.back().position.ways.empty(); }
  // If the mask is empty because of a limit, returns an error text with the limit and the way out; otherwise
  // an empty string.
  std::string exceeded_limit() const;
  // Returns the bytes that must come next, until there is a choice; at most max_bytes.
  std::string forced(size_t max_bytes) const;
  // Appends up to max_tokens tokens of the forced text, split as the tokenizer splits it, and only tokens
  // that no following text can change. A vocabulary without a tokenizer gives the longest tokens.
  void force(size_t max_tokens, TokenIds& out) const;
  size_t num_steps() const { return steps_.size() - 1; }
  const std::string& text() const { return text_; }

 private:
  struct Step {
    Position position;
    size_t text_bytes = 0;
    bool ended = false;
  };
  struct Forced {
    std::string bytes;
    std::bitset<256> next;  // the bytes that may come after them
  };
  bool advance(std::string_view bytes, Position position) QUIRE_REQUIRES(constraint_->mutex_);
  Forced look_ahead(size_t max_bytes) const;
  std::string_view last_tokens(size_t num_bytes) const;

  std::shared_ptr<const Constraint> constraint_;
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace quire
