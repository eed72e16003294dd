// Shapes: a normal form of JSON Schemas, by type of value. Alternatives are few plain terms, and "not" is
// eliminated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/constrained/language_store.h"

namespace quire {

// Number of a sorted list of schemas, each plain or negated, that one value must satisfy together.
using GoalId = uint32_t;
constexpr GoalId kAnyValue = 0;  // no condition
constexpr GoalId kNoValue = 1;   // cannot be satisfied

// A schema in plain (2 * id) or negated form (2 * id + 1).
using Literal = uint32_t;

constexpr uint32_t kNoName = UINT32_MAX;

// A condition on the members whose key is in a language, or has one name.
struct KeyRule {
  LanguageId keys = 0;
  uint32_t name = kNoName;  // if it is a single name
  GoalId goal = kAnyValue;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const KeyRule&) const = default;
};

// A dependency: if the member `name` is present, `needed` must be present too.
struct Implication {
  uint32_t name = 0;
  uint32_t needed = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const Implication&) const = default;
};

// Which members a schema names, for forms that order or close objects. Empty if the form does neither.
struct Declared {
  std::vector<uint32_t> order;       // names, as `properties` has them
  std::vector<LanguageId> patterns;  // of `patternProperties`
  bool names = false;                // a schema lists members
  bool others = false;               // a schema opens the object to other members
  bool operator==(const Declared&) const = default;
};

struct ObjectTerm {
  std::vector<KeyRule> rules;        // each matching member must satisfy the goal
  std::vector<KeyRule> obligations;  // at least one member must match and satisfy the goal
  std::vector<Implication> implications;
  Declared declared;
  uint32_t min = 0;
  uint32_t max = kNoMaximum;
  bool operator==(const ObjectTerm&) const = default;
};

// A condition: at least min and at most max items from index `from` on satisfy the goal.
struct ItemCount {
  uint32_t from = 0;
  GoalId goal = kAnyValue;
  GoalId other = kAnyValue;  // the negation; the other items must satisfy it if max is a limit
  uint32_t min = 0;
  uint32_t max = kNoMaximum;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const ItemCount&) const = default;
};

struct ArrayTerm {
  std::vector<GoalId> prefix;
  GoalId rest = kAnyValue;
  uint32_t min = 0;
  uint32_t max = kNoMaximum;
  std::vector<ItemCount> counts;
  bool unique = false;
  bool operator==(const ArrayTerm&) const = default;
};

struct Shape {
  bool null = false;
  bool truth = false;  // the value true
  bool lie = false;    // the value false
  LanguageId strings = LanguageStore::kNothing;
  LanguageId numbers = LanguageStore::kNothing;
  std::vector<ArrayTerm> arrays;  // alternatives: the value must match one of them
  std::vector<ObjectTerm> objects;
};

}  // namespace quire
