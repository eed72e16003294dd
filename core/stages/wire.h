// Numbers, texts and lists as bytes of a message: little endian, lists and texts after their count (u32).
// A message is written and read by one list of its fields.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace quire {

static_assert(std::endian::native == std::endian::little, "messages have the byte order of the machine");

template <typename T>
concept WireNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class WireWriter {
 public:
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  void clear() { bytes_.clear(); }
  gsl::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <WireNumber T>
  void put(const T& number) {
    append(gsl::as_bytes(gsl::span<const T>(&number, 1)));
  }
  void put(const Sha256& digest) { append(gsl::as_bytes(gsl::span(digest))); }
  void put(const std::string& text) { put_list(gsl::span<const char>(text.data(), text.size())); }
  template <WireNumber T>
  void put(const std::vector<T>& list) {
    put_list(gsl::span<const T>(list));
  }
  template <typename T>
  void put_list(gsl::span<const T> list) {
    put(gsl::narrow<uint32_t>(list.size()));
    append(gsl::as_bytes(list));
  }
  void append(gsl::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> bytes_;
};

// Borrows the bytes. Throws ErrorCode::format if they end before a field does; a list takes no more memory
// than its bytes.
class WireReader {
 public:
  explicit WireReader(gsl::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  // Returns the bytes that no field has taken, and takes them.
  gsl::span<const std::byte> rest() { return take(rest_.size()); }
  // Throws ErrorCode::format if bytes are left.
  void finish() const {
    if (!rest_.empty()) throw Error(ErrorCode::format, "the message has {} bytes too many", rest_.size());
  }

 private:
  template <WireNumber T>
  void get(T& number) {
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
  }
  void get(bool& flag) {
    uint8_t byte = 0;
    get(byte);
    flag = byte != 0;
  }
  void get(Sha256& digest) { std::memcpy(digest.data(), take(digest.size()).data(), digest.size()); }
  void get(std::string& text) {
    const auto bytes = take(count());
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <WireNumber T>
  void get(std::vector<T>& list) {
    const auto bytes = take(count() * sizeof(T));
    list.resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  }
  size_t count() {
    uint32_t number = 0;
    get(number);
    return number;
  }
  gsl::span<const std::byte> take(size_t size) {
    if (size > rest_.size()) throw Error(ErrorCode::format, "the message ends early");
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  gsl::span<const std::byte> rest_;
};

}  // namespace quire
