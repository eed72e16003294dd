#include "core/response/value_types.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/white_space.h"
#include "core/response/json_span.h"
#include "core/response/loose_reader.h"

namespace quire {
namespace {

constexpr size_t kMaxToolBytes = size_t{4} << 20;
constexpr size_t kMaxTools = 4096;
constexpr size_t kMaxAlternativeDepth = 16;
constexpr size_t kMaxAlternatives = 1024;  // of one schema; references may lead to one of them many times
// One less than the limit of System.Text.Json, because the value is inside of an object.
constexpr size_t kMaxValueDepth = 63;

struct NamedType {
  std::string_view name;
  uint8_t bits;
};
constexpr NamedType kNamedTypes[] = {{"null", ValueTypes::kNull},     {"boolean", ValueTypes::kBool},
                                     {"number", ValueTypes::kNumber}, {"integer", ValueTypes::kNumber},
                                     {"string", ValueTypes::kString}, {"array", ValueTypes::kArray},
                                     {"object", ValueTypes::kObject}};

uint8_t bits_named(const JsonValue& name) {
  const std::string* text = name.as_string();
  if (text == nullptr) return 0;
  for (const NamedType& type : kNamedTypes) {
    if (type.name == *text) return type.bits;
  }
  return 0;
}

uint8_t bits_of_value(const JsonValue& value) {
  if (value.is_null()) return ValueTypes::kNull;
  if (value.as_bool() != nullptr) return ValueTypes::kBool;
  if (value.as_string() != nullptr) return ValueTypes::kString;
  if (value.as_array() != nullptr) return ValueTypes::kArray;
  if (value.as_object() != nullptr) return ValueTypes::kObject;
  return ValueTypes::kNumber;
}

template <typename BitsOf>
uint8_t union_of(const JsonValue& values, BitsOf bits_of) {
  const JsonValue::Array* list = values.as_array();
  if (list == nullptr) return bits_of(values);
  uint8_t bits = 0;
  for (const JsonValue& value : *list) bits = static_cast<uint8_t>(bits | bits_of(value));
  return bits;
}

void narrow(ValueTypes& types, uint8_t bits) {
  if (bits == 0) return;
  types.bits = static_cast<uint8_t>(types.known ? types.bits & bits : bits);
  types.known = true;
}

// `num_left` is the number of alternatives that may still be looked at; the rest allows all types.
ValueTypes types_within(SchemaInDocument at, size_t depth, size_t& num_left) {
  ValueTypes types;
  if (depth == kMaxAlternativeDepth || num_left == 0) return types;
  --num_left;
  at = at.target();
  if (at.schema == nullptr || at.schema->as_object() == nullptr) return types;
  const JsonValue& schema = *at.schema;
  if (const JsonValue* type = schema.find("type")) narrow(types, union_of(*type, bits_named));
  if (const JsonValue* values = schema.find("enum")) narrow(types, union_of(*values, bits_of_value));
  if (const JsonValue* value = schema.find("const")) narrow(types, bits_of_value(*value));
  const auto bits_of_part = [&](const JsonValue& part) {
    return types_within({&part, at.document}, depth + 1, num_left).bits;
  };
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const JsonValue* parts = schema.find(key)) narrow(types, union_of(*parts, bits_of_part));
  }
  const JsonValue* all = schema.find("allOf");
  if (all != nullptr && all->as_array() != nullptr) {
    for (const JsonValue& part : *all->as_array()) {
      const uint8_t bits = bits_of_part(part);
      if (bits != ValueTypes::kAny) narrow(types, bits);
    }
  }
  const JsonValue* nullable = schema.find("nullable");
  if (types.known && nullable != nullptr && nullable->as_bool() != nullptr && *nullable->as_bool()) {
    types.bits |= ValueTypes::kNull;
  }
  return types;
}

