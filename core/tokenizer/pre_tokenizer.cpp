#include "core/tokenizer/pre_tokenizer.h"

#include <optional>

#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/code_point_classes.h"
#include "core/tokenizer/encode_scratch.h"
#include "core/tokenizer/unicode_text.h"

namespace quire {
namespace {

// Helper that joins the parts of a text, alternating matches and gaps, into pieces by a split behavior.
class Joiner {
 public:
  struct Rule {
    SplitBehavior behavior;
    bool invert = false;  // gaps take the role of matches
  };

  Joiner(const TextPiece& piece, Rule rule, PieceSink& sink) : piece_(piece), rule_(rule), sink_(sink) {}

  // Adds the next match, which begins at or after the end of the previous one.
  void match(size_t begin, size_t end) {
    if (done_ < begin) add(done_, begin, rule_.invert);
    add(begin, end, !rule_.invert);
    done_ = end;
  }
  void finish() {
    if (done_ < piece_.text.size()) add(done_, piece_.text.size(), rule_.invert);
    flush();
  }

 private:
  void add(size_t begin, size_t end, bool is_match) {
    switch (rule_.behavior) {
      case SplitBehavior::removed:
        if (!is_match) emit(begin, end);
        break;
      case SplitBehavior::isolated:
        emit(begin, end);
        break;
      case SplitBehavior::merged_with_previous:
        hold(begin, end, is_match && !previous_is_match_);
        break;
      // A gap is merged with the match before it; adjacent matches stay separate.
      case SplitBehavior::merged_with_next:
        hold(begin, end, previous_is_match_ && !is_match);
        break;
      case SplitBehavior::contiguous:
        hold(begin, end, is_match == previous_is_match_);
        break;
    }
    previous_is_match_ = is_match;
  }
  void hold(size_t begin, size_t end, bool join) {
    if (held_ && join) {
      held_->end = end;
      return;
    }
    flush();
    held_ = RegexMatch{begin, end};
  }
  void flush() {
    if (held_) emit(held_->begin, held_->end);
    held_.reset();
  }
  void emit(size_t begin, size_t end) {
    if (begin < end) sink_.piece(piece_.part(begin, end - begin));
  }

  const TextPiece& piece_;
  Rule rule_;
  PieceSink& sink_;
  size_t done_ = 0;                 // end of the last match
  std::optional<RegexMatch> held_;  // may still grow
  bool previous_is_match_ = false;
};

void split_at(std::string_view pattern, const TextPiece& piece, Joiner::Rule rule, PieceSink& sink) {
  Joiner joiner(piece, rule, sink);
  for (size_t at = piece.text.find(pattern); at != std::string_view::npos;
       at = piece.text.find(pattern, at + pattern.size())) {
    joiner.match(at, at + pattern.size());
  }
  joiner.finish();
}

}  // namespace

void SplitPreTokenizer::split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const {
  Joiner joiner(piece, {behavior_, invert_}, sink);
  RegexMatches matches(pattern_, piece.text, scratch.regex);
  while (const auto match = matches.next()) joiner.match(match->begin, match->end);
  joiner.finish();
}

void LiteralSplitPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  split_at(pattern_, piece, {behavior_, invert_}, sink);
}

void CodePointSplitPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  Joiner joiner(piece, {behavior_}, sink);
  for (size_t pos = 0; pos < piece.text.size();) {
    const Utf8Char next = decode_utf8(piece.text, pos);
    if (is_member_(next.code_point)) joiner.match(pos, pos + next.length);
    pos += next.length;
  }
  joiner.finish();
}

void WordsPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  enum class Kind { space, word, other };
  const auto kind_of = [](uint32_t code_point) {
    if (is_white_space(code_point)) return Kind::space;
    return is_word_character(code_point) ? Kind::word : Kind::other;
  };
  size_t begin = 0;
  Kind kind = Kind::space;  // of the run since `begin`
  const auto end_run = [&](size_t end) {
    if (kind != Kind::space) sink.piece(piece.part(begin, end - begin));
  };
  for (size_t pos = 0; pos < piece.text.size();) {
    const Utf8Char next = decode_utf8(piece.text, pos);
    const Kind next_kind = kind_of(next.code_point);
    if (next_kind != kind) {
      end_run(pos);
      begin = pos;
      kind = next_kind;
    }
    pos += next.length;
  }
  end_run(piece.text.size());
}

void ScriptsPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  std::optional<size_t> begin;
  uint8_t last = kAnyScript;
  for (size_t pos = 0; pos < piece.text.size();) {
    const Utf8Char next = decode_utf8(piece.text, pos);
    const uint8_t script = script_of(next.code_point);
    if (script != kAnyScript && (!begin || script != last)) {
      if (begin) sink.piece(piece.part(*begin, pos - *begin));
      begin = pos;
      last = script;
    }
    pos += next.length;
  }
  if (begin) sink.piece(piece.part(*begin, piece.text.size() - *begin));
}

void FixedLengthPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  size_t begin = 0;
  size_t num_chars = 0;
  for (size_t pos = 0; pos < piece.text.size();) {
    pos += decode_utf8(piece.text, pos).length;
    if (++num_chars < num_chars_ && pos < piece.text.size()) continue;
    sink.piece(piece.part(begin, pos - begin));
    begin = pos;
    num_chars = 0;
  }
}

void MetaspacePreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  const std::string& mark = options_.replacement;
  const bool wanted =
      options_.prepend == Prepend::always || (options_.prepend == Prepend::first && piece.begins_text);
  std::string text;
  text.reserve(piece.text.size() + piece.text.size() / 4 + mark.size());
  if (wanted && !piece.text.starts_with(' ') && !piece.text.starts_with(mark)) text += mark;
  for (const char c : piece.text) {
    if (c == ' ') {
      text += mark;
    } else {
      text += c;
    }
  }
  const TextPiece marked{text, piece.begins_text};
  if (options_.split) {
    split_at(mark, marked, {SplitBehavior::merged_with_next}, sink);
  } else {
    sink.piece(marked);
  }
}

void PrefixSpacePreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  if (piece.text.starts_with(' ')) {
    sink.piece(piece);
  } else {
    sink.piece({" " + std::string(piece.text), piece.begins_text});
  }
}

void ByteAlphabetPreTokenizer::split(const TextPiece& piece, EncodeScratch&, PieceSink& sink) const {
  sink.piece({to_byte_alphabet(piece.text), piece.begins_text});
}

namespace {

// A sink that passes each piece of one step to the next step.
class StepSink final : public PieceSink {
 public:
  StepSink(const std::vector<std::unique_ptr<PreTokenizer>>& steps, size_t next_idx, EncodeScratch& scratch,
           PieceSink& last)
      : steps_(steps), next_idx_(next_idx), scratch_(scratch), last_(last) {}

  void piece(const TextPiece& piece) override {
    if (next_idx_ == steps_.size()) return last_.piece(piece);
    StepSink next(steps_, next_idx_ + 1, scratch_, last_);
    steps_[next_idx_]->split(piece, scratch_, next);
  }

 private:
  const std::vector<std::unique_ptr<PreTokenizer>>& steps_;
  size_t next_idx_;
  EncodeScratch& scratch_;
  PieceSink& last_;
};

}  // namespace

void PreTokenizerSequence::split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const {
  StepSink(steps_, 0, scratch, sink).piece(piece);
}

std::string_view byte_level_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

std::string_view digit_pattern() {
  return R"([\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";
}

}  // namespace quire
