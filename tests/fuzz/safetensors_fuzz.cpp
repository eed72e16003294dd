// Any bytes as a model's only weight file: refused with an Error, or every tensor reads and every layer that
// loads keeps the promises of kernels/interface/weight_source.h.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/loader/load_linear.h"
#include "core/loader/weight_summary.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

// Trusting what the file says of a layer's sizes, as a hostile configuration would.
LinearRequest request_for(const WeightDirectory& directory, const std::string& key) {
  const auto extent = [&](std::string_view suffix, size_t index) -> int32_t {
    const auto* entry = directory.find(key + std::string(suffix));
    if (!entry || index >= entry->tensor->shape.size()) return 0;
    const int64_t value = entry->tensor->shape[index];
    return value <= (1 << 24) ? static_cast<int32_t>(value) : 0;
  };
  LinearRequest request;
  request.key = key;
  if (directory.has(key + ".q_weight")) {
    request.num_in = extent(".q_invperm", 0);
    request.num_out = extent(".q_weight", 1);
  } else if (directory.has(key + ".qweight")) {
    request.num_in = extent(".qweight", 0) * 8;
    request.num_out = extent(".qweight", 1);
  } else {
    request.num_in = extent(".weight", 1);
    request.num_out = extent(".weight", 0);
    request.fp8_block_out = 2;
    request.fp8_block_in = 3;
  }
  return request;
}

void load_layer(WeightReader& reader, const std::string& key) {
  const LinearRequest request = request_for(reader.directory(), key);
  if (request.num_in < 1 || request.num_out < 1) return;
  const LinearWeight weight = load_linear(reader, request);
  const kernels::WeightSource source = weight.source();
  if (!testing::find_defect(source).empty()) std::abort();
  if (int64_t{source.num_in} * source.num_out <= 65536) testing::dequantize_reference(source);
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
      load_layer(reader, name.substr(0, name.rfind('.')));
    } catch (const Error&) {  // one tensor that cannot be read says nothing about the next
    }
  }
  summarize_weights(directory, "model.layers.");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  try {
    quire::run(std::string(reinterpret_cast<const char*>(data), num_bytes));
  } catch (const quire::Error&) {  // the one way to refuse
  }
  return 0;
}
