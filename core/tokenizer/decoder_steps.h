// The steps that a decoder is made of, each of which takes tokens as text and gives text. Streams: what a
// step cannot decide before it sees more, it holds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/lossy_utf8.h"
#include "core/tokenizer/regex.h"

namespace quire {

// What a step remembers of one sequence. A value: copies go on from the same place.
struct DecodeStepState {
  LossyUtf8 utf8;
  std::string held;
  size_t num_done = 0;  // tokens taken, or characters removed: as the step needs it
  bool started = false;
};

// Takes what a step gives.
class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void text(std::string_view text) = 0;
};

// Immutable; any thread, each with its own state.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // The next token, or for steps that come after tokens were joined, the next stretch of text.
  virtual void push(std::string_view text, DecodeStepState& state, TextSink& next) const = 0;
  // No more comes.
  virtual void finish(DecodeStepState&, TextSink&) const {}
  // What the step makes of a token in the middle of a text, as bytes.
  virtual void apply_inside(std::string& token) const = 0;
};

// Tokens spell bytes.
class ByteLevelStep final : public DecoderStep {
 public:
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;
};

// "<0x0A>" is a byte. Bytes that are no UTF-8 are U+FFFD, one for each. (The library writes one for every
// byte of a run that has any such byte; here, characters that are complete have gone out before it comes.)
class ByteFallbackStep final : public DecoderStep {
 public:
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;
};

// Puts `content` in the place of every match within a token.
class ReplaceStep final : public DecoderStep {
 public:
  ReplaceStep(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  Regex pattern_;
  std::string content_;
};

// Puts `content` in the place of every `pattern`.
class LiteralReplaceStep final : public DecoderStep {
 public:
  enum class Over { token, text };  // text: also where it reaches from one stretch into the next
  LiteralReplaceStep(std::string pattern, std::string content, Over over)
      : pattern_(std::move(pattern)), content_(std::move(content)), over_(over) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string pattern_;  // not empty
  std::string content_;
  Over over_;
};

// Removes up to so many of one character from both ends of each token, or of the text.
class StripStep final : public DecoderStep {
 public:
  struct Options {
    std::string content;  // one character
    size_t start = 0;
    size_t stop = 0;
  };
  enum class Over { token, text };
  StripStep(Options options, Over over) : options_(std::move(options)), over_(over) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string_view without_start(std::string_view text, size_t max_removed, size_t& num_removed) const;
  size_t end_without_stop(std::string_view text) const;
  void push_text(std::string_view text, DecodeStepState& state, TextSink& next) const;

  Options options_;
  Over over_;
};

// The mark is a space; in the first token it is nothing, if the first space was put there.
class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(std::string mark, bool drops_first) : mark_(std::move(mark)), drops_first_(drops_first) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string mark_;
  bool drops_first_;
};

// A space before every token but the first, unless it continues a word.
class WordPieceStep final : public DecoderStep {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string prefix_;  // of tokens that continue one
  bool cleanup_;        // no space before punctuation
};

// What ends a word is a space, but nothing in the last token.
class WordSuffixStep final : public DecoderStep {
 public:
  explicit WordSuffixStep(std::string suffix) : suffix_(std::move(suffix)) {}  // not empty
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string suffix_;
};

// Equal tokens in a row are one, the pad is nothing.
class CtcStep final : public DecoderStep {
 public:
  struct Options {
    std::string pad;             // not empty
    std::string word_delimiter;  // not empty; a space, with cleanup
    bool cleanup = true;
  };
  explicit CtcStep(Options options) : options_(std::move(options)) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  Options options_;
};

}  // namespace quire
