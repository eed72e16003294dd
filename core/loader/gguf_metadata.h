// Metadata of a GGUF file: keys with typed values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/gguf_cursor.h"

namespace quire {

// Types of values, as numbered in the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// Returns the size of a number; 0 for texts and arrays.
uint32_t gguf_type_bytes(GgufType type);

// One value. Its memory is at most its size in the file, or a small constant.
class GgufValue {
 public:
  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::array; }
  // Return the number of elements and their type; 1 and the type itself for a value that is no array.
  // Elements of nested arrays are not kept.
  uint64_t size() const { return size_; }
  GgufType element() const { return element_; }

  // Return an element as a number or a text; nothing if it has another type.
  std::optional<int64_t> integer(uint64_t index = 0) const;  // nothing also for a u64 that is too large
  std::optional<double> number(uint64_t index = 0) const;
  std::optional<bool> flag(uint64_t index = 0) const;
  std::optional<std::string_view> text(uint64_t index = 0) const;

 private:
  friend GgufValue read_gguf_value(GgufCursor& cursor, std::string_view key, std::string_view source);

  template <typename T>
  T at(uint64_t index) const;
  bool holds(uint64_t index) const { return index < size_; }

  GgufType type_ = GgufType::u8;
  GgufType element_ = GgufType::u8;
  uint64_t size_ = 0;
  std::string bytes_;           // numbers, or texts one after another
  std::vector<uint64_t> ends_;  // of texts, in bytes_
};

// Reads a type and a value. Throws ErrorCode::format or ErrorCode::truncated that names `source`, the key and
// the problem.
GgufValue read_gguf_value(GgufCursor& cursor, std::string_view key, std::string_view source);

// All keys of a file. Accessors throw ErrorCode::format naming the file and the key if a value has another
// type.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string source) : source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  // Throws ErrorCode::format if the key is there already.
  void add(std::string key, GgufValue value);
  size_t size() const { return values_.size(); }
  // Returns nullptr if there is no such key.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Throw also if the key is missing.
  int64_t require_integer(std::string_view key) const;
  std::string_view require_text(std::string_view key) const;
  // Returns an array whose elements are texts, or numbers if `element` is not `text`; nullptr if there is
  // none.
  const GgufValue* array(std::string_view key, bool of_texts) const;

 private:
  [[noreturn]] void refuse_type(std::string_view key, std::string_view wanted) const;
  [[noreturn]] void refuse_missing(std::string_view key) const;

  std::string source_;  // the file
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace quire
