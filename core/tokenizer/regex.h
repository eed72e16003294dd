// Compiled regular expressions of tokenizers, with limited work. PCRE2 runs them as machine code (JIT) if the
// system allows it, otherwise interpreted. Matches are the same as those of the library that a pattern is
// written for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/regex_properties.h"

namespace quire {

struct RegexMatch {
  size_t begin = 0;
  size_t end = 0;
};

// Working memory for matching, and a budget of backtracking steps proportional to the text, so that every
// pattern takes linear time. Usable with any pattern, by one thread at a time.
class RegexScratch {
 public:
  explicit RegexScratch(size_t num_text_bytes);
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  // Returns the steps charged to the budget: those of matches that took more than kFreeSteps.
  uint64_t num_steps() const { return num_steps_; }

  // Each attempt to match at a position may take this many steps without a charge.
  static constexpr uint32_t kFreeSteps = 1000;
  static constexpr uint64_t kStepsPerByte = 64;

 private:
  friend class Regex;
  struct Memory;

  std::unique_ptr<Memory> memory_;
  uint64_t num_steps_ = 0;
  uint64_t max_steps_;
};

// A compiled pattern, immutable and safe to use from any thread.
class Regex {
 public:
  // `where` names the pattern in messages. Throws ErrorCode::unsupported if a construct is not supported.
  Regex(std::string_view pattern, std::string where, RegexDialect dialect = RegexDialect::oniguruma);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Returns the first match that begins at `from` or later; lookbehind can see the text before, and \G is
  // `from`. `text` is
  // valid UTF-8, and `from` is the start of a character or the end. Throws ErrorCode::unsupported if the
  // pattern exceeds its budget of steps or memory.
  std::optional<RegexMatch> find(std::string_view text, size_t from, RegexScratch& scratch) const;

  bool is_compiled_to_machine_code() const;
  // Disables machine code, for systems that forbid it and for tests.
  void use_interpreter();

 private:
  struct Code;
  enum class Attempt { match, no_match, out_of_steps };

  Attempt attempt(const Code& code, std::string_view text, size_t from, uint32_t max_steps,
                  RegexScratch& scratch, RegexMatch& match) const;
  std::optional<RegexMatch> find_by_position(std::string_view text, size_t from, RegexScratch& scratch) const;
  [[noreturn]] void refuse_text() const;

  std::string where_;
  std::unique_ptr<Code> unanchored_;  // finds the next match
  std::unique_ptr<Code> anchored_;    // matches at one position only, the start of the search
  std::unique_ptr<Code> continued_;   // matches at one later position only; null if it is the same code
};

// Iterator over all matches in a text, in order and disjoint. It skips an empty match directly after another
// match.
class RegexMatches {
 public:
  RegexMatches(const Regex& regex, std::string_view text, RegexScratch& scratch)
      : regex_(regex), text_(text), scratch_(scratch) {}
  std::optional<RegexMatch> next();

 private:
  const Regex& regex_;
  std::string_view text_;
  RegexScratch& scratch_;
  size_t from_ = 0;
  std::optional<size_t> last_end_;
};

}  // namespace quire
