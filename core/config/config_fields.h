// Look-ups in config.json under any of the names that families use for a field, at the top level and in
// nested objects such as text_config.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"

namespace quire {

// Limits of the JSON files that describe a model.
inline constexpr JsonLimits kConfigLimits = {.max_bytes = 4U << 20, .max_depth = 32, .python_numbers = true};

// Returns the path of a file for messages and reads; the name alone without a directory.
std::string path_in(const std::string& directory, std::string_view name);

// The names of one field; the first one present is used. Unused entries are empty.
using FieldNames = std::array<std::string_view, 6>;

// The names of an integer field and its range.
struct IntField {
  FieldNames names;
  int64_t min = 0;
  int64_t max = 0;
};

// A reader of fields in config.json. It borrows the JSON value. All errors are ErrorCode::format and name the
// field.
class ConfigFields {
 public:
  explicit ConfigFields(JsonView root);

  const std::string& where() const { return root_.where(); }
  // Returns the value of the first name that is present and not null.
  std::optional<JsonView> find(const FieldNames& names) const;
  std::optional<JsonView> find(std::string_view name) const { return find(FieldNames{name}); }
  // True if the field is present and null.
  bool is_null(std::string_view name) const;

  // An absent field of a text part has the default of its configuration class (class_defaults.h).
  int32_t require_int(const IntField& field) const;
  int32_t int_or(const IntField& field, int64_t fallback) const;
  double number_or(const FieldNames& names, double fallback, double min, double max) const;
  bool bool_or(std::string_view name, bool fallback) const;
  std::string string_or(const FieldNames& names, std::string_view fallback) const;

 private:
  std::optional<int32_t> find_class_default(const IntField& field) const;

  JsonView root_;
  std::vector<JsonView> nested_;
  std::string text_type_;  // model_type of the text part; empty if there is none
};

// Reads one token id or a list of them, each within the vocabulary. -1, which some exporters write, means
// none.
TokenIds read_token_ids(const JsonView& value, int32_t vocab_size);

}  // namespace quire
