// Writes a JSON object member by member.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/base/json.h"

namespace quire {

class JsonObject {
 public:
  // Adds a member whose value is JSON already.
  void add_json(std::string_view key, std::string_view json) {
    text_ += text_.empty() ? "" : ",";
    text_ += json_quoted(key) + ":";
    text_ += json;
  }
  void add(std::string_view key, std::string_view value) { add_json(key, json_quoted(value)); }
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, bool value) { add_json(key, value ? "true" : "false"); }
  void add(std::string_view key, int64_t value) { add_json(key, std::to_string(value)); }
  // The number must be finite.
  void add(std::string_view key, double value) { add_json(key, number(value)); }
  template <typename T>
  void add_list(std::string_view key, const std::vector<T>& values) {
    std::string list;
    for (const T& value : values) list += (list.empty() ? "" : ",") + item(value);
    add_json(key, "[" + list + "]");
  }
  std::string text() const { return "{" + text_ + "}"; }

  // Returns a number so that reading it gives the same double. Whole numbers keep a fraction.
  static std::string number(double value) {
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }

 private:
  static std::string item(double value) { return number(value); }
  static std::string item(float value) { return number(static_cast<double>(value)); }
  static std::string item(int64_t value) { return std::to_string(value); }
  static std::string item(int32_t value) { return std::to_string(value); }
  static std::string item(const std::string& value) { return json_quoted(value); }

  std::string text_;
};

}  // namespace quire
