// Strict JSON for files that are not trusted: bounded size and depth, duplicate keys refused at any level,
// and typed look-ups whose errors name the file and the path of the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quire {

struct JsonMember;

// A value of a parsed file; it never changes and is never copied. A tree of it takes no memory when it is
// destroyed, as those of the JSON libraries do: a load that runs out of memory lets go of one.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  // In the order of the file: tokenizers depend on that of added tokens and merges.
  using Object = std::vector<JsonMember>;

  JsonValue() = default;  // null
  explicit JsonValue(bool value);
  explicit JsonValue(int64_t value);
  explicit JsonValue(double value);
  explicit JsonValue(std::string value);
  explicit JsonValue(Array value);
  explicit JsonValue(Object value);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // The value where it has that form, else null. Whole numbers of 64 bits with a sign are int64_t, all others
  // double.
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&value_); }
  const double* as_double() const { return std::get_if<double>(&value_); }
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  // The member of an object; null where this is none or has no such member.
  const JsonValue* find(std::string_view key) const;

 private:
  friend class JsonBuilder;

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Here, where the members of an object are known: clang wants to know how to destroy them.
inline JsonValue::JsonValue(bool value) : value_(value) {}
inline JsonValue::JsonValue(int64_t value) : value_(value) {}
inline JsonValue::JsonValue(double value) : value_(value) {}
inline JsonValue::JsonValue(std::string value) : value_(std::move(value)) {}
inline JsonValue::JsonValue(Array value) : value_(std::move(value)) {}
inline JsonValue::JsonValue(Object value) : value_(std::move(value)) {}

struct JsonLimits {
  size_t max_bytes = 64U << 20;
  size_t max_depth = 64;
};

// Parses `text`; every refusal is ErrorCode::format with `source` (a file name) and the byte offset.
JsonValue parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

// `text` as a JSON string with its quotes; bytes that are not UTF-8 come out as U+FFFD.
std::string json_quoted(std::string_view text);

// A JSON object together with the words that say where it came from. Borrowed: must not outlive the value.
class JsonView {
 public:
  JsonView(const JsonValue& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const JsonValue& raw() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_object() const { return value_->as_object() != nullptr; }
  bool is_array() const { return value_->as_array() != nullptr; }
  bool is_bool() const { return value_->as_bool() != nullptr; }
  bool is_null() const { return value_->is_null(); }

  // True where the key is there and not null.
  bool has(std::string_view key) const;
  // The member; throws ErrorCode::format naming the field where it is absent.
  JsonView at(std::string_view key) const;
  // The member, or nothing where it is absent or null.
  std::optional<JsonView> find(std::string_view key) const;
  // Those of an array or an object; throws ErrorCode::format where this is none.
  const JsonValue::Array& elements() const;
  const JsonValue::Object& members() const;
  std::vector<JsonView> items() const;  // of an array

  // Typed reads of this value; each throws ErrorCode::format naming the field and what was expected.
  int64_t as_int(int64_t min, int64_t max) const;
  double as_number(double min, double max) const;  // finite
  bool as_bool() const;
  const std::string& as_string() const;  // borrowed from the value

  // Typed reads of a member with a default for an absent or null one.
  int64_t int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
  double number_or(std::string_view key, double fallback, double min, double max) const;
  bool bool_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;

 private:
  [[noreturn]] void fail(std::string_view expected) const;

  const JsonValue* value_;
  std::string where_;
};

}  // namespace quire
