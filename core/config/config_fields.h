// Look-ups in config.json by any of the names that families give a field, at the top and in the objects
// within.
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

// The names of one field, first hit wins; the unused ones are empty.
using FieldNames = std::array<std::string_view, 5>;

// A whole number and its range.
struct IntField {
  FieldNames names;
  int64_t min = 0;
  int64_t max = 0;
};

// Borrows the JSON value it is made of. All errors are ErrorCode::format and name the field.
class ConfigFields {
 public:
  explicit ConfigFields(JsonView root);

  const std::string& where() const { return root_.where(); }
  // The value of the first name that is there and not null.
  std::optional<JsonView> find(const FieldNames& names) const;
  std::optional<JsonView> find(std::string_view name) const { return find(FieldNames{name}); }
  // True where the field is there as null.
  bool is_null(std::string_view name) const;

  int32_t require_int(const IntField& field) const;
  int32_t int_or(const IntField& field, int64_t fallback) const;
  double number_or(const FieldNames& names, double fallback, double min, double max) const;
  bool bool_or(std::string_view name, bool fallback) const;
  std::string string_or(const FieldNames& names, std::string_view fallback) const;

 private:
  JsonView root_;
  std::vector<JsonView> nested_;
};

// One token id or a list of them, each within the vocabulary.
TokenIds read_token_ids(const JsonView& value, int32_t vocab_size);

}  // namespace quire
