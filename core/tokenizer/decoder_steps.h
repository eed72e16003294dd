// The steps of a decoder. Each takes and returns text, token by token. They work on a stream: a step holds
// text that it cannot decode before it sees more.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/lossy_utf8.h"
#include "core/tokenizer/regex.h"

namespace quire {

// State of a step for one sequence. A copy continues from the same position.
struct DecodeStepState {
  LossyUtf8 utf8;
  std::string held;
  size_t num_done = 0;  // tokens read or characters removed, depending on the step
  bool started = false;
};

// Receiver of the text that a step produces.
class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void text(std::string_view text) = 0;
};

// A step, immutable and safe to use from any thread with a separate state.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Processes the next token or, after tokens were joined, the next part of the text.
  virtual void push(std::string_view text, DecodeStepState& state, TextSink& next) const = 0;
  // Ends the text.
  virtual void finish(DecodeStepState&, TextSink&) const {}
  // Applies the step to a token in the middle of a text; the result is bytes.
  virtual void apply_inside(std::string& token) const = 0;
};

// ByteLevel: tokens spell bytes in the byte alphabet.
class ByteLevelStep final : public DecoderStep {
 public:
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;
};

// ByteFallback: "<0x0A>" is a byte. Each byte that is not valid UTF-8 becomes one U+FFFD. (The library
// replaces every byte of a run that has an invalid byte; here, complete characters of the run were already
// output.)
class ByteFallbackStep final : public DecoderStep {
 public:
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;
};

// Replace with a regular expression: every match within a token becomes `content`.
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

// Replace with a string: every occurrence of `pattern` becomes `content`.
class LiteralReplaceStep final : public DecoderStep {
 public:
  enum class Over { token, text };  // text: also across the boundaries of its parts
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

// Strip: removes up to a given number of one character from both ends of each token, or of the text.
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

// Metaspace: the mark becomes a space. In the first token it is dropped if the tokenizer added the first
// space.
class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(std::string mark, bool drops_first) : mark_(std::move(mark)), drops_first_(drops_first) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string mark_;
  bool drops_first_;
};

// WordPiece: a space before every token except the first and those that continue a word.
class WordPieceStep final : public DecoderStep {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string prefix_;  // prefix of tokens that continue a word
  bool cleanup_;        // removes spaces before punctuation
};

// BPEDecoder: the end-of-word suffix becomes a space; in the last token it is dropped.
class WordSuffixStep final : public DecoderStep {
 public:
  explicit WordSuffixStep(std::string suffix) : suffix_(std::move(suffix)) {}  // not empty
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void finish(DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  std::string suffix_;
};

// CTC: repeated tokens and padding are removed.
class CtcStep final : public DecoderStep {
 public:
  struct Options {
    std::string pad;             // not empty
    std::string word_delimiter;  // not empty; replaced by a space if `cleanup` is true
    bool cleanup = true;
  };
  explicit CtcStep(Options options) : options_(std::move(options)) {}
  void push(std::string_view text, DecodeStepState& state, TextSink& next) const override;
  void apply_inside(std::string& token) const override;

 private:
  Options options_;
};

}  // namespace quire
