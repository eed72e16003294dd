// Structured output (guided decoding): a compiled constraint (JSON Schema, regular expression, grammar) over
// one vocabulary, and matchers that compute the token masks of a text.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/constrained/json_form.h"
#include "core/constrained/push_down.h"
#include "core/constrained/shared_states.h"
#include "core/constrained/token_trie.h"

namespace quire {

enum class ConstraintKind { json_schema, json_object, regex, choice, gbnf, lark };

// A compiled constraint. It depends only on its source and the vocabulary; safe to use from any thread.
// Computed states and masks are shared by its texts, but the limits hold for each text alone.
class Constraint {
 public:
  // Throws ErrorCode::format for a malformed source, ErrorCode::unsupported naming the unsupported feature,
  // and ErrorCode::capacity naming the exceeded limit. The source of a choice is a JSON list of strings; the
  // source of json_object is ignored. JSON of schemas has the given form.
  static std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source,
                                                   std::shared_ptr<const TokenVocabulary> vocabulary,
                                                   const ConstraintLimits& limits = {},
                                                   const JsonForm& form = {});

  ConstraintKind kind() const { return kind_; }
  const std::string& source() const { return source_; }
  const JsonForm& form() const { return form_; }
  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  size_t held_bytes() const { return pool_.held_bytes(); }

 private:
  friend class Matcher;

  Constraint(ConstraintKind kind, std::string_view source, std::shared_ptr<const TokenVocabulary> vocabulary,
             const ConstraintLimits& limits, const JsonForm& form)
      : limits_(limits),
        form_(form),
        vocabulary_(std::move(vocabulary)),
        kind_(kind),
        source_(source),
        pool_(2 * limits.max_bytes) {}

  // Compiles the source; the states are those before the first text.
  std::shared_ptr<SharedStates> make_states() const;

  const ConstraintLimits limits_;
  const JsonForm form_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const ConstraintKind kind_;
  const std::string source_;
  mutable SharedStatesPool pool_;
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
    TokenId token = -1;  // read as a token and not as bytes; -1: bytes
    bool ended = false;
  };
  struct Forced {
    std::string bytes;
    std::bitset<256> next;  // the bytes that may come after them
  };
  // Calls `act` with the states of the text, under their lock. If they are full or were dropped, moves the
  // text to other states first. Throws ErrorCode::capacity if the text alone exceeds a limit in new states.
  template <typename Act>
  auto use_states(const Act& act) const;
  void read_again(PushDown& machine, std::vector<Step>& steps) const;
  bool advance(PushDown& machine, std::string_view bytes);
  Forced look_ahead(size_t max_bytes) const;
  std::string_view last_tokens(size_t num_bytes) const;

  std::shared_ptr<const Constraint> constraint_;
  std::string text_;
  // A move to other states gives the steps other positions, which mean the same.
  mutable std::shared_ptr<SharedStates> states_;
  mutable std::vector<Step> steps_;
};

}  // namespace quire
