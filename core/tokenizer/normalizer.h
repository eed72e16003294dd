// What is done to text before it is split: Unicode normal forms, lower case, replacements.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
