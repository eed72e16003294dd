// What is done to text before it is split: Unicode normal forms, lower case, accents, replacements.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/regex.h"

namespace quire {

struct EncodeScratch;

// Immutable; any thread, each with its own scratch. Time is linear in the text, but for sorting long runs of
// combining marks.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is valid UTF-8 and not empty; so is what is returned, which may be empty.
  virtual std::string normalize(std::string_view text, EncodeScratch& scratch) const = 0;
};

class UnicodeNormalizer final : public Normalizer {
 public:
  enum class Form { nfc, nfd, nfkc, nfkd };
  explicit UnicodeNormalizer(Form form) : form_(form) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Form form_;
};

// Each code point by itself, without regard to its neighbours.
class LowercaseNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  std::string prefix_;
};

// Removes white space from the ends.
class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  bool left_;
  bool right_;
};

// Removes marks, after a normal form that takes characters apart.
class StripAccentsNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

// What SentencePiece's "nmt" rules do with control characters and white space.
class NmtNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

// Each byte becomes a character of the byte alphabet.
class ByteAlphabetNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

class BertNormalizer final : public Normalizer {
 public:
  struct Options {
    bool clean_text = true;
    bool handle_chinese_chars = true;
    bool strip_accents = true;
    bool lowercase = true;
  };
  explicit BertNormalizer(Options options) : options_(options) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Options options_;
};

// Replacements of a charsmap as the `tokenizers` library makes them: for a grapheme of up to 5 bytes by the
// shortest entry that it begins with, and else for each of its characters.
class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap map) : map_(std::move(map)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Charsmap map_;
};

// Puts `content` in the place of every `pattern`.
class LiteralReplaceNormalizer final : public Normalizer {
 public:
  LiteralReplaceNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  std::string pattern_;  // not empty
  std::string content_;
};

// Puts `content` in the place of every match.
class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Regex pattern_;
  std::string content_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace quire
