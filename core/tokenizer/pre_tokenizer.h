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

// Receiver of the pieces of a text, in order; none is empty. The view is valid during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(const TextPiece& piece) = 0;
};

// A pre-tokenizer, immutable and safe to use from any thread with a separate scratch. Each piece is split
// without regard to its neighbors.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const = 0;
};

// The treatment of the matches of a pattern.
enum class SplitBehavior {
  isolated,              // each match is a piece
  removed,               // matches are dropped
  merged_with_previous,  // each match is added to the piece before it
  merged_with_next,      // each match is added to the piece after it
  contiguous,            // adjacent matches form one piece
};

// Split at the matches of a pattern or, with `invert`, at the gaps between them.
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

// Split at the occurrences of a string.
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

// Split at each code point of a class.
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

// Split into runs of word characters and runs of other characters; white space is dropped.
class WordsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Split at changes of the script. Spaces before the first script are dropped.
class ScriptsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Split into pieces of a fixed number of code points.
class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t num_chars) : num_chars_(num_chars) {}  // above 0
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  size_t num_chars_;
};

// Metaspace: spaces become another character, which is also put before each piece of a text.
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

// A space before a piece that does not begin with one.
class PrefixSpacePreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Conversion of the bytes of each piece to the byte alphabet.
class ByteAlphabetPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// A sequence of steps; each splits the pieces of the step before it.
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
