#include "core/constrained/shape_algebra.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/constrained/pattern.h"

namespace quire {
namespace {

constexpr std::string_view kNumber = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?([0-2]?[0-9]?[0-9]|30[0-7]))?";
// With an exponent, one digit before the point: every such number is below 1e308, so readers take it as a
// double.
constexpr std::string_view kPrintedNumber =
    "-?((0|[1-9][0-9]*)(\\.[0-9]+)?|[1-9](\\.[0-9]+)?[eE][+-]?([0-2]?[0-9]?[0-9]|30[0-7]))";
// Includes the spellings with an exponent that printers use: 1e+22, 1.5e+300.
constexpr std::string_view kInteger =
    "-?(0|[1-9][0-9]*)(\\.0+)?|-?[1-9](\\.0)?[eE]\\+?([0-2]?[0-9]?[0-9]|30[0-7])|"
    "-?[1-9]\\.[0-9]{1,16}[eE]\\+?(1[7-9]|[2-9][0-9]|[12][0-9][0-9]|30[0-7])";
constexpr std::string_view kFraction =
    "-?(0|[1-9][0-9]*)\\.[0-9]*[1-9][0-9]*|"
    "-?[1-9](\\.[0-9]+)?[eE]-0?(0[1-9]|[1-9][0-9]?|[12][0-9][0-9]|30[0-7])";

template <typename Term>
void add_term(std::vector<Term>& terms, Term term) {
  if (std::find(terms.begin(), terms.end(), term) != terms.end()) return;
  if (terms.size() >= SchemaCompiler::kMaxTerms) {
    throw Error(ErrorCode::capacity,
                "a schema has more than max_alternatives = {} alternatives for one value",
                SchemaCompiler::kMaxTerms);
  }
  terms.push_back(std::move(term));
}

template <typename T>
void merge_sorted(std::vector<T>& into, const std::vector<T>& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

// Names keep the place that they have first.
void join_declared(Declared& into, const Declared& more) {
  for (const uint32_t name : more.order) {
    if (std::find(into.order.begin(), into.order.end(), name) == into.order.end()) into.order.push_back(name);
  }
  merge_sorted(into.patterns, more.patterns);
  into.names = into.names || more.names;
  into.others = into.others || more.others;
}

}  // namespace

LanguageId number_language(LanguageStore& languages) {
  return parse_pattern(kNumber, {}, languages);
}
LanguageId printed_number_language(LanguageStore& languages) {
  return parse_pattern(kPrintedNumber, {}, languages);
}
LanguageId integer_language(LanguageStore& languages) {
  return parse_pattern(kInteger, {}, languages);
}
LanguageId fraction_language(LanguageStore& languages) {
  return parse_pattern(kFraction, {}, languages);
}

Shape ShapeAlgebra::all() const {
  Shape shape;
  shape.null = shape.truth = shape.lie = true;
  shape.strings = LanguageStore::kAnything;
  shape.numbers = compiler_.all_numbers();
  shape.arrays.emplace_back();
  shape.objects.emplace_back();
  return shape;
}

Shape ShapeAlgebra::both(const Shape& a, const Shape& b) {
  Shape shape;
  shape.null = a.null && b.null;
  shape.truth = a.truth && b.truth;
  shape.lie = a.lie && b.lie;
  shape.strings = languages_.all_of({a.strings, b.strings});
  shape.numbers = languages_.all_of({a.numbers, b.numbers});
  for (const ArrayTerm& left : a.arrays) {
    for (const ArrayTerm& right : b.arrays) {
      ArrayTerm joined;
      if (join(left, right, joined)) add_term(shape.arrays, std::move(joined));
    }
  }
  for (const ObjectTerm& left : a.objects) {
    for (const ObjectTerm& right : b.objects) {
      ObjectTerm joined;
      if (join(left, right, joined)) add_term(shape.objects, std::move(joined));
    }
  }
  return shape;
}

Shape ShapeAlgebra::either(Shape a, const Shape& b) {
  a.null = a.null || b.null;
  a.truth = a.truth || b.truth;
  a.lie = a.lie || b.lie;
  a.strings = languages_.any_of({a.strings, b.strings});
  a.numbers = languages_.any_of({a.numbers, b.numbers});
  for (const ArrayTerm& term : b.arrays) add_term(a.arrays, term);
  for (const ObjectTerm& term : b.objects) add_term(a.objects, term);
  return a;
}

bool ShapeAlgebra::join(const ArrayTerm& a, const ArrayTerm& b, ArrayTerm& joined) {
  joined.rest = compiler_.both(a.rest, b.rest);
  for (size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    joined.prefix.push_back(compiler_.both(i < a.prefix.size() ? a.prefix[i] : a.rest,
                                           i < b.prefix.size() ? b.prefix[i] : b.rest));
  }
  joined.min = std::max(a.min, b.min);
  joined.max = std::min(a.max, b.max);
  for (size_t i = 0; i < joined.prefix.size(); ++i) {
    if (joined.prefix[i] == kNoValue) joined.max = std::min(joined.max, static_cast<uint32_t>(i));
  }
  if (joined.rest == kNoValue) joined.max = std::min(joined.max, static_cast<uint32_t>(joined.prefix.size()));
  joined.counts = a.counts;
  merge_sorted(joined.counts, b.counts);
  joined.unique = a.unique || b.unique;
  return joined.min <= joined.max;
}

void ShapeAlgebra::join_rules(std::vector<KeyRule>& rules, const std::vector<KeyRule>& more) {
  for (const KeyRule& rule : more) {
    const auto same = std::find_if(rules.begin(), rules.end(), [&rule](const KeyRule& other) {
      return other.name == rule.name && other.keys == rule.keys;
    });
    if (same == rules.end()) {
      rules.push_back(rule);
    } else {
      same->goal = compiler_.both(same->goal, rule.goal);
    }
  }
  std::sort(rules.begin(), rules.end());
}

GoalId ShapeAlgebra::goal_of_name(const ObjectTerm& term, uint32_t name) {
  GoalId goal = kAnyValue;
  for (const KeyRule& rule : term.rules) {
    const bool matches =
        rule.name == name || (rule.name == kNoName && languages_.contains(rule.keys, compiler_.name(name)));
    if (matches) goal = compiler_.both(goal, rule.goal);
  }
  return goal;
}

bool ShapeAlgebra::join(const ObjectTerm& a, const ObjectTerm& b, ObjectTerm& joined) {
  joined = a;
  join_rules(joined.rules, b.rules);
  merge_sorted(joined.obligations, b.obligations);
  merge_sorted(joined.implications, b.implications);
  join_declared(joined.declared, b.declared);
  joined.min = std::max(a.min, b.min);
  joined.max = std::min(a.max, b.max);
  if (joined.min > joined.max) return false;
  for (const KeyRule& needed : joined.obligations) {
    if (needed.name == kNoName) continue;
    const GoalId goal = compiler_.both(needed.goal, goal_of_name(joined, needed.name));
    if (goal == kNoValue || compiler_.is_known_empty(goal, 1)) return false;
  }
  return true;
}

}  // namespace quire
