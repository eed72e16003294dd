#include "core/tokenizer/protobuf_reader.h"

#include <bit>

#include "core/base/error.h"

namespace quire {

bool ProtobufReader::next() {
  if (pos_ == message_.size()) return false;
  const uint64_t key = read_varint();
  if (key >> 3 == 0 || key >> 3 > UINT32_MAX) fail("a field number out of range");
  field_ = static_cast<uint32_t>(key >> 3);
  wire_ = static_cast<Wire>(key & 7);
  switch (wire_) {
    case Wire::varint:
      value_ = read_varint();
      return true;
    case Wire::fixed64:
      value_ = read_fixed(8);
      return true;
    case Wire::fixed32:
      value_ = read_fixed(4);
      return true;
    case Wire::bytes:
      value_ = read_varint();
      if (value_ > message_.size() - pos_) fail("a length past the end");
      bytes_ = message_.substr(pos_, value_);
      pos_ += value_;
      return true;
  }
  fail("an unknown wire type");
}

uint64_t ProtobufReader::integer() const {
  require(Wire::varint);
  return value_;
}

float ProtobufReader::number() const {
  require(Wire::fixed32);
  return std::bit_cast<float>(static_cast<uint32_t>(value_));
}

std::string_view ProtobufReader::bytes() const {
  require(Wire::bytes);
  return bytes_;
}

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (pos_ == message_.size()) fail("a truncated number");
    const auto byte = static_cast<unsigned char>(message_[pos_++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

uint64_t ProtobufReader::read_fixed(size_t num_bytes) {
  if (message_.size() - pos_ < num_bytes) fail("a truncated number");
  uint64_t value = 0;
  for (size_t i = 0; i < num_bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(message_[pos_ + i])) << (8 * i);
  }
  pos_ += num_bytes;
  return value;
}

void ProtobufReader::require(Wire wire) const {
  if (wire_ != wire) fail("an unexpected wire type");
}

void ProtobufReader::fail(std::string_view what) const {
  throw Error(ErrorCode::format, "{}: not a SentencePiece model: {} at field {}, byte {}", where_, what,
              field_, pos_);
}

}  // namespace quire
