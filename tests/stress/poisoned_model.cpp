#include "tests/stress/poisoned_model.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

namespace quire::testing {
namespace {

constexpr uint16_t kHalfNaN = 0x7e00;

// Position and length, in bytes, of the row of a token in a safetensors file.
struct Row {
  std::streamoff start;
  size_t bytes;
};

Row find_row(std::fstream& file, int32_t token) {
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  const auto table = nlohmann::json::parse(header).at("model.embed_tokens.weight");
  if (table.at("dtype") != "F16") throw std::runtime_error("the embedding table is not F16");
  const size_t bytes = table.at("shape").at(1).get<size_t>() * sizeof(uint16_t);
  const auto table_start = table.at("data_offsets").at(0).get<size_t>();
  return {static_cast<std::streamoff>(sizeof header_bytes + header_bytes + table_start +
                                      static_cast<size_t>(token) * bytes),
          bytes};
}

void poison_row(const std::string& path, int32_t token) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const Row row = find_row(file, token);
  const std::vector<uint16_t> poison(row.bytes / sizeof(uint16_t), kHalfNaN);
  file.seekp(row.start);
  file.write(reinterpret_cast<const char*>(poison.data()), static_cast<std::streamsize>(row.bytes));
  if (!file.flush()) throw std::runtime_error("cannot poison " + path);
}

}  // namespace

PoisonedModel::PoisonedModel() {
  std::filesystem::copy(QUIRE_EMBEDDED_MODEL, directory_.path(), std::filesystem::copy_options::recursive);
  poison_row(directory_.file("output.safetensors"), kPoison);
}

}  // namespace quire::testing
