// Any bytes as a model's only weight file: the result is an Error, or every tensor can be read and every
// loaded layer meets the requirements of kernels/interface/weight_source.h.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/loader/weight_formats.h"
#include "core/loader/weight_summary.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

constexpr int64_t kMaxReferenceWeights = 16384;

// Trusts the sizes in the file, as with a malicious configuration.
LinearRequest request_for(const WeightDirectory& directory, const std::string& key) {
  LinearRequest request;
  request.key = key;
  const FormatRow* format = find_format(LayerTensors(directory, key));
  if (format == nullptr) return request;
  const std::vector<int64_t> shape = format->describe(LayerTensors(directory, key));
  if (shape.size() < 2 || shape.size() > 3) return request;
  const auto size = [](int64_t extent) {
    return extent > 0 && extent <= (1 << 24) ? static_cast<int32_t>(extent) : 0;
  };
  request.num_out = size(shape[shape.size() - 2]);
  request.num_in = size(shape.back());
  if (shape.size() == 3) request.part.num_experts = size(shape.front());
  return request;
}

void load_layer(WeightReader& reader, const std::string& key) {
  const LinearRequest request = request_for(reader.directory(), key);
  if (request.num_in < 1 || request.num_out < 1) return;
  QuantizationConfig quantization;
  quantization.scheme.block_out = 2;
  quantization.scheme.block_in = 3;
  quantization.bitnet_scale = BitNetScale::divides;
  const LinearWeight weight = load_linear(reader, request, quantization);
  const kernels::WeightSource source = weight.source();
  if (!testing::find_defect(source).empty()) std::abort();
  // The slow reference takes most of the time of larger matrices.
  if (int64_t{source.num_in} * source.num_out <= kMaxReferenceWeights) testing::dequantize_reference(source);
}

void run(std::string bytes) {
  testing::MemoryFileSystem files;
  files.write("m/a.safetensors", std::move(bytes));
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  WeightReader reader(directory);
  for (const WeightDirectory::Entry& entry : directory.entries()) {
    const std::string& name = entry.tensor->name;
    try {
      reader.read(name);
      const auto owner = find_owner(directory, name);
      load_layer(reader, owner ? owner->key : name.substr(0, name.rfind('.')));
    } catch (const Error&) {  // tensors after one that cannot be read are tested too
    }
  }
  summarize_weights(directory, "model.layers.");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  try {
    quire::run(std::string(reinterpret_cast<const char*>(data), num_bytes));
  } catch (const quire::Error&) {  // the only permitted exception
  }
  return 0;
}