// Returns the type of a text that is valid JSON, also for readers with narrow limits; 0 if it is not.
uint8_t type_of_json(std::string_view text) {
  if (text.empty() || std::string_view("{[\"-0123456789tfn").find(text.front()) == std::string_view::npos) {
    return 0;
  }
  JsonLimits limits;
  limits.max_depth = kMaxValueDepth;
  try {
    return bits_of_value(parse_json(text, "argument", limits));
  } catch (const Error&) {
    return 0;
  }
}

// Returns a loosely written value as JSON; empty if it is none.
std::string json_of_loose(std::string_view text, LooseSyntax::Kind kind) {
  LooseReader reader(LooseReader::Begin::value, {kind, {}, {}});
  while (!text.empty()) {
    const size_t num_read = reader.advance(text, MoreToCome::no);
    if (num_read == 0) return "";
    text.remove_prefix(num_read);
  }
  if (!reader.lacks_only_brackets() && !reader.over()) return "";
  reader.close_all();
  return reader.is_sound() ? reader.take_json() : "";
}

std::string quoted(std::string_view text) {
  std::string json = "\"";
  append_json_text(json, text);
  return json += '"';
}

}  // namespace

ValueTypes types_of(const SchemaInDocument& schema) {
  size_t num_left = kMaxAlternatives;
  return types_within(schema, 0, num_left);
}

ToolSet ToolSet::parse(std::string_view json) {
  if (trimmed(json).empty()) return {};
  JsonLimits limits;
  limits.max_bytes = kMaxToolBytes;
  return with_parameter("tools", [&] {
    const JsonValue list = parse_json(json, "tools", limits);
    return of(JsonView(list, "tools"));
  });
}

ToolSet ToolSet::of(const JsonView& list) {
  std::vector<Tool> tools;
  const auto has = [&](const std::string& name) {
    return std::any_of(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  };
  const std::vector<JsonView> items = list.items();
  if (items.size() > kMaxTools)
    throw Error(ErrorCode::capacity, "tools: more than the limit of {}", kMaxTools).at("tools");
  for (const JsonView& item : items) {
    const JsonView function = item.has("function") ? item.at("function") : item;
    Tool tool;
    tool.name = function.at("name").as_string();
    for (const char* key : {"parameters", "input_schema"}) {
      if (const JsonValue* schema = function.raw().find(key)) tool.parameters = schema->copy();
    }
    if (tool.name.empty()) throw Error(ErrorCode::format, "{}: name is empty", function.where());
    if (has(tool.name)) {
      throw Error(ErrorCode::format, "{}: there are two tools named \"{}\"", item.where(),
                  printable(tool.name));
    }
    tools.push_back(std::move(tool));
  }
  return ToolSet(std::move(tools));
}

const ToolSet::Tool* ToolSet::find(std::string_view name) const {
  for (const Tool& tool : *tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

SchemaInDocument ToolSet::argument_schema(std::string_view name, std::string_view argument) const {
  const Tool* tool = find(name);
  if (tool == nullptr) return {};
  return SchemaInDocument{&tool->parameters, &tool->parameters}.member(argument);
}

std::string json_of_plain(std::string_view text, const PlainValue& value) {
  const std::string_view inner = trimmed(text);
  if (!value.is_json && value.types.only_text()) return quoted(text);
  const uint8_t type = type_of_json(inner);
  const bool fits = value.types.has(type) && type != ValueTypes::kString;
  if (type != 0 && (value.is_json || fits)) return std::string(inner);
  if (value.is_json || value.python || (value.types.known && !value.types.has(ValueTypes::kString))) {
    std::string json =
        json_of_loose(inner, value.python ? LooseSyntax::Kind::python : LooseSyntax::Kind::json);
    const uint8_t loose_type = type_of_json(json);
    if (value.is_json ? loose_type != 0 : loose_type != ValueTypes::kString && value.types.has(loose_type))
      return json;
  }
  return quoted(text);
}

}  // namespace quire
