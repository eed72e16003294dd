// A JSON Schema document with its identifiers and anchors; resolves references.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/json.h"

namespace quire {

enum class SchemaDraft : uint8_t { draft4, draft6, draft7, draft2019, draft2020 };

using SchemaId = uint32_t;

// Maximum nesting of the JSON of a schema: recursions over it fit into the smallest stack of a caller.
inline constexpr size_t kMaxSchemaDepth = 100;

struct SchemaNode {
  const JsonValue* value = nullptr;
  std::string base;  // URI of the resource that contains it
  SchemaDraft draft = SchemaDraft::draft2020;
};

// The schemas of one document. Not thread-safe. Borrows the JSON. Nothing is ever fetched: a reference
// outside of the document throws ErrorCode::unsupported, which names it.
class SchemaDocument {
 public:
  explicit SchemaDocument(const JsonValue& root);

  SchemaId root() const { return 0; }
  const SchemaNode& node(SchemaId id) const { return nodes_[id]; }
  // Returns the id of a schema below `parent`.
  SchemaId child(SchemaId parent, const JsonValue& value);
  // Adds a schema that the compiler made itself.
  SchemaId made(JsonValue value);
  SchemaId resolve(SchemaId from, std::string_view reference);
  // Resolves $dynamicRef and $recursiveRef; throws ErrorCode::unsupported if the target depends on the path
  // that led there.
  SchemaId resolve_dynamic(SchemaId from, std::string_view reference, std::string_view keyword);

 private:
  struct Place {
    const JsonValue* value = nullptr;
    std::string base;
    SchemaDraft draft = SchemaDraft::draft2020;
  };
  void walk(const JsonValue& value, Place place);
  void walk_children(const JsonValue& value, const Place& place);
  Place enter(const JsonValue& value, Place place) const;
  SchemaId add(const Place& place);
  SchemaId resolve_pointer(const Place& resource, std::string_view pointer, std::string_view reference);

  std::deque<JsonValue> made_;
  std::vector<SchemaNode> nodes_;
  std::unordered_map<const JsonValue*, SchemaId> by_value_;
  std::map<std::string, Place, std::less<>> resources_;
  std::map<std::string, Place, std::less<>> anchors_;  // by URI#name
  std::map<std::string, int, std::less<>> dynamic_anchors_;
  int num_recursive_anchors_ = 0;
};

// Resolves a reference by RFC 3986, section 5.2, without the fragment.
std::string resolve_uri(std::string_view base, std::string_view reference);

}  // namespace quire
