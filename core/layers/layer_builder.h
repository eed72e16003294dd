// Reads the tensors of a layer's parts and prepares them on a device, or plans their sizes.
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

// Mode of a build: `prepare` puts the weights on their devices, `plan` only computes their sizes, which
// bytes() returns.
enum class BuildMode : uint8_t { prepare, plan };

// Builder of one piece of a transformer: a layer, the embedding or the head. A part's build() reads its
// vectors at once and requests its matrices. prepare() then prepares all requested matrices together. Until
// then the targets of requests, and the layers that contain them, must not move.
class LayerBuilder {
 public:
  // `model` is the spec of the shard. All arguments except the device are borrowed.
  LayerBuilder(const ModelSpec& model, WeightProvider& weights, std::shared_ptr<Device> device,
               BuildMode mode)
      : model_(model), weights_(weights), device_(std::move(device)), mode_(mode) {}

  const ModelSpec& model() const { return model_; }
  int32_t num_layers() const { return gsl::narrow<int32_t>(model_.layers.size()); }

  // Returns the name of a tensor or a matrix as the files have it (tensor_names.h).
  std::string stored_name(const std::string& name) const;
  bool has_tensor(const std::string& name) const { return weights_.has_tensor(name); }
  bool has_linear(const std::string& name) const { return weights_.has_linear(name); }

  // Reads a vector to host memory and applies its offset, scale and order.
  std::vector<float> host_vector(const VectorPart& part) const;
  // Reads a vector to the device. Returns an empty buffer if the model has no such vector.
  DeviceBuffer vector(const VectorPart& part) const;
  // Copies numbers to the device. `what` names them in error messages.
  DeviceBuffer floats(const std::vector<float>& values, std::string_view what) const;

  HostTensor read_table(const std::string& name, int32_t rows, int32_t columns) const;
  // Reads and prepares a table at once. `key` is the name of its tensor without ".weight".
  PreparedWeight table(const std::string& key, int32_t rows, int32_t columns) const;
  PreparedWeight prepare_table(const HostTensor& stored, const std::string& name) const;

  // Reads a matrix. `expert` selects the expert if the key or the tensor covers several. The result is valid
  // as long as the builder.
  LinearWeight& linear(const MatrixPart& part, int32_t expert = 0);
  // Requests matrices that read the same input, joined side by side.
  void request(PreparedWeight& target, const MatrixParts& parts, int32_t expert = 0);
  // Requests a matrix that was read before as `source`. `key` names it in error messages; empty: it is not
  // named.
  void request(PreparedWeight& target, const MatrixPart& part, const WeightSource& source,
               const std::string& key);
  // Requests the matrices that produce the input of `consumer`. If possible they write it in the stored row
  // order of the consumer (act-order), so that the input needs no gather.
  void request_folded(PreparedWeight& target, const MatrixParts& parts, LinearWeight& consumer,
                      int32_t expert = 0);
  // Lets the device read the tensor from its file while matrices are prepared. Does nothing for nullptr.
  void add_unread(const UnreadTensor* tensor) { unread_.push_back(tensor); }
  size_t num_requests() const { return requests_.size(); }
  // True if the matrices of experts, requested from index `first` on as gate and up of `num_parts` parts and
  // down in turns, are in a form that cards read from host memory (kernels::is_packed_form).
  bool are_packed(size_t first, size_t num_parts) const;
  // Marks the requests from index `first` on as matrices of experts.
  void mark_experts(size_t first);
  // Registers an action that prepare() calls after the matrices are prepared.
  void after_prepare(std::function<void()> action) { actions_.push_back(std::move(action)); }
  // Sets the type of the activations that the requested matrices read.
  void set_activations(kernels::ActivationDtype activations);
  // Prepares or plans all requested matrices together.
  void prepare();

 private:
  const std::string& present_name(const VectorPart& part) const;
  // Returns the parts in which the files have a fused matrix; empty: they have it whole, or it is ordered.
  std::vector<MatrixSlice> slices_of(const MatrixPart& part) const;
  // Replaces fused matrices that the files have in parts by these parts.
  MatrixParts as_stored(const MatrixParts& parts) const;
  // Returns PrepareRequest::whole_columns of a request with these parts.
  std::vector<int32_t> whole_columns(const MatrixParts& parts) const;
  void name_request(const std::string& key);

  const ModelSpec& model_;
  WeightProvider& weights_;
  const std::shared_ptr<Device> device_;
  const BuildMode mode_;
  std::deque<LinearWeight> read_;            // matrices that requests refer to
  std::vector<const UnreadTensor*> unread_;  // elements may be nullptr
  std::vector<PrepareRequest> requests_;
  std::vector<std::function<void()>> actions_;
  std::string requested_keys_;  // for error messages
};

}  // namespace quire
