// A model as a service knows it: its description, its tokenizer, and its transformer on its devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/config/model_config.h"
#include "core/loader/weight_reader.h"
#include "core/models/model_source.h"
#include "core/models/parked_weights.h"
#include "core/models/placement.h"
#include "core/models/tensor_description.h"
#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// How much of a model is loaded.
enum class ModelScope : int32_t {
  full = 0,
  tokenizer = 1,  // the tokenizer alone; the source may also be a bare tokenizer.json
  metadata = 2,   // configuration, tokenizer and the headers of the weight files, no weights
};

struct ModelOptions {
  std::shared_ptr<ModelSource> source;  // needed during the load only
  ModelScope scope = ModelScope::full;
  bool without_weights = false;  // of the full scope: acquire_weights brings them
  std::vector<std::shared_ptr<Device>>
      devices;             // where the weights go; may be empty unless the scope is full
  Placement placement;     // empty: all layers on the first device
  int32_t num_shards = 1;  // of each stage, 1 to kMaxShards
  const ThreadFactory* threads = &system_threads();
  int32_t num_helpers = 0;  // threads that read and prepare weights beside the caller
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  LoadMonitor monitor;
};

// A transformer that says how large it would be on those devices and has no weights: configuration, headers
// and what decides the layout of matrices are read. Throws what a load throws.
std::shared_ptr<const Transformer> outline_model(
    ModelSource& source, const std::vector<std::shared_ptr<Device>>& devices, const Placement& placement,
    int32_t num_shards = 1, kernels::ActivationDtype activations = kernels::ActivationDtype::full);

// Immutable once loaded, but for its weights, which may leave their devices and come back; any thread. Caches
// keep it alive.
class Model {
 public:
  // Reads the configuration, the tokenizer and the weights of its source, as far as the scope goes. Throws
  // not_found, io, format, truncated, unsupported, out_of_memory or cancelled, naming the file, field or
  // tensor; nothing stays taken then.
  static std::shared_ptr<Model> load(const ModelOptions& options);

  // Reads and prepares the weights of a model of the full scope, which has none now: the same as it had.
  // Throws as a load does, and ErrorCode::format where the files are others than those it was loaded from.
  void acquire_weights(const ModelOptions& options);
  // Its matrices in host memory: parked_weights.h. Between the last two the weights are away.
  bool can_park() const;
  bool is_parked() const;
  void copy_weights(ParkedBytes& bytes);
  void park_weights(ParkedBytes& bytes) noexcept;
  void bring_weights(const std::atomic<bool>& stop);
  // Lets them go, parked ones too, to be freed with whatever still computes with them. Throws what reading
  // the layout of the files throws; they stay then.
  void release_weights(ModelSource& source);

  const std::string& path() const { return path_; }
  // Throws ErrorCode::unsupported for a bare directory of weights without a tokenizer.json.
  const Tokenizer& tokenizer() const;
  std::shared_ptr<const Tokenizer> shared_tokenizer() const { return tokenizer_; }
  // False where only the tokenizer was loaded.
  bool has_config() const { return config_ != nullptr; }
  // Throws ErrorCode::unsupported where only the tokenizer was loaded; so do all below.
  const ModelConfig& config() const;
  TransformerShape shape() const;
  const std::vector<TensorDescription>& tensors() const;
  double bits_per_weight() const;  // over all tensors, as stored
  // Device memory of the weights for a model of the full scope, bytes of the files otherwise.
  uint64_t weight_bytes() const;
  // Into how many shards its layers are cut, or would be.
  int32_t num_shards() const;
  // Device memory of the weights of each shard; of the full scope alone.
  std::vector<uint64_t> shard_bytes() const;
  // Whether its scope has weights, wherever they are.
  bool is_loaded() const { return scope_ == ModelScope::full; }
  // What it is made of: sizes, layers and devices; to compute with only as weights() gives it. Throws
  // ErrorCode::unsupported where the scope has no weights.
  std::shared_ptr<const Transformer> transformer() const;
  // The same with the weights on their devices; null while they are away.
  std::shared_ptr<const Transformer> weights() const;
  const Placement& placement() const { return placement_; }  // empty where the weights were not loaded
  kernels::ActivationDtype activations() const { return activations_; }

 private:
  Model() = default;
  std::shared_ptr<const Transformer> read_weights(const ModelOptions& options) const;
  void require_same_files(ModelSource& source) const;

  std::string path_;
  ModelScope scope_ = ModelScope::full;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const ModelConfig> config_;
  StoredTensors stored_;
  std::vector<std::shared_ptr<Device>> devices_;
  Placement placement_;
  int32_t num_shards_ = 1;
  kernels::ActivationDtype activations_ = kernels::ActivationDtype::full;
  mutable Mutex mutex_;
  std::shared_ptr<const Transformer> weights_ QUIRE_GUARDED_BY(mutex_);
  std::shared_ptr<const Transformer> outline_ QUIRE_GUARDED_BY(mutex_);  // once they were away
  std::shared_ptr<const Transformer> parked_ QUIRE_GUARDED_BY(mutex_);   // while they are in host memory
};

}  // namespace quire
