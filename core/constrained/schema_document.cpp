#include "core/constrained/schema_document.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json_pointer.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 14> kSchemaKeywords = {"additionalItems",
                                                              "additionalProperties",
                                                              "contains",
                                                              "else",
                                                              "if",
                                                              "items",
                                                              "not",
                                                              "propertyNames",
                                                              "then",
                                                              "allOf",
                                                              "unevaluatedItems",
                                                              "unevaluatedProperties",
                                                              "anyOf",
                                                              "oneOf"};
constexpr std::array<std::string_view, 2> kListKeywords = {"prefixItems", "contentSchema"};
constexpr std::array<std::string_view, 6> kMapKeywords = {"properties",  "patternProperties", "$defs",
                                                          "definitions", "dependentSchemas",  "dependencies"};

bool has_scheme(std::string_view uri) {
  const size_t colon = uri.find(':');
  return colon != std::string_view::npos && colon > 0 && uri.find_first_of("/?#") > colon;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  const bool absolute = !path.empty() && path[0] == '/';
  bool ends_in_slash = false;
  size_t pos = absolute ? 1 : 0;
  while (pos <= path.size()) {
    const size_t slash = std::min(path.find('/', pos), path.size());
    const std::string_view part = path.substr(pos, slash - pos);
    ends_in_slash = part.empty() || part == "." || part == "..";
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != "." && (!part.empty() || slash < path.size())) {
      parts.push_back(part);
    }
    pos = slash + 1;
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) out.append(i == 0 ? "" : "/").append(parts[i]);
  if (ends_in_slash && !parts.empty()) out.push_back('/');
  return out;
}

// Returns where the path of a URI begins, after scheme and authority.
size_t path_begin(std::string_view uri) {
  size_t pos = has_scheme(uri) ? uri.find(':') + 1 : 0;
  if (uri.substr(pos, 2) == "//") pos = std::min(uri.find('/', pos + 2), uri.size());
  return pos;
}

const std::string* text_of(const JsonValue& value, std::string_view key) {
  const JsonValue* const member = value.find(key);
  return member == nullptr ? nullptr : member->as_string();
}

SchemaDraft draft_of(const JsonValue& value, SchemaDraft fallback) {
  const std::string* const name = text_of(value, "$schema");
  if (name == nullptr) return fallback;
  if (name->find("draft-04") != std::string::npos || name->find("draft-03") != std::string::npos)
    return SchemaDraft::draft4;
  if (name->find("draft-06") != std::string::npos) return SchemaDraft::draft6;
  if (name->find("draft-07") != std::string::npos) return SchemaDraft::draft7;
  if (name->find("2019-09") != std::string::npos) return SchemaDraft::draft2019;
  return name->find("2020-12") != std::string::npos ? SchemaDraft::draft2020 : fallback;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  base = base.substr(0, base.find('#'));
  if (reference.empty()) return std::string(base);
  if (has_scheme(reference)) {
    const size_t begin = path_begin(reference);
    if (begin >= reference.size() || reference[begin] != '/') return std::string(reference);
    return std::string(reference.substr(0, begin)) + without_dots(reference.substr(begin));
  }
  if (reference.substr(0, 2) == "//") {
    return std::string(base.substr(0, has_scheme(base) ? base.find(':') + 1 : 0)) + std::string(reference);
  }
  const size_t begin = path_begin(base);
  const std::string_view root = base.substr(0, begin);
  if (reference[0] == '/') return std::string(root) + without_dots(reference);
  const std::string_view path = base.substr(begin, base.find('?', begin) - begin);
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string_view::npos ? (root.empty() ? "" : "/") : std::string(path.substr(0, slash + 1));
  return std::string(root) + without_dots(folder + std::string(reference));
}

SchemaDocument::SchemaDocument(const JsonValue& root) {
  Place place;
  place.draft = draft_of(root, SchemaDraft::draft2020);
  resources_.emplace("", Place{&root, "", place.draft});
  walk(root, place);
  const Place entered = enter(root, place);
  add({&root, entered.base, entered.draft});
}

SchemaDocument::Place SchemaDocument::enter(const JsonValue& value, Place place) const {
  place.draft = draft_of(value, place.draft);
  const bool hidden = place.draft <= SchemaDraft::draft7 && text_of(value, "$ref") != nullptr;
  const std::string* const id = text_of(value, place.draft == SchemaDraft::draft4 ? "id" : "$id");
  if (id != nullptr && !hidden && !id->empty() && (*id)[0] != '#') place.base = resolve_uri(place.base, *id);
  return place;
}

