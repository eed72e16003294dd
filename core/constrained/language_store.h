// Regular languages over code points, closed under and, or, not. A language is a number; equal terms have
// equal numbers, and the language that is left after a character is found by derivatives, when it is asked
// for.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/constrained/char_set.h"
#include "core/constrained/decimal.h"

namespace quire {

using LanguageId = uint32_t;

constexpr uint32_t kNoMaximum = UINT32_MAX;

// After a character of [first, last] the language `rest` is left.
struct LanguageEdge {
  uint32_t first = 0;
  uint32_t last = 0;
  LanguageId rest = 0;
  bool operator==(const LanguageEdge&) const = default;
};
using LanguageEdges = std::vector<LanguageEdge>;  // ascending, none overlapping, none empty

// Not thread-safe. Grows up to a number of terms; beyond it every call is ErrorCode::capacity.
class LanguageStore {
 public:
  static constexpr LanguageId kNothing = 0;   // no text at all
  static constexpr LanguageId kEmpty = 1;     // the empty text
  static constexpr LanguageId kAnything = 2;  // every text

  explicit LanguageStore(size_t max_terms);

  LanguageId chars(const CharSet& set);
  LanguageId text(std::string_view utf8);
  LanguageId concat(LanguageId first, LanguageId second);
  LanguageId sequence(gsl::span<const LanguageId> parts);
  LanguageId any_of(std::vector<LanguageId> parts);
  LanguageId all_of(std::vector<LanguageId> parts);
  LanguageId complement(LanguageId language);
  LanguageId repeat(LanguageId language, uint32_t min, uint32_t max);
  LanguageId number(const NumberTest& test);

  bool has_empty_text(LanguageId language) const { return terms_[language].nullable; }
  const LanguageEdges& edges(LanguageId language);
  LanguageId after(LanguageId language, uint32_t code_point);
  bool contains(LanguageId language, std::string_view utf8);
  // Whether no text is in the language. Exact; ErrorCode::capacity where the search takes too many terms.
  bool is_empty(LanguageId language);
  // Up to how many characters, whichever they are, begin a text of the language: kNoMaximum where any do. A
  // lower bound, found from the term alone.
  uint32_t free_length(LanguageId language) const { return terms_[language].free_length; }
  // Whether no text of the language has more than free_length() characters.
  bool ends_after_free_length(LanguageId language) const {
    return terms_[language].max_length <= terms_[language].free_length;
  }
  // Whether it has all texts from some length on; false where that is not known.
  bool is_cofinite(LanguageId language) const { return terms_[language].cofinite_from != kNoMaximum; }
  // The term with repetitions beyond `horizon` cut to it: the same as far as texts of up to `horizon`
  // characters can tell whether they begin or are in the language.
  LanguageId cut(LanguageId language, uint32_t horizon);

  size_t num_terms() const { return terms_.size(); }

 private:
  enum class Kind : uint32_t { nothing, empty, chars, concat, any_of, all_of, complement, repeat, number };
  struct Term {
    Kind kind = Kind::nothing;
    bool nullable = false;
    bool may_be_empty = false;            // is_empty() has to look
    uint16_t depth = 0;                   // of the recursion that takes a derivative
    uint32_t max_length = 0;              // of a text; an upper bound
    uint32_t cofinite_from = kNoMaximum;  // all texts of at least so many characters are in the language
    uint32_t free_length = 0;
    uint32_t most_counted = 0;  // the largest number that cut() could find in the term
    std::vector<uint32_t> operands;
  };
  struct KeyHash {
    size_t operator()(const std::vector<uint32_t>& key) const;
  };

  LanguageId intern(Kind kind, std::vector<uint32_t> operands);
  void measure(Term& term) const;
  void measure_concat(Term& term) const;
  void measure_boolean(Term& term) const;
  void measure_repeat(Term& term) const;
  LanguageId number_state(uint32_t test_idx, const NumberProgress& progress);
  LanguageEdges derive(LanguageId language);
  LanguageEdges derive_concat(LanguageId first, LanguageId second);
  LanguageEdges derive_boolean(LanguageId language);
  LanguageEdges derive_complement(LanguageId operand);
  LanguageEdges derive_number(LanguageId language);
  void flatten(Kind kind, std::vector<LanguageId>& parts) const;
  void join_char_sets(std::vector<LanguageId>& parts);

  size_t max_terms_;
  std::vector<Term> terms_;
  std::unordered_map<std::vector<uint32_t>, LanguageId, KeyHash> by_key_;
  std::vector<CharSet> char_sets_;
  std::vector<NumberTest> number_tests_;
  std::vector<NumberProgress> number_states_;
  std::vector<LanguageEdges> edges_;
  std::vector<uint8_t> has_edges_;
  std::vector<uint8_t> emptiness_;  // by language: 0 not known, 1 empty, 2 not
};

}  // namespace quire
