// A compiled constraint over one vocabulary, and the matchers that follow texts through it.
// Structured output, also called guided decoding.
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

// What follows from its source and the vocabulary alone: any thread may use it at any time. What it finds out
// on the way (states, masks) it keeps, under a lock and within its limits.
class Constraint : public std::enable_shared_from_this<Constraint> {
 public:
  // ErrorCode::format for a malformed source, ErrorCode::unsupported naming what is not supported,
  // ErrorCode::capacity naming the limit that it goes beyond. The source of a choice is a JSON list of
  // strings; that of a JSON object is not looked at.
  static std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source,
                                                   std::shared_ptr<const TokenVocabulary> vocabulary,
                                                   const ConstraintLimits& limits = {});

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  size_t held_bytes() const;
  // What a new text begins with: this, or one made anew of the same source where the texts so far have taken
  // up half of what the limits leave, as lists whose items must differ do with each of their texts.
  std::shared_ptr<const Constraint> current() const;

 private:
  friend class Matcher;
  // Tokens that stay within the lexeme they begin in, and the nodes at which it may be over.
  struct Walk {
    TokenBits mask;  // empty where `tokens` has them
    TokenIds tokens;
    std::vector<uint32_t> exits;  // nodes, those of the plain trie with kPlainNode
  };
  static constexpr uint32_t kPlainNode = 0x80000000U;

  Constraint(std::shared_ptr<const TokenVocabulary> vocabulary, const ConstraintLimits& limits)
      : limits_(limits),
        vocabulary_(std::move(vocabulary)),
        machine_(limits),
        rows_by_depth_(vocabulary_->max_bytes() + size_t{2}) {}

  // What the limits count.
  struct Held {
    size_t items = 0;
    size_t states = 0;
  };
  Held held() const QUIRE_REQUIRES(mutex_) { return {machine_.num_items(), machine_.num_states()}; }
  bool is_used_up() const;
  void fill_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const
      QUIRE_REQUIRES(mutex_);
  // Into a mask that is empty; whether it holds for the position whatever the text was.
  bool make_mask(const Position& position, std::string_view text, gsl::span<uint32_t> mask) const
      QUIRE_REQUIRES(mutex_);
  // A token with which a lexeme is over may have to wait until its stack is settled, or leads nowhere.
  enum class Marks { now, later };
  Marks marks_for(StackId stack) const QUIRE_REQUIRES(mutex_) {
    return machine_.depends_on_text(stack) || !machine_.goes_on(stack) ? Marks::later : Marks::now;
  }
  // What comes after the nodes at which a lexeme is over.
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
  // Nodes of a trie that are siblings, with all below them.
  struct Subtree {
    const TokenTrie& trie;
    uint32_t begin;
    uint32_t end;
    uint32_t flag;  // of its exits: kPlainNode or 0
  };
  void walk_nodes(const Subtree& tree, ByteStateId state, Marks marks, FoundTokens& found,
                  std::vector<uint32_t>& exits) const QUIRE_REQUIRES(mutex_);
  void spend(uint64_t steps) const QUIRE_REQUIRES(mutex_);
  std::string path_to(uint32_t node) const;
  bool is_cut_by_depth(const Position& position, std::string_view text) const QUIRE_REQUIRES(mutex_);

  // Of the mask that is being made.
  struct Making {
    uint64_t steps_left = 0;
    bool met_depth = false;  // a token came to where more would open, but the stack is as deep as may be
  };
  struct PositionHash {
    size_t operator()(const Position& position) const;
  };

  const ConstraintLimits limits_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  ConstraintKind kind_ = ConstraintKind::json_object;
  std::string source_;
  Held at_first_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<const Constraint> successor_ QUIRE_GUARDED_BY(mutex_);
  mutable PushDown machine_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<uint64_t, Walk> walks_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<ByteStateId, ByteStateId> cuts_ QUIRE_GUARDED_BY(mutex_);
  mutable std::unordered_map<Position, TokenBits, PositionHash> masks_ QUIRE_GUARDED_BY(mutex_);
  mutable Making making_ QUIRE_GUARDED_BY(mutex_);
  mutable FoundTokens found_ QUIRE_GUARDED_BY(mutex_);  // by one walk
  mutable std::vector<const ByteRow*> rows_by_depth_ QUIRE_GUARDED_BY(mutex_);
};

// One text on its way through a constraint. Not thread-safe; a copy goes on from the same place.
class Matcher {
 public:
  explicit Matcher(const std::shared_ptr<const Constraint>& constraint);

  const Constraint& constraint() const { return *constraint_; }
  // The tokens that may come next, one bit each; the tokens that end a text are among them where it may end.
  // `mask` has TokenVocabulary::num_words() words.
  void mask(gsl::span<uint32_t> mask) const;
  // False, and no change, where the token may not come next.
  bool accept(TokenId token);
  bool accept_text(std::string_view bytes);
  // Takes back the last `num_steps` calls that accepted something.
  void rollback(size_t num_steps);
  bool may_end() const { return steps_.back().position.ends; }
  bool has_ended() const { return steps_.back().ended; }
  // Whether there is a way on at all.
  bool can_go_on() const { return !steps_.back().position.ways.empty(); }
  // Where a mask has no token: the limit that left none, and the way out. Empty where no limit did.
  std::string limit_met() const;
  // The bytes that must come next, as far as there is no choice; at most max_bytes.
  std::string forced(size_t max_bytes) const;
  // Appends at most max_tokens tokens of that text, cut as the tokenizer cuts it and none that what comes
  // after it might change; of a vocabulary without a tokenizer the longest.
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
    std::bitset<256> next;  // what may come after them
  };
  bool advance(std::string_view bytes, Position position) QUIRE_REQUIRES(constraint_->mutex_);
  Forced look_ahead(size_t max_bytes) const;
  std::string_view last_tokens(size_t num_bytes) const;

  std::shared_ptr<const Constraint> constraint_;
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace quire