void SchemaDocument::walk(const JsonValue& value, Place place) {
  if (value.as_object() == nullptr) return;
  const std::string outer = place.base;
  place = enter(value, place);
  if (place.base != outer) resources_.emplace(place.base, Place{&value, place.base, place.draft});
  const std::string* const id = text_of(value, place.draft == SchemaDraft::draft4 ? "id" : "$id");
  if (id != nullptr && place.draft <= SchemaDraft::draft7 && id->find('#') != std::string::npos) {
    anchors_.emplace(place.base + id->substr(id->find('#')), Place{&value, place.base, place.draft});
  }
  for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
    const std::string* const anchor = text_of(value, keyword);
    if (anchor == nullptr) continue;
    anchors_.emplace(place.base + "#" + *anchor, Place{&value, place.base, place.draft});
    if (keyword == "$dynamicAnchor") ++dynamic_anchors_[*anchor];
  }
  const JsonValue* const recursive = value.find("$recursiveAnchor");
  if (recursive != nullptr && recursive->as_bool() != nullptr && *recursive->as_bool())
    ++num_recursive_anchors_;
  walk_children(value, place);
}

void SchemaDocument::walk_children(const JsonValue& value, const Place& place) {
  const auto walk_list = [this, &place](const JsonValue& list) {
    if (list.as_array() == nullptr) return;
    for (const JsonValue& item : *list.as_array()) walk(item, place);
  };
  for (const JsonMember& member : *value.as_object()) {
    const auto is = [&member](std::string_view keyword) { return keyword == member.key; };
    if (std::any_of(kSchemaKeywords.begin(), kSchemaKeywords.end(), is) ||
        std::any_of(kListKeywords.begin(), kListKeywords.end(), is)) {
      walk(member.value, place);
      walk_list(member.value);
    } else if (std::any_of(kMapKeywords.begin(), kMapKeywords.end(), is) &&
               member.value.as_object() != nullptr) {
      for (const JsonMember& entry : *member.value.as_object()) walk(entry.value, place);
    }
  }
}

SchemaId SchemaDocument::add(const Place& place) {
  const auto [it, is_new] = by_value_.emplace(place.value, static_cast<SchemaId>(nodes_.size()));
  if (is_new) nodes_.push_back({place.value, place.base, place.draft});
  return it->second;
}

SchemaId SchemaDocument::child(SchemaId parent, const JsonValue& value) {
  const auto known = by_value_.find(&value);
  if (known != by_value_.end()) return known->second;
  const Place place = enter(value, {&value, nodes_[parent].base, nodes_[parent].draft});
  return add({&value, place.base, place.draft});
}

SchemaId SchemaDocument::made(JsonValue value) {
  made_.push_back(std::move(value));
  return add({&made_.back(), "", SchemaDraft::draft2020});
}

SchemaId SchemaDocument::resolve(SchemaId from, std::string_view reference) {
  const std::string uri = resolve_uri(nodes_[from].base, reference);
  const size_t mark = reference.find('#');
  const std::string fragment =
      mark == std::string_view::npos ? "" : percent_decoded(reference.substr(mark + 1));
  auto resource = resources_.find(uri);
  if (resource == resources_.end()) {
    throw Error(ErrorCode::unsupported,
                "$ref \"{}\": the referenced schema is not in the document; nothing is fetched",
                printable(reference));
  }
  if (fragment.empty() || fragment[0] == '/') return resolve_pointer(resource->second, fragment, reference);
  const auto anchor = anchors_.find(uri + "#" + fragment);
  if (anchor == anchors_.end()) {
    throw Error(ErrorCode::format, "$ref \"{}\": the document has no such anchor", printable(reference));
  }
  return add(anchor->second);
}

SchemaId SchemaDocument::resolve_pointer(const Place& resource, std::string_view pointer,
                                         std::string_view reference) {
  Place at = enter(*resource.value, resource);
  for (const std::string& part : pointer_parts(pointer)) {
    const JsonValue* const next = step_into(*at.value, part);
    if (next == nullptr)
      throw Error(ErrorCode::format, "$ref \"{}\": the document has no value at this path",
                  printable(reference));
    at.value = next;
    at = enter(*next, at);
  }
  return add(at);
}

SchemaId SchemaDocument::resolve_dynamic(SchemaId from, std::string_view reference,
                                         std::string_view keyword) {
  const size_t mark = reference.find('#');
  const std::string name(mark == std::string_view::npos ? "" : reference.substr(mark + 1));
  const auto anchor = dynamic_anchors_.find(name);
  const bool several = keyword == "$recursiveRef" ? num_recursive_anchors_ > 0
                                                  : anchor != dynamic_anchors_.end() && anchor->second > 1;
  if (several) {
    throw Error(ErrorCode::unsupported,
                "the schema keyword \"{}\" with more than one target is not supported", keyword);
  }
  return resolve(from, reference);
}

}  // namespace quire
