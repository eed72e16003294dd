#include "tests/support/safetensors_builder.h"

#include <fmt/format.h>

namespace quire::testing {

void SafetensorsBuilder::add_bytes(const std::string& name, std::string_view dtype,
                                   const std::vector<int64_t>& shape, std::string_view bytes) {
  if (!entries_.empty()) entries_ += ",";
  entries_ += fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype,
                          fmt::join(shape, ","), data_.size(), data_.size() + bytes.size());
  data_ += bytes;
}

std::string SafetensorsBuilder::build() const {
  return safetensors_file("{" + entries_ + "}", data_);
}

std::string safetensors_file(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  file += data;
  return file;
}

}  // namespace quire::testing
