// Normalizers: change text before it is split, with Unicode normal forms, lower case, accents and
// replacements.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/regex.h"

namespace quire {

struct EncodeScratch;

// A normalizer, immutable and safe to use from any thread with a separate scratch. Time is linear in the
// text, except for sorting long runs of combining marks.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is non-empty valid UTF-8; the result is valid UTF-8 and may be empty.
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

// Lower case of each code point, without regard to its neighbors.
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

// Removal of white space at the ends.
class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  bool left_;
  bool right_;
};

// Removal of combining marks; comes after a normal form that decomposes characters.
class StripAccentsNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

// Treatment of control characters and white space by SentencePiece's "nmt" rules.
class NmtNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;
};

// Conversion of each byte to a character of the byte alphabet.
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

// Replacement by a charsmap, like in the `tokenizers` library: a grapheme of up to 5 bytes is replaced by the
// shortest entry that it begins with; otherwise each of its characters is replaced.
class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap map) : map_(std::move(map)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Charsmap map_;
};

// Replacement of every occurrence of `pattern` by `content`.
class LiteralReplaceNormalizer final : public Normalizer {
 public:
  LiteralReplaceNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  std::string pattern_;  // not empty
  std::string content_;
};

// Replacement of every match by `content`.
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
