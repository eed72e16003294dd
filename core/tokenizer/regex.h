// A compiled split pattern, and the work it may do. PCRE2 runs it, compiled to machine code where the system
// allows that, else interpreted; the matches are Oniguruma's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

struct RegexMatch {
  size_t begin = 0;
  size_t end = 0;
};

// What matching needs besides the pattern: working memory, and a budget of backtracking steps that is
// proportional to the text, so that no pattern takes more than linear time. One thread at a time; any
// pattern.
class RegexScratch {
 public:
  explicit RegexScratch(size_t num_text_bytes);
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  // Steps charged to the budget: those of matches that took more than kFreeSteps.
  uint64_t num_steps() const { return num_steps_; }

  // Every attempt to match at one place may take this many steps without being charged.
  static constexpr uint32_t kFreeSteps = 1000;
  static constexpr uint64_t kStepsPerByte = 64;

 private:
  friend class Regex;
  struct Memory;

  std::unique_ptr<Memory> memory_;
  uint64_t num_steps_ = 0;
  uint64_t max_steps_;
};

// Immutable; any thread.
class Regex {
 public:
  // `where` names the pattern in messages. ErrorCode::unsupported where a construct is not understood.
  Regex(std::string_view oniguruma_pattern, std::string where);
  ~Regex();
  Regex(Regex&&) noexcept;

  // The first match that begins at `from` or later; lookbehind sees the text before. `text` is valid UTF-8
  // and `from` the start of a character or its end. ErrorCode::unsupported where the pattern needs more steps
  // or memory than the budget has.
  std::optional<RegexMatch> find(std::string_view text, size_t from, RegexScratch& scratch) const;

  bool is_compiled_to_machine_code() const;
  // The same without machine code, for systems that refuse it and for tests.
  void use_interpreter();

 private:
  struct Code;
  enum class Attempt { match, no_match, out_of_steps };

  Attempt attempt(const Code& code, std::string_view text, size_t from, uint32_t max_steps,
                  RegexScratch& scratch, RegexMatch& match) const;
  std::optional<RegexMatch> find_slowly(std::string_view text, size_t from, RegexScratch& scratch) const;
  [[noreturn]] void refuse_text() const;

  std::string where_;
  std::unique_ptr<Code> anywhere_;  // finds the next match
  std::unique_ptr<Code> here_;      // matches at one place only
};

// All matches in a text, in order, none overlapping. An empty match right after another is passed over.
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
