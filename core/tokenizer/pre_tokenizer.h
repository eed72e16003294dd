// How text is cut into the pieces that the model encodes one by one.
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
  bool begins_text = false;  // what the caller gave to encode begins here

  // A part of it, from `begin` on.
  TextPiece part(size_t begin, size_t num_bytes) const {
    return {text.substr(begin, num_bytes), begins_text && begin == 0};
  }
};

// Takes the pieces of a text in order; none is empty. A view is valid during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(const TextPiece& piece) = 0;
};

// Immutable; any thread, each with its own scratch. Each piece is cut without regard to its neighbours.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const = 0;
};

// What becomes of the matches of a pattern.
enum class SplitBehavior {
  isolated,              // each is a piece
  removed,               // none is part of any piece
  merged_with_previous,  // each is added to the piece before
  merged_with_next,      // each is added to the piece after
  contiguous,            // neighbouring matches are one piece
};

// Cuts at the matches of a pattern; with `invert` at what lies between them.
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

// Cuts at the occurrences of one string.
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

// Cuts at each code point of a class.
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

// Runs of word characters and runs of other characters are pieces; white space is none.
class WordsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Cuts where the script changes. Spaces before the first script are no part of any piece.
class ScriptsPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Pieces of so many code points.
class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t num_chars) : num_chars_(num_chars) {}  // above 0
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  size_t num_chars_;
};

// Spaces become another character, and each piece of a text begins with one.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };  // first: only where the text begins
  struct Options {
    std::string replacement;
    Prepend prepend = Prepend::always;
    bool split = true;  // before each of them
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

// Writes the bytes of each piece in the byte alphabet.
class ByteAlphabetPreTokenizer final : public PreTokenizer {
 public:
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Each step cuts the pieces of the step before.
class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(const TextPiece& piece, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;  // few: split() nests as deep
};

// The pattern that ByteLevel splits by unless told not to (GPT-2's).
std::string_view byte_level_pattern();
// One numeric character: of the categories Nd, Nl and No of Unicode 17.
std::string_view digit_pattern();

}  // namespace quire
