#include "tests/core/models/stored_model.h"

#include <algorithm>
#include <cstring>

#include "tests/core/models/transformer_runner.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

std::vector<StoredTensor> read_tensors(const std::string& path) {
  constexpr size_t kPrefixBytes = 8;
  const std::string file = posix_file_system().read_text(path, 64 << 20);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kPrefixBytes);
  const Json header = Json::parse(file.substr(kPrefixBytes, header_bytes));
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<size_t>>();
    tensors.push_back({name, entry["dtype"], entry["shape"],
                       file.substr(kPrefixBytes + header_bytes + offsets[0], offsets[1] - offsets[0])});
  }
  return tensors;
}

}  // namespace

StoredTensor& StoredModel::tensor(const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const auto& tensor) { return tensor.name == name; });
}

StoredTensor StoredModel::take(const std::string& name) {
  StoredTensor& place = tensor(name);
  StoredTensor taken = std::move(place);
  tensors.erase(tensors.begin() + (&place - tensors.data()));
  return taken;
}

std::string layer_name(int layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part;
}

void fuse(StoredModel& model, const std::vector<std::string>& parts, const std::string& fused) {
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    for (const char* ending : {".weight", ".bias"}) {
      const std::string first = layer_name(layer, parts.front() + ending);
      if (std::none_of(model.tensors.begin(), model.tensors.end(),
                       [&](const StoredTensor& tensor) { return tensor.name == first; }))
        continue;
      StoredTensor whole = model.take(first);
      whole.name = layer_name(layer, fused + ending);
      for (size_t i = 1; i < parts.size(); ++i) {
        const StoredTensor part = model.take(layer_name(layer, parts[i] + ending));
        whole.shape[0] += part.shape[0];
        whole.bytes += part.bytes;
      }
      model.tensors.push_back(std::move(whole));
    }
  }
}

StoredModel read_stored_model(const std::string& directory) {
  return {Json::parse(posix_file_system().read_text(directory + "/config.json", 1 << 20)),
          read_tensors(directory + "/model.safetensors")};
}

std::shared_ptr<const Model> load_stored_model(const StoredModel& model) {
  SafetensorsBuilder builder;
  for (const StoredTensor& tensor : model.tensors)
    builder.add_bytes(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  MemoryFileSystem files;
  files.write("model/config.json", model.config.dump());
  files.write("model/model.safetensors", builder.build());
  ModelOptions options;
  options.source = open_model_source(files, "model");
  options.devices = {open_test_device()};
  return Model::load(options);
}

}  // namespace quire::testing
