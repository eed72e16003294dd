// Compiles JSON Schemas to shapes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/json.h"
#include "core/constrained/json_form.h"
#include "core/constrained/language_store.h"
#include "core/constrained/schema_document.h"
#include "core/constrained/schema_shape.h"

namespace quire {

// The compiler of one schema document. Not thread-safe. Throws ErrorCode::unsupported naming an unsupported
// keyword, and ErrorCode::capacity if there are too many alternatives or goals.
class SchemaCompiler {
 public:
  static constexpr size_t kMaxTerms = 4096;
  static constexpr size_t kMaxGoals = 50'000;

  SchemaCompiler(const JsonValue& schema, LanguageStore& languages, const JsonForm& form);

  // Returns the goal of the part of the document that a reference names; empty: the whole one.
  GoalId root(std::string_view reference) {
    const SchemaId whole = document_.root();
    return goal({2 * (reference.empty() ? whole : document_.resolve(whole, reference))});
  }
  GoalId goal(std::vector<Literal> literals);
  GoalId both(GoalId a, GoalId b);
  const Shape& shape(GoalId goal);
  const std::string& name(uint32_t idx) const { return names_.all[idx].text; }
  LanguageId name_language(uint32_t idx) const { return names_.all[idx].language; }
  uint32_t name_idx(const std::string& name);
  LanguageStore& languages() { return languages_; }
  LanguageId all_numbers() const { return all_numbers_; }  // all JSON numbers of the form
  size_t num_goals() const { return goals_.size(); }
  // Returns true if no value satisfies the goal, as far as checking `levels` levels down can show.
  bool is_known_empty(GoalId goal, int levels);

 private:
  friend class KeywordShapes;

  // A member name. A schema has few names, but each is in many terms, so its language is made once.
  struct Name {
    std::string text;
    LanguageId language = 0;
  };
  struct Names {
    std::vector<Name> all;
    std::unordered_map<std::string, uint32_t> idx;
  };

  std::shared_ptr<const Shape> literal_shape(Literal literal);
  Shape make_shape(GoalId goal);
  bool term_empty(const ObjectTerm& term, int levels);
  bool term_empty(const ArrayTerm& term, int levels);

  SchemaDocument document_;
  LanguageStore& languages_;
  const JsonForm form_;
  LanguageId all_numbers_;
  std::map<std::vector<Literal>, GoalId> by_literals_;
  std::vector<std::vector<Literal>> goals_;
  std::map<GoalId, Shape> shapes_;
  std::map<Literal, std::shared_ptr<const Shape>> literal_shapes_;
  std::set<Literal> in_progress_;
  size_t num_cycles_ = 0;        // how often a schema in progress was met again
  std::set<GoalId> unfinished_;  // made while such a schema was in progress; must be made again
  Names names_;
};

}  // namespace quire
