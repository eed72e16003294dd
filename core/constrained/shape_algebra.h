// And, or of shapes.
#pragma once

#include "core/constrained/schema_compiler.h"

namespace quire {

// The language of all JSON numbers, and of those that are whole and that are not.
LanguageId number_language(LanguageStore& languages);
LanguageId integer_language(LanguageStore& languages);
LanguageId fraction_language(LanguageStore& languages);

class ShapeAlgebra {
 public:
  explicit ShapeAlgebra(SchemaCompiler& compiler) : compiler_(compiler), languages_(compiler.languages()) {}

  Shape all() const;
  static Shape none() { return {}; }
  Shape both(const Shape& a, const Shape& b);
  Shape either(Shape a, const Shape& b);

  // Each key by all that either says of it.
  void join_rules(std::vector<KeyRule>& rules, const std::vector<KeyRule>& more);
  // What a member of that name has to be by the rules of a term.
  GoalId goal_of_name(const ObjectTerm& term, uint32_t name);

 private:
  bool join(const ArrayTerm& a, const ArrayTerm& b, ArrayTerm& joined);
  bool join(const ObjectTerm& a, const ObjectTerm& b, ObjectTerm& joined);

  SchemaCompiler& compiler_;
  LanguageStore& languages_;
};

}  // namespace quire
