// Reads the tensors that parts of a layer name and prepares them on a device, or plans their sizes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/model_spec.h"
#include "core/loader/weight_provider.h"
#include "core/tensor/device.h"

namespace quire {

// Whether weights are prepared on their devices, or only their sizes are computed (bytes() of each).
enum class BuildMode : uint8_t { prepare, plan };

// Builds one piece of a transformer: a layer, the embedding or the head. A part's build() reads its vectors
// at once and requests its matrices; prepare() then prepares all requested matrices together. The targets of
// requests, and the layers that hold them, must not move before that.
class LayerBuilder {
 public:
  // `model` is the model of the shard. All arguments are borrowed but the device.
  LayerBuilder(const ModelSpec& model, WeightProvider& weights, std::shared_ptr<Device> device,
               BuildMode mode)
      : model_(model), weights_(weights), device_(std::move(device)), mode_(mode) {}

  const ModelSpec& model() const { return model_; }
  int32_t num_layers() const { return gsl::narrow<int32_t>(model_.layers.size()); }

  // Return a name as the files have it: as given, or within the text part of a checkpoint.
  std::string tensor_name(const std::string& name) const;
  std::string matrix_name(const std::string& key) const;
  bool has_tensor(const std::string& name) const { return weights_.has_tensor(name); }
  bool has_linear(const std::string& name) const { return weights_.has_linear(name); }

  // Reads a vector to the host, with its offset, scale and order applied.
  std::vector<float> host_vector(const VectorPart& part) const;
  // Reads a vector to the device; empty if the model has none.
  DeviceBuffer vector(const VectorPart& part) const;
  // Copies numbers to the device; `what` names them in errors.
  DeviceBuffer floats(const std::vector<float>& values, std::string_view what) const;

  HostTensor read_table(const std::string& name, int32_t rows, int32_t columns) const;
  // Prepares a table by itself, at once. `key` is the name of its tensor without ".weight".
  PreparedWeight table(const std::string& key, int32_t rows, int32_t columns) const;
  PreparedWeight prepare_table(const HostTensor& stored, const std::string& name) const;

  // Reads a matrix, of an expert if its key or its tensor is for several. The result is valid as long as the
  // builder is.
  LinearWeight& linear(const MatrixPart& part, int32_t expert = 0);
  // Requests matrices that share their input, side by side.
  void request(PreparedWeight& target, const MatrixParts& parts, int32_t expert = 0);
  // Requests a matrix that was read before; `key` names it in errors, if it is given.
  void request(PreparedWeight& target, const WeightSource& source, const std::string& key);
  // Requests the matrices whose result `consumer` reads. They write it in the order of the consumer's rows if
  // they are matrices of their own, so that the result needs no gather.
  void request_folded(PreparedWeight& target, const MatrixParts& parts, LinearWeight& consumer,
                      int32_t expert = 0);
  // Lets the device read the tensor from its file while matrices are prepared; nullptr: nothing to read.
  void add_unread(const UnreadTensor* tensor) { unread_.push_back(tensor); }
  size_t num_requests() const { return requests_.size(); }
  // Marks the requests from index `first` on as matrices of experts.
  void mark_experts(size_t first);
  // Calls `action` after the matrices are prepared.
  void after_prepare(std::function<void()> action) { actions_.push_back(std::move(action)); }
  // Lets all requested matrices read activations of this type.
  void set_activations(kernels::ActivationDtype activations);
  // Prepares, or plans, all requested matrices together.
  void prepare();

 private:
  std::string spelled(const std::string& name, bool is_matrix) const;
  void name_request(const std::string& key);

  const ModelSpec& model_;
  WeightProvider& weights_;
  const std::shared_ptr<Device> device_;
  const BuildMode mode_;
  std::deque<LinearWeight> read_;            // matrices that requests point to
  std::vector<const UnreadTensor*> unread_;  // or nullptr
  std::vector<PrepareRequest> requests_;
  std::vector<std::function<void()>> actions_;
  std::string requested_keys_;  // for messages
};

}  // namespace quire
