// Source of a transformer's weights: the files of a directory, or synthetic weights for benchmarks.
#pragma once

#include <string>
#include <vector>

#include "core/loader/linear_weight.h"
#include "core/loader/load_linear.h"
#include "core/loader/tensor_names.h"
#include "core/loader/weight_reader.h"

namespace quire {

// Reads weights. Throws an Error that names a weight that is missing or malformed.
class WeightProvider {
 public:
  virtual ~WeightProvider() = default;
  // Returns whether several threads may read at the same time, in any order.
  virtual bool is_concurrent() const = 0;
  // Returns the name under which the other functions find a tensor or a matrix of the model.
  virtual std::string stored_name(const std::string& name) const { return name; }
  // Returns the parts of a fused matrix, if they are there in its place; empty if the matrix itself is.
  virtual std::vector<MatrixSlice> slices_of(const std::string& /*key*/) const { return {}; }
  virtual bool has_linear(const std::string& key) const = 0;
  virtual bool has_tensor(const std::string& name) const = 0;
  virtual LinearWeight linear(const LinearRequest& request) = 0;
  // Returns a float tensor of `count` elements, whatever its shape.
  virtual std::vector<float> vector(const std::string& name, int32_t count) = 0;
  // Returns a float tensor of the shape [rows, columns], as stored; the device may read it later. It and the
  // codes, scales and values of matrices have no data if only the layout is read.
  virtual HostTensor table(const std::string& name, int32_t rows, int32_t columns) = 0;
  // Reports the final progress, after all tensors were requested.
  virtual void finish() {}
};

// The files of a model directory, which is borrowed.
class StoredWeights final : public WeightProvider {
 public:
  StoredWeights(TensorNames names, const QuantizationConfig& quantization, const LoadMonitor& monitor,
                ReadScope scope)
      : reader_(names.directory(), monitor, scope), names_(std::move(names)), quantization_(quantization) {}

  bool is_concurrent() const override { return true; }
  std::string stored_name(const std::string& name) const override { return names_.stored(name); }
  std::vector<MatrixSlice> slices_of(const std::string& key) const override { return names_.slices_of(key); }
  bool has_linear(const std::string& key) const override {
    return quire::has_linear(reader_.directory(), key);
  }
  LinearWeight linear(const LinearRequest& request) override {
    return load_linear(reader_, names_.with_fused_source(request), quantization_);
  }
  bool has_tensor(const std::string& name) const override { return reader_.directory().has(name); }
  std::vector<float> vector(const std::string& name, int32_t count) override {
    const WeightDirectory::Entry& entry = reader_.directory().at(name);
    const std::vector<int64_t>& shape = entry.tensor->shape;
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;  // the header was checked
    return reader_.read_floats(name, elements == count ? shape : std::vector<int64_t>{count});
  }
  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return load_table(reader_, name, rows, columns, ReadBy::device);
  }
  void finish() override { reader_.finish(); }
  // Returns the sorted names of the tensors that were not read.
  std::vector<std::string> unused() const { return reader_.unused(); }

 private:
  WeightReader reader_;
  const TensorNames names_;
  const QuantizationConfig quantization_;
};

}  // namespace quire
