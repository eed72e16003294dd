#include "capi/cli/tensor_file.h"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "capi/cli/failure.h"

namespace quire::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// Returns the header length as 8 bytes, then the header, padded with spaces so that the data starts aligned.
std::string make_header(const std::string& tensor_name, int64_t num_rows, int64_t num_columns,
                        size_t num_bytes) {
  nlohmann::ordered_json header;
  header[tensor_name] = {
      {"dtype", "F32"}, {"shape", {num_rows, num_columns}}, {"data_offsets", {size_t{0}, num_bytes}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  char prefix[sizeof length];
  std::memcpy(prefix, &length, sizeof length);
  return std::string(prefix, sizeof length) + text;
}

}  // namespace

void write_tensor_file(const std::string& path, const std::string& tensor_name, int64_t num_rows,
                       int64_t num_columns, const std::vector<float>& values) {
  const std::string partial = path + ".partial";
  const auto fail = [&] {
    const std::string why = std::strerror(errno);
    unlink(partial.c_str());
    throw Failure(kExitFailed, "cannot write " + path + ": " + why);
  };
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) fail();
  const std::string header = make_header(tensor_name, num_rows, num_columns, values.size() * sizeof(float));
  bool written = std::fwrite(header.data(), 1, header.size(), file) == header.size();
  written = written && std::fwrite(values.data(), sizeof(float), values.size(), file) == values.size();
  written = std::fclose(file) == 0 && written;
  if (!written || std::rename(partial.c_str(), path.c_str()) != 0) fail();
}

}  // namespace quire::cli
