// Regular languages over code points, closed under union, intersection and complement. A language is a
// number, and equal terms have equal numbers. Transitions are computed on demand by Brzozowski derivatives.
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

// A transition: after a character in [first, last], the language `rest` remains.
struct LanguageEdge {
  uint32_t first = 0;
  uint32_t last = 0;
  LanguageId rest = 0;
  bool operator==(const LanguageEdge&) const = default;
};
using LanguageEdges = std::vector<LanguageEdge>;  // sorted, disjoint, non-empty

// The languages of a constraint. Not thread-safe. Throws StatesFull if there are more than max_terms terms.
// An exception leaves all terms intact; some new ones may have been added.
class LanguageStore {
 public:
  static constexpr LanguageId kNothing = 0;   // no text at all
  static constexpr LanguageId kEmpty = 1;     // only the empty text
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
  // Returns whether the language contains no text. Exact; throws ErrorCode::capacity if the search needs too
  // many terms.
  bool is_empty(LanguageId language);
  // Returns a number n such that any n characters begin a text of the language; kNoMaximum if any text does.
  // A lower bound, computed from the term alone.
  uint32_t free_length(LanguageId language) const { return terms_[language].free_length; }
  // Returns whether no text of the language has more than free_length() characters.
  bool ends_after_free_length(LanguageId language) const {
    return terms_[language].max_length <= terms_[language].free_length;
  }
  // Returns whether the language contains all texts from some length on; false if unknown.
  bool is_cofinite(LanguageId language) const { return terms_[language].cofinite_from != kNoMaximum; }
  // Returns the term with repetition counts reduced to `horizon`. For texts of up to `horizon` characters, it
  // gives the same answers to whether they are in the language or begin a text of it.
  LanguageId cut(LanguageId language, uint32_t horizon);

  size_t num_terms() const { return terms_.size(); }
  size_t held_bytes() const { return held_bytes_; }

 private:
  enum class Kind : uint32_t { nothing, empty, chars, concat, any_of, all_of, complement, repeat, number };
  struct Term {
    Kind kind = Kind::nothing;
    bool nullable = false;
    bool may_be_empty = false;            // is_empty() must search
    uint16_t depth = 0;                   // nesting of the derivatives that a derivative needs
    uint32_t max_length = 0;              // of a text; an upper bound
    uint32_t cofinite_from = kNoMaximum;  // all texts with at least this many characters are in the language
    uint32_t free_length = 0;
    uint32_t most_counted = 0;  // upper bound of the counts that cut() could reduce in the term
    std::vector<uint32_t> operands;
  };
  struct KeyHash {
    size_t operator()(const std::vector<uint32_t>& key) const;
  };

  LanguageId intern(Kind kind, std::vector<uint32_t> operands);
  template <typename Value>
  uint32_t number_of(std::vector<uint32_t> key, const Value& value, std::vector<Value>& values);
  void measure(Term& term) const;
  void measure_concat(Term& term) const;
  void measure_complement(Term& term) const;
  void measure_any_of(Term& term) const;
  void measure_all_of(Term& term) const;
  void measure_repeat(Term& term) const;
  LanguageId number_state(uint32_t test_idx, const NumberProgress& progress);
  void derive_with_parts(LanguageId language);
  void push_parts_to_derive(LanguageId language, std::vector<LanguageId>& todo) const;
  LanguageEdges derive(LanguageId language);
  LanguageEdges derive_concat(LanguageId first, LanguageId second);
  LanguageEdges derive_boolean(LanguageId language);
  LanguageEdges derive_complement(LanguageId operand);
  LanguageEdges derive_number(LanguageId language);
  using Cuts = std::unordered_map<LanguageId, LanguageId>;
  void push_parts_to_cut(LanguageId language, const Cuts& cuts, uint32_t horizon,
                         std::vector<LanguageId>& todo) const;
  LanguageId cut_with_parts(LanguageId language, const Cuts& cuts, uint32_t horizon);
  void flatten(Kind kind, std::vector<LanguageId>& parts) const;
  void join_char_sets(std::vector<LanguageId>& parts);

  size_t max_terms_;
  size_t held_bytes_ = 0;
  std::vector<Term> terms_;
  std::unordered_map<std::vector<uint32_t>, LanguageId, KeyHash> by_key_;
  std::vector<CharSet> char_sets_;
  std::vector<NumberTest> number_tests_;
  std::vector<NumberProgress> number_states_;
  std::vector<LanguageEdges> edges_;
  std::vector<uint8_t> has_edges_;
  std::vector<uint8_t> emptiness_;  // by language: 0 unknown, 1 empty, 2 not empty
};

}  // namespace quire
