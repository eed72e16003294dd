// Strict JSON for untrusted files: limited size and depth, no duplicate keys at any level, and typed look-ups
// whose errors name the file and the path of the field.
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

// A value of a parsed file; immutable. Destroying a tree allocates no memory, unlike the trees of the usual
// JSON libraries, so a load that runs out of memory can free it. Only copy() copies a value: if memory runs
// out in the copy constructor of its variant, libstdc++ 12 destroys an alternative that was never
// constructed.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  // Members in the order of the file: tokenizers depend on the order of added tokens and merges.
  using Object = std::vector<JsonMember>;

  JsonValue() = default;  // null
  JsonValue(const JsonValue&) = delete;
  JsonValue& operator=(const JsonValue&) = delete;
  JsonValue(JsonValue&&) noexcept = default;
  JsonValue& operator=(JsonValue&&) noexcept = default;
  // Uses no recursion, however deep the value is.
  ~JsonValue();
  explicit JsonValue(bool value);
  explicit JsonValue(int64_t value);
  explicit JsonValue(double value);
  explicit JsonValue(std::string value);
  explicit JsonValue(Array value);
  explicit JsonValue(Object value);

  JsonValue copy() const;
  // Returns a copy of an object with one more member.
  JsonValue copy_with(std::string_view key, JsonValue value) const;
  // Return the contents of an array or an object, moved out of this value; empty for another type.
  Array take_array() &&;
  Object take_object() &&;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // Each returns the value if it has that type, otherwise null. Integers that fit in int64_t are int64_t; all
  // other numbers are double.
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&value_); }
  const double* as_double() const { return std::get_if<double>(&value_); }
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  // Returns the member of an object; null if this is not an object or has no such member.
  const JsonValue* find(std::string_view key) const;

 private:
  friend class JsonBuilder;

  static constexpr size_t kFirstContainer = 5;  // alternatives from here on have values in them

  void clear() noexcept;
  JsonValue* last() noexcept;
  void drop_last() noexcept;

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Defined here, where JsonMember is complete: clang needs its destructor.
inline JsonValue::~JsonValue() {
  if (value_.index() >= kFirstContainer) clear();
}
inline JsonValue::JsonValue(bool value) : value_(value) {}
inline JsonValue::JsonValue(int64_t value) : value_(value) {}
inline JsonValue::JsonValue(double value) : value_(value) {}
inline JsonValue::JsonValue(std::string value) : value_(std::move(value)) {}
inline JsonValue::JsonValue(Array value) : value_(std::move(value)) {}
inline JsonValue::JsonValue(Object value) : value_(std::move(value)) {}

inline JsonValue::Array JsonValue::take_array() && {
  Array* array = std::get_if<Array>(&value_);
  return array == nullptr ? Array() : std::move(*array);
}
inline JsonValue::Object JsonValue::take_object() && {
  Object* object = std::get_if<Object>(&value_);
  return object == nullptr ? Object() : std::move(*object);
}

struct JsonLimits {
  size_t max_bytes = 64U << 20;
  size_t max_depth = 64;
  // Accept what Python's json module writes and JSON does not allow: NaN, Infinity, -Infinity, and numbers
  // beyond a double, which become infinities.
  bool python_numbers = false;
};

// Parses `text`. Throws ErrorCode::format with `source` (a file name) and the byte offset.
JsonValue parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

// Returns `text` as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD.
std::string json_quoted(std::string_view text);

// A JSON value together with the description of its place, for error messages. Borrowed: must not outlive the
// value.
class JsonView {
 public:
  JsonView(const JsonValue& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const JsonValue& raw() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_object() const { return value_->as_object() != nullptr; }
  bool is_array() const { return value_->as_array() != nullptr; }
  bool is_bool() const { return value_->as_bool() != nullptr; }
  bool is_null() const { return value_->is_null(); }

  // True if the key is present and not null.
  bool has(std::string_view key) const;
  // Returns the member; throws ErrorCode::format naming the field if it is missing.
  JsonView at(std::string_view key) const;
  // Returns the member, or nothing if it is missing or null.
  std::optional<JsonView> find(std::string_view key) const;
  // Return the contents of an array or an object; throw ErrorCode::format if this is not one.
  const JsonValue::Array& elements() const;
  const JsonValue::Object& members() const;
  std::vector<JsonView> items() const;  // of an array

  // Typed reads of this value; each throws ErrorCode::format naming the field and the expected type.
  int64_t as_int(int64_t min, int64_t max) const;
  double as_number(double min, double max) const;  // finite
  bool as_bool() const;
  const std::string& as_string() const;  // borrowed from the value

  // Typed reads of a member; return `fallback` if it is missing or null.
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
