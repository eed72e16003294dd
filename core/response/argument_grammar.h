// The part of a response grammar that writes the values of a tool's arguments in Lark notation: as JSON, or
// unquoted as the dialects with tags have them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/response/dialect.h"
#include "core/response/value_types.h"

namespace quire {

struct Property {
  std::string name;
  SchemaInDocument schema;  // null: any value
  bool required = false;
};

// Returns the properties of a tool in the order of its schema.
std::vector<Property> properties_of(const ToolSet::Tool& tool);

class ArgumentValues {
 public:
  // An unquoted value of a property: the property's name, the types that it may have, and the mark after it.
  struct Unquoted {
    std::string_view name;
    ValueTypes types;
    std::string_view end;
  };

  explicit ArgumentValues(const Dialect& dialect) : dialect_(dialect) {}

  // Returns the item for a value of a property in JSON.
  std::string json_value(const ToolSet::Tool& tool, const Property& property);
  // Same, without JSON strings.
  std::string json_value_without_strings(const ToolSet::Tool& tool, const Property& property);
  // Writes an unquoted string; empty if every string that the schema allows reads as another value. Throws
  // ErrorCode::unsupported if the schema has other conditions on strings than a type, enum or const.
  std::string text_value(const SchemaInDocument& schema, const Unquoted& value) const;
  // Same for a value whose schema may have alternatives: writes the strings of all of them, with | between.
  // Leaves out strings behind a reference to an $id.
  std::string text_values(const SchemaInDocument& schema, const Unquoted& value) const;
  // Returns whether type, enum and const are the only conditions that the schema has for strings.
  static bool is_simple(const SchemaInDocument& schema);
  // Returns the statements that come before the rules: schemas that several items refer to.
  const std::string& documents() const { return documents_; }

 private:
  // The strings of alternatives.
  struct Texts {
    std::string written;
    size_t num_schemas = 0;
  };

  std::string referred_value(const ToolSet::Tool& tool, const Property& property, std::string_view list);
  bool reads_as_text(std::string_view text, ValueTypes types) const;
  void add_texts(const SchemaInDocument& schema, const Unquoted& value, Texts& texts, int depth) const;
  [[noreturn]] void refuse(const Unquoted& value) const;
  std::string free_value(const Unquoted& value) const;
  void avoid_early_ends(std::string& pattern) const;

  const Dialect& dialect_;
  std::string documents_;
  std::map<std::string, std::string> document_names_;  // by tool
};

}  // namespace quire
