#include "core/base/json_pointer.h"

#include <algorithm>

#include "core/base/ascii.h"
#include "core/base/hex.h"

namespace quire {
namespace {

std::string unescaped(std::string_view escaped) {
  std::string part;
  for (size_t i = 0; i < escaped.size(); ++i) {
    const bool escape = escaped[i] == '~' && i + 1 < escaped.size();
    if (!escape) {
      part.push_back(escaped[i]);
      continue;
    }
    part.push_back(escaped[++i] == '1' ? '/' : '~');
  }
  return part;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::vector<std::string> pointer_parts(std::string_view pointer) {
  std::vector<std::string> parts;
  for (size_t pos = 0; pos < pointer.size();) {
    const size_t end = std::min(pointer.find('/', pos + 1), pointer.size());
    parts.push_back(unescaped(pointer.substr(pos + 1, end - pos - 1)));
    pos = end;
  }
  return parts;
}

const JsonValue* step_into(const JsonValue& value, const std::string& part) {
  if (value.as_object() != nullptr) return value.find(part);
  const JsonValue::Array* const array = value.as_array();
  if (array == nullptr || part.empty() || part.size() > 9) return nullptr;
  size_t idx = 0;
  for (const char symbol : part) {
    if (!is_ascii_digit(symbol)) return nullptr;
    idx = idx * 10 + static_cast<size_t>(symbol - '0');
  }
  return idx < array->size() ? &(*array)[idx] : nullptr;
}

const JsonValue* find_at(const JsonValue& document, std::string_view reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  const std::string pointer = percent_decoded(reference.substr(1));
  if (!pointer.empty() && pointer[0] != '/') return nullptr;
  const JsonValue* at = &document;
  for (const std::string& part : pointer_parts(pointer)) {
    at = step_into(*at, part);
    if (at == nullptr) return nullptr;
  }
  return at;
}

std::string pointer_part(std::string_view key) {
  std::string part;
  for (const char symbol : key) {
    if (symbol == '~') {
      part += "~0";
    } else if (symbol == '/') {
      part += "~1";
    } else if (symbol == '%') {
      part += "%25";
    } else {
      part += symbol;
    }
  }
  return part;
}

}  // namespace quire
