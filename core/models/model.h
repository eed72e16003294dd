// A loaded model: its configuration, its tokenizer, and its transformer on its devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/config/model_config.h"
#include "core/loader/weight_reader.h"
#include "core/models/draft_source.h"
#include "core/models/model_source.h"
#include "core/models/parked_weights.h"
#include "core/models/placement.h"
#include "core/models/tensor_description.h"
#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// Parts of a model to load.
enum class ModelScope : int32_t {
  full = 0,
  tokenizer = 1,  // only the tokenizer; the source may also be a bare tokenizer.json
  metadata = 2,   // configuration, tokenizer and the headers of the weight files, but no weights
};

struct ModelOptions {
  std::shared_ptr<ModelSource> source;  // used only during the load
  ModelScope scope = ModelScope::full;
  bool without_weights = false;  // full scope only: skip the weights; acquire_weights loads them later
  // Devices for the weights. May be empty unless the scope is full.
  std::vector<std::shared_ptr<Device>> devices;
  Placement placement;     // without layers: all on the first device, or the first ones for its shards
  int32_t num_shards = 1;  // of each stage, 1 to kMaxShards
  const ThreadFactory* threads = &system_threads();
  int32_t num_helpers = 0;  // additional threads that read and prepare weights
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  std::shared_ptr<const DraftSource> drafter;  // null: none
  LoadMonitor monitor;
};

// Returns a transformer without weights, which reports the sizes it would have on these devices. Reads the
// configuration, the headers, and the tensors that determine the layout of matrices. Throws the same errors
// as a load.
std::shared_ptr<const Transformer> build_outline(
    ModelSource& source, const std::vector<std::shared_ptr<Device>>& devices, const Placement& placement,
    int32_t num_shards = 1, kernels::ActivationDtype activations = kernels::ActivationDtype::full,
    const DraftSource* drafter = nullptr);

// A model that is immutable once loaded, except that its weights may be offloaded or dropped and come back.
// May be used from any thread. Caches keep it alive.
class Model {
 public:
  // Reads the configuration, the tokenizer and the weights of the source, as far as the scope requires.
  // Throws not_found, io, format, truncated, unsupported, out_of_memory or cancelled; the message names the
  // file, field or tensor. A failed load frees all its memory.
  static std::shared_ptr<Model> load(const ModelOptions& options);

  // Loads the same weights again, for a model of the full scope that has none at present. Throws the errors
  // of a load, and ErrorCode::format if the files have changed since the load.
  void acquire_weights(const ModelOptions& options);
  // Offload of the matrices to host memory; see parked_weights.h. From park_weights until bring_weights
  // returns, the model has no weights on its devices.
  bool can_offload() const;
  bool is_offloaded() const;
  void copy_weights(OffloadedBytes& bytes);
  void offload_weights(OffloadedBytes& bytes) noexcept;
  void reload_weights(const std::atomic<bool>& stop);
  // Releases the weights, including offloaded ones. Their memory is freed once no computation uses them. If
  // the layout of the files cannot be read, throws the error and keeps the weights.
  // `drafter` is that of the load; null: it had none.
  void release_weights(ModelSource& source, const DraftSource* drafter = nullptr);

  const std::string& path() const { return path_; }
  // Throws ErrorCode::unsupported if the model has no tokenizer.json or other tokenizer file.
  const Tokenizer& tokenizer() const;
  std::shared_ptr<const Tokenizer> shared_tokenizer() const { return tokenizer_; }
  // False if only the tokenizer was loaded.
  bool has_config() const { return config_ != nullptr; }
  // Throws ErrorCode::unsupported if only the tokenizer was loaded. The functions up to num_shards do the
  // same.
  const ModelConfig& config() const;
  TransformerShape shape() const;
  const std::vector<TensorDescription>& tensors() const;
  double bits_per_weight() const;  // average over all tensors, as stored
  // Returns what the draft network is, such as "EAGLE-3 network PATH"; empty if the model was loaded without
  // one.
  const std::string& drafter_name() const { return drafter_name_; }
  // Returns "mtp" or the path of the files of the draft network; empty without one.
  const std::string& drafter_path() const { return drafter_path_; }
  // Returns the part of weight_bytes() that the draft network takes; 0 if the scope has no weights.
  uint64_t drafter_bytes() const;
  // Returns the device memory of the weights if the scope is full, otherwise the bytes of the files.
  uint64_t weight_bytes() const;
  // Returns the number of shards of each layer. Without weights this is the number that was requested.
  int32_t num_shards() const;
  // Returns the device memory of the weights of each shard. Needs the full scope.
  std::vector<uint64_t> shard_bytes() const;
  // True if the scope includes weights, even if they are not on their devices at present.
  bool is_loaded() const { return scope_ == ModelScope::full; }
  // Returns the transformer with its sizes, layers and devices, even if it has no weights at present. Only
  // the result of weights() can compute. Throws ErrorCode::unsupported if the scope has no weights.
  std::shared_ptr<const Transformer> transformer() const;
  // Returns the transformer if its weights are on their devices, otherwise nullptr.
  std::shared_ptr<const Transformer> weights() const;
  const Placement& placement() const { return placement_; }  // empty if the scope is not full
  kernels::ActivationDtype activations() const { return activations_; }

 private:
  Model() = default;
  std::shared_ptr<const Transformer> read_weights(const ModelOptions& options) const;
  void require_same_files(ModelSource& source) const;
  void require_same_network(const Transformer& loaded) const;

  std::string path_;
  ModelScope scope_ = ModelScope::full;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const ModelConfig> config_;
  StoredTensors stored_;
  std::vector<std::shared_ptr<Device>> devices_;
  Placement placement_;
  int32_t num_shards_ = 1;
  std::string drafter_name_;
  std::string drafter_path_;
  kernels::ActivationDtype activations_ = kernels::ActivationDtype::full;
  mutable Mutex mutex_;
  std::shared_ptr<const Transformer> weights_ QUIRE_GUARDED_BY(mutex_);
  // Set once the weights were dropped or not loaded.
  std::shared_ptr<const Transformer> outline_ QUIRE_GUARDED_BY(mutex_);
  // Set while the weights are in host memory.
  std::shared_ptr<const Transformer> offloaded_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
