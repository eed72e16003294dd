#include "core/tokenizer/pre_tokenizer.h"

#include <optional>

#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

// Joins the stretches of a text, matches and gaps in turn, into pieces by one behaviour.
class Joiner {
 public:
  Joiner(std::string_view text, SplitBehavior behavior, PieceSink& sink)
      : text_(text), behavior_(behavior), sink_(sink) {}

  // The next stretch; it begins where the one before ended.
  void add(size_t begin, size_t end, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!is_match) emit(begin, end);
        break;
      case SplitBehavior::isolated:
        emit(begin, end);
        break;
      case SplitBehavior::merged_with_previous:
        hold(begin, end, is_match && !previous_is_match_);
        break;
      // Going backwards, a match joins what follows it unless that is a match as well.
      case SplitBehavior::merged_with_next:
        hold(begin, end, previous_is_match_ && !is_match);
        break;
      case SplitBehavior::contiguous:
        hold(begin, end, is_match == previous_is_match_);
        break;
    }
    previous_is_match_ = is_match;
  }
  void finish() {
    if (held_) emit(held_->begin, held_->end);
    held_.reset();
  }

 private:
  void hold(size_t begin, size_t end, bool join) {
    if (held_ && join) {
      held_->end = end;
      return;
    }
    finish();
    held_ = RegexMatch{begin, end};
  }
  void emit(size_t begin, size_t end) {
    if (begin < end) sink_.piece(text_.substr(begin, end - begin));
  }

  std::string_view text_;
  SplitBehavior behavior_;
  PieceSink& sink_;
  std::optional<RegexMatch> held_;  // may still grow
  bool previous_is_match_ = false;
};

}  // namespace

void SplitPreTokenizer::split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const {
  Joiner joiner(text, behavior_, sink);
  RegexMatches matches(pattern_, text, scratch.regex);
  size_t end = 0;
  while (const auto match = matches.next()) {
    if (end < match->begin) joiner.add(end, match->begin, invert_);
    joiner.add(match->begin, match->end, !invert_);
    end = match->end;
  }
  if (end < text.size()) joiner.add(end, text.size(), invert_);
  joiner.finish();
}

void PrefixSpacePreTokenizer::split(std::string_view text, EncodeScratch&, PieceSink& sink) const {
  if (text.starts_with(' ')) {
    sink.piece(text);
  } else {
    sink.piece(" " + std::string(text));
  }
}

namespace {

// Hands each piece of one step to the next.
class StepSink final : public PieceSink {
 public:
  StepSink(const std::vector<std::unique_ptr<PreTokenizer>>& steps, size_t next_idx, EncodeScratch& scratch,
           PieceSink& last)
      : steps_(steps), next_idx_(next_idx), scratch_(scratch), last_(last) {}

  void piece(std::string_view text) override {
    if (next_idx_ == steps_.size()) return last_.piece(text);
    StepSink next(steps_, next_idx_ + 1, scratch_, last_);
    steps_[next_idx_]->split(text, scratch_, next);
  }

 private:
  const std::vector<std::unique_ptr<PreTokenizer>>& steps_;
  size_t next_idx_;
  EncodeScratch& scratch_;
  PieceSink& last_;
};

}  // namespace

void PreTokenizerSequence::split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const {
  StepSink(steps_, 0, scratch, sink).piece(text);
}

std::string_view byte_level_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

std::string_view digit_pattern() {
  return R"([\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";
}

}  // namespace quire
