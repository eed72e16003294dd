#include "core/config/config_fields.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/class_defaults.h"

namespace quire {

std::string path_in(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}
namespace {

constexpr size_t kMaxTokenIds = 1024;

// Objects whose fields are treated like top-level fields: the text part of a multimodal model, and the parts
// of DBRX.
constexpr std::array<std::string_view, 4> kNested = {"text_config", "llm_config", "attn_config",
                                                     "ffn_config"};

// Returns "; other names of it are n_layers, n_layer", for error messages.
std::string other_names(const FieldNames& names) {
  std::string others;
  for (size_t i = 1; i < names.size() && !names[i].empty(); ++i)
    others += fmt::format("{}{}", others.empty() ? "; other names of it are " : ", ", names[i]);
  return others;
}

}  // namespace

ConfigFields::ConfigFields(JsonView root) : root_(std::move(root)) {
  if (!root_.is_object()) throw Error(ErrorCode::format, "{} must be an object", root_.where());
  for (const std::string_view name : kNested) {
    auto inner = root_.find(name);
    if (!inner) continue;
    if (!inner->is_object()) throw Error(ErrorCode::format, "{} must be an object", inner->where());
    if (const auto type = inner->find("model_type"); type && text_type_.empty())
      text_type_ = type->as_string();
    nested_.push_back(*std::move(inner));
  }
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
  for (const JsonView& inner : nested_) {
    if (auto value = find_in(inner)) return value;
  }
  return std::nullopt;
}

bool ConfigFields::is_null(std::string_view name) const {
  const auto null_in = [name](const JsonView& view) {
    const JsonValue* const value = view.raw().find(name);
    return value != nullptr && value->is_null();
  };
  return !find(name) && (null_in(root_) || std::any_of(nested_.begin(), nested_.end(), null_in));
}

int32_t ConfigFields::require_int(const IntField& field) const {
  if (const auto value = find(field.names)) return static_cast<int32_t>(value->as_int(field.min, field.max));
  if (const auto value = find_class_default(field)) return *value;
  throw Error(ErrorCode::format, "{}.{} is missing{}", where(), field.names.front(),
              other_names(field.names));
}

int32_t ConfigFields::int_or(const IntField& field, int64_t fallback) const {
  if (const auto value = find(field.names)) return static_cast<int32_t>(value->as_int(field.min, field.max));
  return find_class_default(field).value_or(static_cast<int32_t>(fallback));
}

std::optional<int32_t> ConfigFields::find_class_default(const IntField& field) const {
  const auto is_set_to_null = [this](std::string_view name) { return !name.empty() && is_null(name); };
  if (text_type_.empty() || std::any_of(field.names.begin(), field.names.end(), is_set_to_null))
    return std::nullopt;
  return class_default(text_type_, field.names.front());
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
  TokenIds ids;
  const auto read_one = [&](const JsonView& view) {
    const int64_t id = view.as_int(-1, vocab_size - 1);
    if (id >= 0) ids.push_back(static_cast<TokenId>(id));
  };
  if (!value.is_array()) {
    read_one(value);
    return ids;
  }
  if (value.elements().size() > kMaxTokenIds) {
    throw Error(ErrorCode::format, "{} has more than {} entries", value.where(), kMaxTokenIds);
  }
  for (const JsonView& item : value.items()) read_one(item);
  return ids;
}

}  // namespace quire
