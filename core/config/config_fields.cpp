#include "core/config/config_fields.h"

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxTokenIds = 1024;

}  // namespace

ConfigFields::ConfigFields(JsonView root) : root_(std::move(root)) {
  if (!root_.is_object()) throw Error(ErrorCode::format, "{} must be an object", root_.where());
  text_ = root_.find("text_config");
  if (text_ && !text_->is_object()) throw Error(ErrorCode::format, "{} must be an object", text_->where());
}

std::optional<JsonView> ConfigFields::find(const FieldNames& names) const {
  const auto find_in = [&names](const JsonView& view) -> std::optional<JsonView> {
    for (const std::string_view name : names) {
      if (name.empty()) break;
      if (auto value = view.find(name)) return value;
    }
    return std::nullopt;
  };
  if (auto value = find_in(root_)) return value;
  return text_ ? find_in(*text_) : std::nullopt;
}

bool ConfigFields::is_null(std::string_view name) const {
  const auto null_in = [name](const JsonView& view) {
    const JsonValue* const value = view.raw().find(name);
    return value != nullptr && value->is_null();
  };
  return !find(name) && (null_in(root_) || (text_ && null_in(*text_)));
}

int32_t ConfigFields::require_int(const IntField& field) const {
  if (const auto value = find(field.names)) return static_cast<int32_t>(value->as_int(field.min, field.max));
  throw Error(ErrorCode::format, "{}.{} is missing", where(), field.names.front());
}

int32_t ConfigFields::int_or(const IntField& field, int64_t fallback) const {
  const auto value = find(field.names);
  return static_cast<int32_t>(value ? value->as_int(field.min, field.max) : fallback);
}

double ConfigFields::number_or(const FieldNames& names, double fallback, double min, double max) const {
  const auto value = find(names);
  return value ? value->as_number(min, max) : fallback;
}

bool ConfigFields::bool_or(std::string_view name, bool fallback) const {
  const auto value = find(name);
  return value ? value->as_bool() : fallback;
}

std::string ConfigFields::string_or(const FieldNames& names, std::string_view fallback) const {
  const auto value = find(names);
  return value ? value->as_string() : std::string(fallback);
}

TokenIds read_token_ids(const JsonView& value, int32_t vocab_size) {
  const auto read_one = [vocab_size](const JsonView& id) {
    return static_cast<TokenId>(id.as_int(0, vocab_size - 1));
  };
  if (!value.is_array()) return {read_one(value)};
  if (value.elements().size() > kMaxTokenIds) {
    throw Error(ErrorCode::format, "{} has more than {} entries", value.where(), kMaxTokenIds);
  }
  TokenIds ids;
  for (const JsonView& item : value.items()) ids.push_back(read_one(item));
  return ids;
}

}  // namespace quire
