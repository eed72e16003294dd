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
  // Writes an unquoted string; empty if every string that the schema allows reads as another value.
  std::string text_value(const SchemaInDocument& schema, const Unquoted& value) const;
  // Writes the unquoted strings of a value that may also be another JSON value, each followed by |. Strings
  // with other conditions than a type, enum or const are left out, because the text has no quotes that end
  // it.
  void add_texts(const SchemaInDocument& schema, const Unquoted& value, std::string& texts,
                 int depth = 0) const;
  // Returns whether the schema has only types, enum, const and annotations.
  static bool is_simple(const SchemaInDocument& schema);
  // Returns the statements that come before the rules: schemas that several items refer to.
  const std::string& documents() const { return documents_; }

 private:
  std::string referred_value(const ToolSet::Tool& tool, const Property& property, std::string_view list);
  bool reads_as_text(std::string_view text, ValueTypes types) const;
  static std::string free_value(const Unquoted& value);

  const Dialect& dialect_;
  std::string documents_;
  std::map<std::string, std::string> document_names_;  // by tool
};

}  // namespace quire
