#include "core/loader/gguf_metadata.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;
// Arrays within arrays; no program writes more than one level.
constexpr int32_t kMaxNesting = 4;

GgufType take_type(GgufCursor& cursor, std::string_view what, std::string_view source) {
  const auto number = cursor.take<uint32_t>(what);
  if (number <= static_cast<uint32_t>(GgufType::f64)) return static_cast<GgufType>(number);
  throw Error(ErrorCode::format, "{}: {} has the type {}, which GGUF does not define", source, what, number);
}

// Skips the elements of an array of arrays. `depth` is bounded by kMaxNesting.
void skip_arrays(GgufCursor& cursor, uint64_t count, std::string_view what, std::string_view source,
                 int32_t depth) {
  if (depth > kMaxNesting)
    throw Error(ErrorCode::format, "{}: {} nests arrays more than {} deep", source, what, kMaxNesting);
  constexpr uint64_t kLeastBytes = sizeof(uint32_t) + sizeof(uint64_t);
  cursor.require(checked_mul(count, kLeastBytes, source), what);
  for (uint64_t i = 0; i < count; ++i) {
    const GgufType element = take_type(cursor, what, source);
    const auto inner = cursor.take<uint64_t>(what);
    if (element == GgufType::array) {
      skip_arrays(cursor, inner, what, source, depth + 1);
    } else if (element == GgufType::text) {
      cursor.require(checked_mul(inner, uint64_t{sizeof(uint64_t)}, source), what);
      for (uint64_t j = 0; j < inner; ++j) cursor.skip(cursor.take<uint64_t>(what), what);
    } else {
      cursor.skip(checked_mul(inner, uint64_t{gguf_type_bytes(element)}, source), what);
    }
  }
}

}  // namespace

uint32_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::text:
    case GgufType::array:
      return 0;
  }
  return 0;
}

GgufValue read_gguf_value(GgufCursor& cursor, std::string_view key, std::string_view source) {
  const std::string what = fmt::format("the value of \"{}\"", printable(key));
  const std::string where = fmt::format("{}: {}", source, what);
  GgufValue value;
  value.type_ = value.element_ = take_type(cursor, what, source);
  value.size_ = 1;
  if (value.is_array()) {
    value.element_ = take_type(cursor, what, source);
    value.size_ = cursor.take<uint64_t>(what);
  }
  if (value.element_ == GgufType::array) {
    skip_arrays(cursor, value.size_, what, source, 1);
  } else if (value.element_ == GgufType::text) {
    cursor.require(checked_mul(value.size_, uint64_t{sizeof(uint64_t)}, where), what);
    value.ends_.reserve(static_cast<size_t>(value.size_));
    for (uint64_t i = 0; i < value.size_; ++i) {
      value.bytes_ += cursor.take_text(kMaxTextBytes, what);
      value.ends_.push_back(value.bytes_.size());
    }
    value.bytes_.shrink_to_fit();
  } else {
    value.bytes_ =
        cursor.take_raw(checked_mul(value.size_, uint64_t{gguf_type_bytes(value.element_)}, where), what);
  }
  return value;
}

template <typename T>
T GgufValue::at(uint64_t index) const {
  T value{};
  std::memcpy(&value, bytes_.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> GgufValue::integer(uint64_t index) const {
  if (!holds(index)) return std::nullopt;
  switch (element_) {
    case GgufType::u8:
      return at<uint8_t>(index);
    case GgufType::i8:
      return at<int8_t>(index);
    case GgufType::u16:
      return at<uint16_t>(index);
    case GgufType::i16:
      return at<int16_t>(index);
    case GgufType::u32:
      return at<uint32_t>(index);
    case GgufType::i32:
      return at<int32_t>(index);
    case GgufType::i64:
      return at<int64_t>(index);
    case GgufType::u64: {
      const auto wide = at<uint64_t>(index);
      return wide > INT64_MAX ? std::nullopt : std::optional(static_cast<int64_t>(wide));
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::number(uint64_t index) const {
  if (!holds(index)) return std::nullopt;
  if (element_ == GgufType::f32) return at<float>(index);
  if (element_ == GgufType::f64) return at<double>(index);
  const auto whole = integer(index);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufValue::flag(uint64_t index) const {
  if (!holds(index) || element_ != GgufType::boolean) return std::nullopt;
  return at<uint8_t>(index) != 0;
}

std::optional<std::string_view> GgufValue::text(uint64_t index) const {
  if (!holds(index) || element_ != GgufType::text) return std::nullopt;
  const uint64_t first = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(first, ends_[index] - first);
}

void GgufMetadata::add(std::string key, GgufValue value) {
  const auto [it, is_new] = values_.try_emplace(std::move(key), std::move(value));
  if (!is_new)
    throw Error(ErrorCode::format, "{}: the key \"{}\" appears twice", source_, printable(it->first));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

void GgufMetadata::refuse_type(std::string_view key, std::string_view wanted) const {
  throw Error(ErrorCode::format, "{}: \"{}\" is not {}", source_, printable(key), wanted);
}

void GgufMetadata::refuse_missing(std::string_view key) const {
  throw Error(ErrorCode::format, "{}: the key \"{}\" is missing", source_, printable(key));
}

std::optional<int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto whole = value->is_array() ? std::nullopt : value->integer();
  if (!whole) refuse_type(key, "a whole number");
  return whole;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->is_array() ? std::nullopt : value->number();
  if (!number || !std::isfinite(*number)) refuse_type(key, "a finite number");
  return number;
}

std::optional<bool> GgufMetadata::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto flag = value->is_array() ? std::nullopt : value->flag();
  if (!flag) refuse_type(key, "true or false");
  return flag;
}

std::optional<std::string_view> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto text = value->is_array() ? std::nullopt : value->text();
  if (!text) refuse_type(key, "a text");
  return text;
}

int64_t GgufMetadata::require_integer(std::string_view key) const {
  const auto whole = integer(key);
  if (!whole) refuse_missing(key);
  return *whole;
}

std::string_view GgufMetadata::require_text(std::string_view key) const {
  const auto found = text(key);
  if (!found) refuse_missing(key);
  return *found;
}

const GgufValue* GgufMetadata::array(std::string_view key, bool of_texts) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const bool is_text = value->element() == GgufType::text;
  if (!value->is_array() || value->element() == GgufType::array || is_text != of_texts)
    refuse_type(key, of_texts ? "an array of texts" : "an array of numbers");
  return value;
}

}  // namespace quire
