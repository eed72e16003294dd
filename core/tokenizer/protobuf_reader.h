// Reads the fields of a protobuf message in sequence; SentencePiece models are protobuf files. Strict: fields
// that do not fit into the message throw ErrorCode::format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

class ProtobufReader {
 public:
  // `where` names the message in errors. Both must outlive the reader.
  ProtobufReader(std::string_view message, std::string_view where) : message_(message), where_(where) {}

  // Advances to the next field; returns false at the end. A value can be read by the functions below or
  // skipped.
  bool next();
  uint32_t field() const { return field_; }

  // Return the value; throw ErrorCode::format if the field has another wire type.
  uint64_t integer() const;
  bool flag() const { return integer() != 0; }
  float number() const;
  std::string_view bytes() const;

 private:
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint64_t read_varint();
  uint64_t read_fixed(size_t num_bytes);
  void require(Wire wire) const;
  [[noreturn]] void fail(std::string_view what) const;

  std::string_view message_;
  std::string_view where_;
  size_t pos_ = 0;
  uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace quire
