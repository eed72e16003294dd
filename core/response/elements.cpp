#include "core/response/elements.h"

#include <vector>

#include "core/base/white_space.h"
#include "core/response/json_span.h"

namespace quire {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr std::string_view kItem = "item";

struct Element {
  std::string_view name;
  std::string_view text;
};

// Returns where the element at the beginning of `text` ends; elements of the same name may be nested in it.
// Returns npos if it does not end.
size_t find_end(std::string_view text, const std::string& begin, const std::string& end) {
  size_t depth = 0;
  for (size_t pos = 0;;) {
    const size_t next_end = text.find(end, pos);
    if (next_end == std::string_view::npos) return next_end;
    const size_t next_begin = text.substr(pos, next_end - pos).find(begin);
    if (next_begin != std::string_view::npos) {
      ++depth;
      pos += next_begin + begin.size();
    } else if (--depth == 0) {
      return next_end;
    } else {
      pos = next_end + end.size();
    }
  }
}

// Splits a text into elements; returns nothing if it has other contents.
std::vector<Element> elements_of(std::string_view text, std::string_view open) {
  std::vector<Element> elements;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t name_end = text.find('>', open.size());
    if (text.substr(0, open.size()) != open || name_end == std::string_view::npos) return {};
    const std::string_view name = text.substr(open.size(), name_end - open.size());
    const std::string begin = std::string(open) + std::string(name) + ">";
    const std::string end = std::string(open) + "/" + std::string(name) + ">";
    const size_t end_pos = find_end(text, begin, end);
    if (end_pos == std::string_view::npos) return {};
    elements.push_back({name, text.substr(begin.size(), end_pos - begin.size())});
    text.remove_prefix(end_pos + end.size());
  }
  return elements;
}

std::string json_within(std::string_view text, std::string_view open, const SchemaInDocument& schema,
                        size_t depth) {
  const ValueTypes types = types_of(schema);
  const std::vector<Element> elements =
      depth < kMaxDepth && types.has(ValueTypes::kArray | ValueTypes::kObject) ? elements_of(text, open)
                                                                               : std::vector<Element>();
  if (elements.empty()) {
    const bool only_list = types.known && types.bits == ValueTypes::kArray && trimmed(text).empty();
    const bool only_object = types.known && types.bits == ValueTypes::kObject && trimmed(text).empty();
    if (only_list || only_object) return only_list ? "[]" : "{}";
    PlainValue plain;
    plain.types = types;
    return json_of_plain(text, plain);
  }
  const bool is_list =
      !types.has(ValueTypes::kObject) || (types.has(ValueTypes::kArray) && elements.front().name == kItem);
  std::string json(1, is_list ? '[' : '{');
  for (const Element& element : elements) {
    if (json.size() > 1) json += ", ";
    if (!is_list) {
      json += '"';
      append_json_text(json, element.name);
      json += "\": ";
    }
    json +=
        json_within(element.text, open, is_list ? schema.items() : schema.member(element.name), depth + 1);
  }
  return json += is_list ? ']' : '}';
}

}  // namespace

std::string json_of_elements(std::string_view text, std::string_view open, const SchemaInDocument& schema) {
  return json_within(text, open, schema, 0);
}

}  // namespace quire
