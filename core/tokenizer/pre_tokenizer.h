// How text is cut into the pieces that the model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/regex.h"

namespace quire {

struct EncodeScratch;

// Takes the pieces of a text in order; none is empty. A view is valid during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view text) = 0;
};

// Immutable; any thread, each with its own scratch. Each piece is cut without regard to its neighbours.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const = 0;
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
  void split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Puts a space before a piece that does not begin with one.
class PrefixSpacePreTokenizer final : public PreTokenizer {
 public:
  void split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const override;
};

// Each step cuts the pieces of the step before.
class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(std::string_view text, EncodeScratch& scratch, PieceSink& sink) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;  // few: split() nests as deep
};

// The pattern that ByteLevel splits by unless told not to (GPT-2's).
std::string_view byte_level_pattern();
// One numeric character: of the categories Nd, Nl and No of Unicode 17.
std::string_view digit_pattern();

}  // namespace quire
