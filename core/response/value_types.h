// The tools of a request, as needed to parse their calls: the types that an argument may have, and the
// conversion of arguments written without quotes to JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace quire {

// A set of JSON types, one bit each.
struct ValueTypes {
  static constexpr uint8_t kNull = 1;
  static constexpr uint8_t kBool = 2;
  static constexpr uint8_t kNumber = 4;
  static constexpr uint8_t kString = 8;
  static constexpr uint8_t kArray = 16;
  static constexpr uint8_t kObject = 32;
  static constexpr uint8_t kAny = 63;
  uint8_t bits = kAny;
  bool known = false;  // specified by a schema

  bool only_text() const { return known && bits == kString; }
  bool has(uint8_t type) const { return (bits & type) != 0; }
};

// A schema and the document that its references are resolved in. Both may be null.
struct SchemaInDocument {
  const JsonValue* schema = nullptr;
  const JsonValue* document = nullptr;

  // Follows references to a place in the document, as long as the schema has no other condition. A reference
  // that leads nowhere is not followed.
  SchemaInDocument target() const;
  // Returns the schema of a member of an object, or of a list's items; null if it has none. Looks into anyOf
  // and oneOf.
  SchemaInDocument member(std::string_view name) const;
  SchemaInDocument items() const;
  // Returns the value of a keyword.
  SchemaInDocument part(std::string_view keyword) const;
};

// Returns the types that a schema allows by its own keywords; an unknown reference allows all types.
ValueTypes types_of(const SchemaInDocument& schema);

class ToolSet {
 public:
  struct Tool {
    std::string name;
    JsonValue parameters;  // null if not given
  };

  ToolSet() : ToolSet(std::vector<Tool>()) {}
  explicit ToolSet(std::vector<Tool> tools)
      : tools_(std::make_shared<const std::vector<Tool>>(std::move(tools))) {}
  // Parses a JSON list of tools in OpenAI's form ({"type": "function", "function": {...}}), or of the
  // functions alone. Throws ErrorCode::format if it is malformed or two tools have the same name.
  static ToolSet parse(std::string_view json);
  static ToolSet of(const JsonView& list);

  const std::vector<Tool>& tools() const { return *tools_; }
  const Tool* find(std::string_view name) const;
  // Returns the schema of an argument; null if unknown.
  SchemaInDocument argument_schema(std::string_view name, std::string_view argument) const;

 private:
  std::shared_ptr<const std::vector<Tool>> tools_;  // shared by copies
};

// Rules to convert a value to JSON if its strings are written without quotes.
struct PlainValue {
  ValueTypes types;
  bool is_json = false;  // a type hint of the dialect marks it as JSON
  bool python = false;   // also accept lists and words of Python
};
std::string json_of_plain(std::string_view text, const PlainValue& value);

}  // namespace quire
