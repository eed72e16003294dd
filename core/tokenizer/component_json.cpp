#include "core/tokenizer/component_json.h"

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

constexpr size_t kMaxSteps = 16;  // steps of a Sequence; every piece passes through all of them

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

void refuse_unknown_keys(const JsonView& object, std::initializer_list<std::string_view> known) {
  for (const JsonMember& member : object.members()) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      throw Error(ErrorCode::unsupported, "{}.{} is a field that this build does not support", object.where(),
                  printable(member.key));
    }
  }
}

std::string type_of(const JsonView& json) {
  return json.at("type").as_string();
}

void refuse_type(const JsonView& json) {
  throw Error(ErrorCode::unsupported, "{}.type: \"{}\" is not supported", json.where(),
              printable(type_of(json)));
}

std::vector<JsonView> flatten(const JsonView& json, std::string_view key) {
  if (type_of(json) != "Sequence") return {json};
  refuse_unknown_keys(json, {"type", key});
  std::vector<JsonView> steps;
  for (const JsonView& item : json.at(key).items()) {  // nesting is limited by the JSON depth
    for (const JsonView& step : flatten(item, key)) steps.push_back(step);
    if (steps.size() > kMaxSteps) {
      throw Error(ErrorCode::unsupported, "{}: more than {} steps", json.where(), kMaxSteps);
    }
  }
  return steps;
}

std::optional<std::string> literal_pattern(const JsonView& json) {
  refuse_unknown_keys(json, {"String", "Regex"});
  if (json.has("Regex")) return std::nullopt;
  const JsonView literal = json.at("String");
  if (literal.as_string().empty()) {
    throw Error(ErrorCode::unsupported, "{}: an empty pattern is not supported", literal.where());
  }
  return literal.as_string();
}

Regex load_regex(const JsonView& json) {
  const JsonView regex = json.at("Regex");
  return Regex(regex.as_string(), regex.where());
}

std::string load_character(const JsonView& json) {
  const std::string& text = json.as_string();
  if (text.empty() || decode_utf8(text, 0).length != text.size()) {
    throw Error(ErrorCode::format, "{} must be one character", json.where());
  }
  return text;
}

std::string decode_base64(std::string_view text, const std::string& where) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) throw Error(ErrorCode::format, "{} is not base64", where);
    bits = (bits << 6) | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>((bits >> num_bits) & 0xff));
  }
  if (num_bits >= 6) throw Error(ErrorCode::format, "{} is not base64: it is cut", where);
  return bytes;
}

}  // namespace quire
