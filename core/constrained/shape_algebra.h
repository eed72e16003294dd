// Intersection and union of shapes.
#pragma once

#include "core/constrained/schema_compiler.h"

namespace quire {

// Return the languages of all JSON numbers, of those as printers write them, of the integers, and of the
// others.
LanguageId number_language(LanguageStore& languages);
LanguageId printed_number_language(LanguageStore& languages);
LanguageId integer_language(LanguageStore& languages);
LanguageId fraction_language(LanguageStore& languages);

class ShapeAlgebra {
 public:
  explicit ShapeAlgebra(SchemaCompiler& compiler) : compiler_(compiler), languages_(compiler.languages()) {}

  Shape all() const;
  static Shape none() { return {}; }
  Shape both(const Shape& a, const Shape& b);
  Shape either(Shape a, const Shape& b);

  // Adds rules; two rules for the same keys become one that requires both goals.
  void join_rules(std::vector<KeyRule>& rules, const std::vector<KeyRule>& more);
  // Returns the goal of a member with this name by the rules of a term.
  GoalId goal_of_name(const ObjectTerm& term, uint32_t name);

 private:
  bool join(const ArrayTerm& a, const ArrayTerm& b, ArrayTerm& joined);
  bool join(const ObjectTerm& a, const ObjectTerm& b, ObjectTerm& joined);

  SchemaCompiler& compiler_;
  LanguageStore& languages_;
};

}  // namespace quire
