// Tensors of one layer in a file, which a test may modify before it is loaded.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/loader/load_linear.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/quantized_fixture.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {

class LayerFiles {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;

    template <typename T>
    void set(size_t index, T value) {
      std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
    }
  };

  explicit LayerFiles(const WeightFixture& weight) {
    SafetensorsBuilder builder;
    add_weight(builder, "layer", weight);
    MemoryFileSystem files;
    files.write("m/a.safetensors", builder.build());
    const SafetensorsFile file(files.open("m/a.safetensors"));
    for (const TensorInfo& info : file.tensors()) {
      std::string bytes(info.size_bytes, '\0');
      file.file().read_at(info.offset_bytes,
                          gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
      tensors_[info.name.substr(6)] = {std::string(info.type->name), info.shape, bytes};
    }
    request_.key = "layer";
    request_.num_in = weight.num_in;
    request_.num_out = weight.num_out;
    request_.prescale = weight.prescale;
    quantization_.gptq_v2 = weight.zero_offset == 0;
    quantization_.scheme.block_out = weight.scale_out;
    quantization_.scheme.block_in = weight.scale_in;
  }

  Tensor& operator[](const std::string& suffix) { return tensors_[suffix]; }
  void remove(const std::string& suffix) { tensors_.erase(suffix); }
  template <typename T>
  void replace(const std::string& suffix, std::string dtype, std::vector<int64_t> shape,
               const std::vector<T>& values) {
    tensors_[suffix] = {std::move(dtype), std::move(shape),
                        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
  }
  LinearRequest& request() { return request_; }
  QuantizationConfig& quantization() { return quantization_; }

  LinearWeight load() const {
    LinearWeight loaded;
    while_open([&loaded](LinearWeight& weight) { loaded = std::move(weight); });
    return loaded;
  }
  // Calls `use` with the weight, whose bytes may still be in the file.
  template <typename Use>
  void while_open(Use use) const {
    SafetensorsBuilder builder;
    for (const auto& [suffix, tensor] : tensors_) {
      builder.add_bytes("layer." + suffix, tensor.dtype, tensor.shape, tensor.bytes);
    }
    MemoryFileSystem files;
    files.write("m/a.safetensors", builder.build());
    const WeightDirectory directory = WeightDirectory::open(files, "m");
    WeightReader reader(directory);
    LinearWeight weight = load_linear(reader, request_, quantization_);
    unused_ = reader.unused();
    use(weight);
  }
  // Returns the unused tensors of the last load.
  const std::vector<std::string>& unused() const { return unused_; }

 private:
  std::map<std::string, Tensor> tensors_;
  LinearRequest request_;
  QuantizationConfig quantization_;
  mutable std::vector<std::string> unused_;
};

}  // namespace quire::testing
