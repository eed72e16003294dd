#include "core/engine/model/reasoning_budget.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gsl/gsl>

#include "core/tokenizer/detokenizer.h"

namespace quire {
namespace {

// A rollback restores the last saved state and reads the tokens after it again: few after a rejected draft,
// all if every saved state is too recent.
constexpr size_t kTokensPerCheckpoint = 32;
constexpr size_t kMaxCheckpoints = 3;
// A character of four bytes may take four tokens, so the forced end may be up to three tokens late.
constexpr int32_t kMaxCharacterTokens = 3;

}  // namespace

std::string end_of_reasoning(const Dialect& dialect) {
  const MessageSyntax& messages = dialect.messages;
  if (!messages.write_reasoning.empty())
    return std::string(messages.write_next) + std::string(messages.write_text);
  return dialect.reasoning.closes.empty() ? "" : std::string(dialect.reasoning.closes[0]);
}

class ReasoningBudget::Place final : public TokenMatcher {
 public:
  explicit Place(std::shared_ptr<const Parts> parts)
      : parts_(std::move(parts)), now_{Detokenizer(*parts_->tokenizer, false), *parts_->reader} {
    if (parts_->other != nullptr) other_ = parts_->other->start();
    checkpoints_.push_back({0, now_});
    decide();
    is_current_ = true;
  }

  void mask(gsl::span<uint32_t> words) override {
    catch_up();
    if (!forced_ && other_ != nullptr) return other_->mask(words);
    std::fill(words.begin(), words.end(), forced_ ? 0U : ~0U);
    if (!forced_) return;
    const auto bit = static_cast<uint32_t>(*forced_);
    if (bit / 32 < words.size()) words[bit / 32] |= 1U << (bit % 32);
  }
  // If memory runs out, the token is not accepted, and the call may be repeated.
  bool accept(TokenId token) override {
    catch_up();
    if (forced_ && token != *forced_) return false;
    tokens_.reserve(tokens_.size() + 1);
    if (other_ != nullptr && !other_->accept(token)) return false;
    tokens_.push_back(token);
    is_current_ = false;
    auto undo = gsl::finally([&] {
      if (!is_current_) take_back(1);
    });
    see(token);
    if (tokens_.size() % kTokensPerCheckpoint == 0) keep();
    decide();
    is_current_ = true;
    return true;
  }
  // Allocates nothing, so that it can undo a failed accept; the next call computes the state.
  void rollback(int32_t num_tokens) override {
    take_back(num_tokens);
    is_current_ = false;
  }
  bool allows_all() const override {
    catch_up();
    return !forced_ && (other_ == nullptr || other_->allows_all());
  }
  std::string exceeded_limit() const override {
    catch_up();
    return forced_ || other_ == nullptr ? std::string() : other_->exceeded_limit();
  }
  bool may_end() const override {
    catch_up();
    return !forced_ && (other_ == nullptr || other_->may_end());
  }
  std::unique_ptr<TokenMatcher> clone() const override { return std::unique_ptr<Place>(new Place(*this)); }

 private:
  struct State {
    Detokenizer text;
    ResponseParser reader;
    int32_t num_reasoning_tokens = 0;
    size_t num_ended = 0;  // end tokens generated so far
    bool is_over = false;  // the end of this reasoning is complete, or was rejected
  };
  struct Kept {
    size_t num_tokens = 0;
    State state;
  };

  Place(const Place& other)
      : parts_(other.parts_),
        other_(other.other_ == nullptr ? nullptr : other.other_->clone()),
        checkpoints_(other.checkpoints_),
        tokens_(other.tokens_),
        now_(other.now_),
        forced_(other.forced_),
        is_current_(other.is_current_) {}

  std::optional<TokenId> due() const {
    if (now_.num_ended > 0) return parts_->end[now_.num_ended];
    if (now_.is_over || !now_.reader.in_reasoning()) return std::nullopt;
    const int32_t num_late = now_.num_reasoning_tokens - parts_->max_tokens;
    const bool in_character = now_.text.num_held_bytes() > 0 && num_late < kMaxCharacterTokens;
    if (num_late < 0 || in_character) return std::nullopt;
    return parts_->end.front();
  }

  void see(TokenId token) const {
    const std::optional<TokenId> end = due();
    const bool reasoned = now_.reader.in_reasoning();
    std::string text;
    now_.text.push(token, text);
    now_.reader.feed(text);
    now_.reader.take();
    if (end) {
      now_.num_ended = token == *end ? now_.num_ended + 1 : 0;
      now_.is_over = token != *end || now_.num_ended == parts_->end.size();
      if (now_.is_over) now_.num_ended = 0;
    }
    if (!now_.reader.in_reasoning()) {
      now_.is_over = false;
    } else if (reasoned) {
      ++now_.num_reasoning_tokens;
    }
  }

  void take_back(int32_t num_tokens) {
    if (other_ != nullptr) other_->rollback(num_tokens);
    tokens_.resize(tokens_.size() - static_cast<size_t>(num_tokens));
    while (checkpoints_.back().num_tokens > tokens_.size()) checkpoints_.pop_back();
  }

  // Computes the state after the tokens anew if an earlier call ran out of memory or took tokens back.
  void catch_up() const {
    if (is_current_) return;
    now_ = checkpoints_.back().state;
    for (size_t i = checkpoints_.back().num_tokens; i < tokens_.size(); ++i) see(tokens_[i]);
    decide();
    is_current_ = true;
  }

  void keep() {
    if (checkpoints_.size() > kMaxCheckpoints) checkpoints_.erase(checkpoints_.begin() + 1);
    checkpoints_.push_back({tokens_.size(), now_});
  }

  void decide() const {
    std::optional<TokenId> end = due();
    if (end && other_ != nullptr) {
      if (other_->accept(*end)) {
        other_->rollback(1);
      } else {
        end.reset();
      }
    }
    forced_ = end;
  }

  std::shared_ptr<const Parts> parts_;
  std::unique_ptr<TokenMatcher> other_;
  std::vector<Kept> checkpoints_;  // the first one is the state before all tokens
  TokenIds tokens_;
  mutable State now_;
  mutable std::optional<TokenId> forced_;  // the only token allowed next
  mutable bool is_current_ = false;        // now_ and forced_ are those after the tokens
};

std::unique_ptr<TokenMatcher> ReasoningBudget::start() const {
  return std::make_unique<Place>(parts_);
}

}  // namespace quire
