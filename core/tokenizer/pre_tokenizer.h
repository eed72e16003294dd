// Pre-tokenizers: split text into pieces, which the model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/regex.h"

namespace quire {

struct EncodeScratch;

struct TextPiece {
  std::string_view text;
  bool begins_text = false;  // the piece begins at the start of the caller's text

  // Returns the part from `begin` on.
  TextPiece part(size_t begin, size_t num_bytes) const {
    return {text.substr(begin, num_bytes), begins_text && begin == 0};
  }
};

// Receives the pieces of a text in order; none is empty. The view is valid during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(const TextPiece& piece) = 0;
};

// Immutable; safe to use from any thread with a separate scratch. Each piece is split without regard to its
// neighbors.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const = 0;
};

// How the matches of a pattern are treated.
enum class SplitBehavior {
  isolated,              // each match is a piece
  removed,               // matches are dropped
  merged_with_previous,  // each match is added to the piece before it
  merged_with_next,      // each match is added to the piece after it
  contiguous,            // adjacent matches form one piece
};

// Splits at the matches of a pattern or, with `invert`, at the gaps between them.
class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at the occurrences of a string.
class LiteralSplitPreTokenizer final : public PreTokenizer {
 public:
  // `pattern` is not empty.
  LiteralSplitPreTokenizer(std::string pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  std::string pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at each code point of a class.
class CodePointSplitPreTokenizer final : public PreTokenizer {
 public:
  using IsMember = bool (*)(uint32_t code_point);
  CodePointSplitPreTokenizer(IsMember is_member, SplitBehavior behavior)
      : is_member_(is_member), behavior_(behavior) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  IsMember is_member_;
  SplitBehavior behavior_;
};

// Splits into runs of word characters and runs of other characters; drops white space.
class WordsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Splits where the script changes. Drops spaces before the first script.
class ScriptsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Splits into pieces of a fixed number of code points.
class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t num_chars) : num_chars_(num_chars) {}  // above 0
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  size_t num_chars_;
};

// Replaces spaces by another character, and puts one before each piece of a text.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };  // first: only at the start of the text
  struct Options {
    std::string replacement;
    Prepend prepend = Prepend::always;
    bool split = true;  // split before each replaced space
  };
  explicit MetaspacePreTokenizer(Options options) : options_(std::move(options)) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  Options options_;
};

// Puts a space before a piece that does not begin with one.
class PrefixSpacePreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Converts the bytes of each piece to the byte alphabet.
class ByteAlphabetPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Applies several steps; each splits the pieces of the step before it.
class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;  // few, because calls of split() nest this deep
};

// Returns the default split pattern of ByteLevel (GPT-2).
std::string_view byte_level_pattern();
// Returns a pattern for one numeric character: categories Nd, Nl and No of Unicode 17.
std::string_view digit_pattern();

}  // namespace quire
