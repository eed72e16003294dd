// Builds GGUF files, right or wrong: every count, length and offset can be set.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::testing {

// Appends the bytes of a number.
template <typename T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

struct GgufKey {
  std::string name;
  uint32_t type = 0;
  std::string bytes;                      // of the value
  std::optional<uint64_t> name_length{};  // as written; nothing: the length of `name`
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // fastest dimension first
  uint32_t type = 0;
  std::string data;
  std::optional<uint64_t> offset{};  // as written; nothing: behind the tensor before
  std::optional<uint32_t> rank{};    // as written; nothing: the size of `shape`
};

class GgufBuilder {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> num_tensors;
  uint64_t alignment = 32;
  std::vector<GgufKey> keys;
  std::vector<GgufTensor> tensors;

  static std::string text(std::string_view value) {
    std::string out;
    append(out, uint64_t{value.size()});
    return out.append(value);
  }

  GgufBuilder& add_u32(const std::string& name, uint32_t value) { return add_number(name, 4, value); }
  GgufBuilder& add_f32(const std::string& name, float value) { return add_number(name, 6, value); }
  GgufBuilder& add_flag(const std::string& name, bool value) {
    return add_number(name, 7, static_cast<uint8_t>(value ? 1 : 0));
  }
  GgufBuilder& add_text(const std::string& name, std::string_view value) { return add(name, 8, text(value)); }
  GgufBuilder& add_texts(const std::string& name, const std::vector<std::string>& values) {
    std::string bytes;
    append(bytes, uint32_t{8});
    append(bytes, uint64_t{values.size()});
    for (const std::string& value : values) bytes += text(value);
    return add(name, 9, bytes);
  }
  // `type` is the GGUF number of T.
  template <typename T>
  GgufBuilder& add_numbers(const std::string& name, uint32_t type, const std::vector<T>& values) {
    std::string bytes;
    append(bytes, type);
    append(bytes, uint64_t{values.size()});
    for (const T value : values) append(bytes, value);
    return add(name, 9, bytes);
  }
  GgufBuilder& add(const std::string& name, uint32_t type, std::string bytes) {
    keys.push_back({name, type, std::move(bytes)});
    return *this;
  }
  GgufBuilder& add_tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type,
                          std::string data) {
    tensors.push_back({name, std::move(shape), type, std::move(data)});
    return *this;
  }
  GgufBuilder& add_floats(const std::string& name, std::vector<uint64_t> shape,
                          const std::vector<float>& values) {
    std::string data(values.size() * sizeof(float), '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return add_tensor(name, std::move(shape), 0, std::move(data));
  }

  // Returns the bytes before the data, without padding.
  std::string header() const {
    std::string out = magic;
    append(out, version);
    append(out, num_tensors.value_or(tensors.size()));
    append(out, num_keys.value_or(keys.size()));
    for (const GgufKey& key : keys) {
      append(out, key.name_length.value_or(key.name.size()));
      out += key.name;
      append(out, key.type);
      out += key.bytes;
    }
    uint64_t next = 0;
    for (const GgufTensor& tensor : tensors) {
      out += text(tensor.name);
      append(out, tensor.rank.value_or(static_cast<uint32_t>(tensor.shape.size())));
      for (const uint64_t extent : tensor.shape) append(out, extent);
      append(out, tensor.type);
      append(out, tensor.offset.value_or(next));
      next = padded(next + tensor.data.size());
    }
    return out;
  }

  std::string build() const {
    std::string out = header();
    out.resize(padded(out.size()));
    const size_t first = out.size();
    for (const GgufTensor& tensor : tensors) {
      out.resize(first + padded(out.size() - first));
      out += tensor.data;
    }
    return out;
  }

 private:
  uint64_t padded(uint64_t size) const { return (size + alignment - 1) / alignment * alignment; }
  template <typename T>
  GgufBuilder& add_number(const std::string& name, uint32_t type, T value) {
    std::string bytes;
    append(bytes, value);
    return add(name, type, bytes);
  }
};

}  // namespace quire::testing
