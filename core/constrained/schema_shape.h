// What a JSON value has to be, type by type: a normal form of schemas in which alternatives are few plain
// terms and "not" is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/constrained/language_store.h"

namespace quire {

// Schemas, each as it is or negated, that one value has to meet together: a number for a sorted list.
using GoalId = uint32_t;
constexpr GoalId kAnyValue = 0;  // no schema at all
constexpr GoalId kNoValue = 1;   // cannot be met

// A schema as it is (2 * id) or negated (2 * id + 1).
using Literal = uint32_t;

constexpr uint32_t kNoName = UINT32_MAX;

// Members whose key is in a language, or is one name.
struct KeyRule {
  LanguageId keys = 0;
  uint32_t name = kNoName;  // where it is one name
  GoalId goal = kAnyValue;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const KeyRule&) const = default;
};

// If the one is there, so is the other.
struct Implication {
  uint32_t name = 0;
  uint32_t needed = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const Implication&) const = default;
};

struct ObjectTerm {
  std::vector<KeyRule> rules;        // of every member that matches
  std::vector<KeyRule> obligations;  // some member has to match and meet the goal
  std::vector<Implication> implications;
  uint32_t min = 0;
  uint32_t max = kNoMaximum;
  bool operator==(const ObjectTerm&) const = default;
};

// At least min and at most max items from `from` on meet the goal.
struct ItemCount {
  uint32_t from = 0;
  GoalId goal = kAnyValue;
  GoalId other = kAnyValue;  // the negation, which items that do not count have to meet where max is a limit
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
  bool lie = false;    // and false
  LanguageId strings = LanguageStore::kNothing;
  LanguageId numbers = LanguageStore::kNothing;
  std::vector<ArrayTerm> arrays;  // one of them
  std::vector<ObjectTerm> objects;
};

}  // namespace quire
