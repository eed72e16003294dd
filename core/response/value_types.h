// The tools of a request, as far as reading their calls needs them: which types an argument may have, and the
// JSON of an argument that is written without them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace quire {

// Types of JSON, a bit each.
struct ValueTypes {
  static constexpr uint8_t kNull = 1;
  static constexpr uint8_t kBool = 2;
  static constexpr uint8_t kNumber = 4;
  static constexpr uint8_t kString = 8;
  static constexpr uint8_t kArray = 16;
  static constexpr uint8_t kObject = 32;
  static constexpr uint8_t kAny = 63;
  uint8_t bits = kAny;
  bool known = false;  // a schema said so

  bool only_text() const { return known && bits == kString; }
  bool has(uint8_t type) const { return (bits & type) != 0; }
};

// Those that a schema allows, read from its own words alone: a reference allows all.
ValueTypes types_of(const JsonValue* schema);

class ToolSet {
 public:
  struct Tool {
    std::string name;
    JsonValue parameters;  // null: none were told
  };

  ToolSet() : ToolSet(std::vector<Tool>()) {}
  explicit ToolSet(std::vector<Tool> tools)
      : tools_(std::make_shared<const std::vector<Tool>>(std::move(tools))) {}
  // A JSON list of tools as OpenAI has them ({"type": "function", "function": {...}}), or of the functions
  // alone. ErrorCode::format where it is none, or two have one name.
  static ToolSet parse(std::string_view json);
  static ToolSet of(const JsonView& list);

  const std::vector<Tool>& tools() const { return *tools_; }
  const Tool* find(std::string_view name) const;
  // The schema of an argument; null where it is not known.
  const JsonValue* argument_schema(std::string_view name, std::string_view argument) const;

 private:
  std::shared_ptr<const std::vector<Tool>> tools_;  // also of copies
};

// JSON of a value that is written as it is, without quotes where it is a string.
struct PlainValue {
  ValueTypes types;
  bool is_json = false;  // the dialect's hint says so
  bool python = false;   // lists and words as Python has them count as JSON does
};
std::string json_of_plain(std::string_view text, const PlainValue& value);

}  // namespace quire
