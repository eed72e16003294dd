// Builds safetensors files for tests, valid and malformed ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quire::testing {

class SafetensorsBuilder {
 public:
  // Appends one tensor; its bytes follow those of the previous one.
  void add_bytes(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape,
                 std::string_view bytes);

  template <typename T>
  void add(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    add_bytes(name, dtype, shape,
              std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }

  // Returns the whole file.
  std::string build() const;

 private:
  std::string entries_;
  std::string data_;
};

// Returns a file with exactly this header text and data, whether valid or not.
std::string safetensors_file(std::string_view header, std::string_view data);

}  // namespace quire::testing
