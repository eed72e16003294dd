// Schemas in the parameters of a tool: follows their references, which lead into the same document.
#include <algorithm>
#include <array>

#include "core/base/json_pointer.h"
#include "core/response/value_types.h"

namespace quire {
namespace {

constexpr int kMaxReferences = 16;  // followed from one schema
constexpr std::array<std::string_view, 10> kWithoutCondition = {
    "title",    "description", "default",     "examples", "deprecated",
    "readOnly", "writeOnly",   "definitions", "$defs",    "$schema"};

// Returns whether no keyword of the schema but `keyword` is a condition.
bool has_only(const JsonValue& schema, std::string_view keyword) {
  const JsonValue::Object& keywords = *schema.as_object();
  return std::all_of(keywords.begin(), keywords.end(), [&](const JsonMember& member) {
    const bool is_condition =
        std::find(kWithoutCondition.begin(), kWithoutCondition.end(), member.key) == kWithoutCondition.end();
    return member.key == keyword || !is_condition;
  });
}

// Returns the schema that a schema refers to: the target of its reference or the only part of its allOf; null
// if it has conditions of its own.
const JsonValue* next_of(const JsonValue& schema, const JsonValue& document) {
  if (schema.as_object() == nullptr) return nullptr;
  const JsonValue* const reference = schema.find("$ref");
  if (reference != nullptr && reference->as_string() != nullptr && has_only(schema, "$ref"))
    return find_at(document, *reference->as_string());
  const JsonValue* const parts = schema.find("allOf");
  const bool is_alone = parts != nullptr && parts->as_array() != nullptr && parts->as_array()->size() == 1;
  return is_alone && has_only(schema, "allOf") ? parts->as_array()->data() : nullptr;
}

}  // namespace

SchemaInDocument SchemaInDocument::target() const {
  SchemaInDocument at = *this;
  if (schema == nullptr || document == nullptr) return at;
  for (int i = 0; i < kMaxReferences; ++i) {
    const JsonValue* const next = next_of(*at.schema, *document);
    if (next == nullptr) return at;
    at.schema = next;
  }
  return at;
}

SchemaInDocument SchemaInDocument::part(std::string_view keyword) const {
  const SchemaInDocument at = target();
  if (at.schema == nullptr) return {};
  if (const JsonValue* const found = at.schema->find(keyword)) return {found, document};
  for (const char* key : {"anyOf", "oneOf"}) {
    const JsonValue* const options = at.schema->find(key);
    if (options == nullptr || options->as_array() == nullptr) continue;
    for (const JsonValue& option : *options->as_array()) {
      const SchemaInDocument branch = SchemaInDocument{&option, document}.target();
      const JsonValue* const found = branch.schema->find(keyword);
      if (found != nullptr) return {found, document};
    }
  }
  return {};
}

SchemaInDocument SchemaInDocument::member(std::string_view name) const {
  const SchemaInDocument members = part("properties");
  const JsonValue* const found = members.schema == nullptr ? nullptr : members.schema->find(name);
  return {found, document};
}

SchemaInDocument SchemaInDocument::items() const {
  return part("items");
}

}  // namespace quire
