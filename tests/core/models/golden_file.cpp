#include "tests/core/models/golden_file.h"

#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/file_system.h"
#include "core/base/json.h"
#include "core/loader/safetensors_file.h"

namespace quire::testing {
namespace {

std::vector<std::byte> read_tensor(const SafetensorsFile& file, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  file.file().read_at(tensor.offset_bytes, bytes);
  return bytes;
}

const TensorInfo& find_tensor(const SafetensorsFile& file, const std::string& name) {
  if (const TensorInfo* tensor = file.find(name)) return *tensor;
  throw Error(ErrorCode::format, "{}: no tensor {}", file.path(), name);
}

TokenIds ids_of(const JsonView& list) {
  TokenIds ids;
  for (const JsonView& item : list.items()) ids.push_back(static_cast<TokenId>(item.as_int(0, INT32_MAX)));
  return ids;
}

}  // namespace

std::vector<float> read_floats(const std::string& path, const std::string& tensor) {
  const SafetensorsFile file(posix_file_system().open(path));
  const TensorInfo& info = find_tensor(file, tensor);
  const std::vector<std::byte> bytes = read_tensor(file, info);
  return to_floats({info.type->dtype.value(), info.shape, bytes}, tensor);
}

std::vector<float> read_floats_or_empty(const std::string& path, const std::string& tensor) {
  const SafetensorsFile file(posix_file_system().open(path));
  return file.find(tensor) == nullptr ? std::vector<float>() : read_floats(path, tensor);
}

TokenIds read_ids(const std::string& path, const std::string& tensor) {
  const SafetensorsFile file(posix_file_system().open(path));
  const std::vector<std::byte> bytes = read_tensor(file, find_tensor(file, tensor));
  TokenIds ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

std::vector<GoldenPrompt> read_golden_prompts(const std::string& path, const std::string& under,
                                              const std::string& engine) {
  const JsonValue json = parse_json(posix_file_system().read_text(path, 1U << 20), path);
  const JsonView whole(json, path);
  std::vector<GoldenPrompt> prompts;
  for (const auto& [prompt, value] : (under.empty() ? whole : whole.at(under)).members()) {
    if (value.as_object() == nullptr) continue;
    const JsonView view(value, path);
    if (!view.find("ids")) continue;  // about all prompts
    GoldenPrompt golden;
    golden.prompt = prompt;
    golden.ids = ids_of(view.at("ids"));
    golden.greedy = ids_of(view.at(engine + "greedy"));
    for (const JsonView& gap : view.at(engine + "gap").items()) {
      golden.gap.push_back(static_cast<float>(gap.as_number(0.0, 1e9)));
    }
    prompts.push_back(golden);
  }
  return prompts;
}

TokenIds read_json_ids(const std::string& path) {
  const JsonValue json = parse_json(posix_file_system().read_text(path, 16U << 20), path);
  return ids_of(JsonView(json, path));
}

GoldenPerplexity read_golden_perplexity(const std::string& path) {
  const JsonValue json = parse_json(posix_file_system().read_text(path, 16U << 20), path);
  const JsonView golden = JsonView(json, path).at("perplexity");
  return {ids_of(golden.at("ids")), golden.at("value").as_number(1.0, 1e9)};
}

std::string smollm2_directory() {
  const char* const named = std::getenv("QUIRE_SMOLLM2_DIR");
  std::string directory = named != nullptr ? named : std::string(QUIRE_SHARED_DIR) + "/models/smollm2";
  return exists(directory + "/model.safetensors") ? directory : "";
}

bool exists(const std::string& path) {
  return posix_file_system().is_file(path);
}

double relative_rms(const std::vector<float>& values, const std::vector<float>& reference) {
  if (values.size() != reference.size()) return INFINITY;
  double error = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - static_cast<double>(reference[i]);
    error += difference * difference;
    norm += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return std::sqrt(error / norm);
}

double golden_error(const std::vector<float>& logits, const std::string& path) {
  const std::vector<float> expected = read_floats(path, "logits");
  const TokenIds positions = read_ids(path, "positions");
  const size_t vocab = expected.size() / positions.size();
  std::vector<float> rows;
  for (const TokenId position : positions) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(position) * vocab);
    rows.insert(rows.end(), row, row + static_cast<ptrdiff_t>(vocab));
  }
  return relative_rms(rows, expected);
}

}  // namespace quire::testing
