// Strict JSON for files that are not trusted: bounded size and depth, duplicate keys refused at any level,
// and typed look-ups whose errors name the file and the path of the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace quire {

// Keeps the order of the file: tokenizers depend on the order of added tokens and merges.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = 64U << 20;
  size_t max_depth = 64;
};

// Parses `text`; every refusal is ErrorCode::format with `source` (a file name) and the byte offset.
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

// A JSON object together with the words that say where it came from. Borrowed: must not outlive the value.
class JsonView {
 public:
  JsonView(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const Json& raw() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_object() const { return value_->is_object(); }
  bool is_null() const { return value_->is_null(); }

  // True where the key is there and not null.
  bool has(std::string_view key) const;
  // The member; throws ErrorCode::format naming the field where it is absent.
  JsonView at(std::string_view key) const;
  // The member, or nothing where it is absent or null.
  std::optional<JsonView> find(std::string_view key) const;
  std::vector<JsonView> items() const;  // of an array

  // Typed reads of this value; each throws ErrorCode::format naming the field and what was expected.
  int64_t as_int(int64_t min, int64_t max) const;
  double as_number(double min, double max) const;  // finite
  bool as_bool() const;
  std::string as_string() const;

  // Typed reads of a member with a default for an absent or null one.
  int64_t int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
  double number_or(std::string_view key, double fallback, double min, double max) const;
  bool bool_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;

 private:
  [[noreturn]] void fail(std::string_view expected) const;

  const Json* value_;
  std::string where_;
};

}  // namespace quire
