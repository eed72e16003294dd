#include "core/models/model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/models/transformer_builder.h"
#include "core/models/transformer_shape.h"

namespace quire {
namespace {

[[noreturn]] void not_loaded(const std::string& path, const char* what) {
  throw Error(ErrorCode::unsupported, "{}: {} not loaded; load the model with the full scope", path, what);
}

Placement placement_or_default(const Placement& placement, const ModelConfig& config) {
  if (!placement.device_of_layer.empty()) return placement;
  Placement on_first = placement;
  on_first.device_of_layer = place_on_one_device(config.num_layers).device_of_layer;
  return on_first;
}

// Calls build(options) with a draft network to build, if there is a source of one.
template <typename Build>
std::shared_ptr<const Transformer> build_with_drafter(const DraftSource* drafter, ReadScope scope,
                                                      const LoadMonitor& monitor, BuildOptions options,
                                                      const Build& build) {
  if (drafter == nullptr) return build(options);
  // Progress counts the target's bytes alone.
  const std::unique_ptr<WeightProvider> of_network = drafter->weights(scope, {nullptr, monitor.cancel});
  const std::string name = drafter->name();
  const DraftBuild draft = {drafter->config, *of_network, drafter->token_of, name};
  options.drafter = &draft;
  return build(options);
}

// Returns what other processes need to find the model; nothing if no device belongs to one.
std::optional<SharedModel> shared_model(ModelSource& source,
                                        const std::vector<std::shared_ptr<Device>>& devices,
                                        const LoadMonitor& monitor) {
  const bool any_remote =
      std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device->is_remote(); });
  if (!any_remote) return std::nullopt;
  return SharedModel{source.path(), source.identity(), monitor.cancel, monitor.deadline};
}

}  // namespace

std::shared_ptr<Model> Model::load(const ModelOptions& options) {
  ModelSource& source = *options.source;
  std::shared_ptr<Model> model(new Model());
  model->path_ = source.path();
  model->scope_ = options.scope;
  if (options.scope != ModelScope::tokenizer) {
    model->config_ = std::make_unique<const ModelConfig>(source.config());
    model->stored_ = source.tensors();
    model->num_shards_ = options.num_shards;
    if (options.drafter != nullptr) {
      model->drafter_name_ = options.drafter->name();
      model->drafter_path_ = options.drafter->path;
    }
    if (options.scope == ModelScope::full) {
      model->devices_ = options.devices;
      model->placement_ = placement_or_default(options.placement, *model->config_);
      model->activations_ = options.activations;
      auto made = options.without_weights
                      ? build_outline(source, model->devices_, model->placement_, model->num_shards_,
                                      model->activations_, options.drafter.get())
                      : model->read_weights(options);
      const MutexLock lock(model->mutex_);
      (options.without_weights ? model->outline_ : model->weights_) = std::move(made);
    }
  }
  // Some test checkpoints have no tokenizer. They can be scored by token ids.
  if (options.scope == ModelScope::tokenizer || source.has_tokenizer()) {
    model->tokenizer_ = Tokenizer::load(source.tokenizer().files());
  }
  return model;
}

std::shared_ptr<const Transformer> Model::read_weights(const ModelOptions& options) const {
  const std::unique_ptr<WeightProvider> weights = options.source->weights(ReadScope::all, options.monitor);
  const std::optional<SharedModel> shared = shared_model(*options.source, devices_, options.monitor);
  BuildOptions build_options;
  build_options.threads = options.threads;
  build_options.num_helpers = options.num_helpers;
  build_options.num_shards = num_shards_;
  build_options.activations = options.activations;
  build_options.shared = shared ? &*shared : nullptr;
  auto transformer = build_with_drafter(
      options.drafter.get(), ReadScope::all, options.monitor, build_options, [&](const BuildOptions& build) {
        return build_transformer(*config_, *weights, devices_, placement_, build);
      });
  weights->finish();
  return transformer;
}

// Throws if the files have changed since the load. The memory plan of the model is valid only for the same
// files.
void Model::require_same_files(ModelSource& source) const {
  const StoredTensors stored = source.tensors();
  const auto same = [](const TensorDescription& a, const TensorDescription& b) {
    return a.name == b.name && a.shape == b.shape && a.format == b.format && a.stored_bytes == b.stored_bytes;
  };
  if (std::equal(stored.list.begin(), stored.list.end(), stored_.list.begin(), stored_.list.end(), same))
    return;
  throw Error(ErrorCode::format,
              "{}: the files have changed since the model was loaded; load the model again", path_);
}

// Throws if the draft network has other sizes than at the load, for which caches have their memory.
void Model::require_same_network(const Transformer& loaded) const {
  const std::shared_ptr<const Transformer> before = transformer();
  const bool is_same =
      (before->drafter == nullptr) == (loaded.drafter == nullptr) &&
      before->state_layers == loaded.state_layers &&
      (loaded.drafter == nullptr || before->drafter->network.shape == loaded.drafter->network.shape);
  if (is_same) return;
  throw Error(
      ErrorCode::format,
      "{}: the files of its draft network have changed since the model was loaded; load the model again",
      path_);
}

void Model::acquire_weights(const ModelOptions& options) {
  require_same_files(*options.source);
  std::shared_ptr<const Transformer> weights = read_weights(options);
  require_same_network(*weights);
  const MutexLock lock(mutex_);
  weights_ = std::move(weights);
}

bool Model::can_offload() const {
  const std::shared_ptr<const Transformer> here = weights();
  return here != nullptr && quire::can_offload(*here);
}

bool Model::is_offloaded() const {
  const MutexLock lock(mutex_);
  return offloaded_ != nullptr;
}

// Only one thread at a time moves the weights. The lock protects threads that read the state.
void Model::copy_weights(OffloadedBytes& bytes) {
  quire::copy_weights(*weights(), bytes);
}

void Model::offload_weights(OffloadedBytes& bytes) noexcept {
  quire::offload_weights(*weights(), bytes);
  const MutexLock lock(mutex_);
  offloaded_ = std::move(weights_);
}

void Model::reload_weights(const std::atomic<bool>& stop) {
  std::shared_ptr<const Transformer> away;
  {
    const MutexLock lock(mutex_);
    away = offloaded_;
  }
  quire::reload_weights(*away, stop);
  const MutexLock lock(mutex_);
  weights_ = std::move(offloaded_);
}

void Model::release_weights(ModelSource& source, const DraftSource* drafter) {
  bool has_outline = false;
  {
    const MutexLock lock(mutex_);
    has_outline = outline_ != nullptr;
  }
  std::shared_ptr<const Transformer> outline;
  if (!has_outline) outline = build_outline(source, devices_, placement_, num_shards_, activations_, drafter);
  std::shared_ptr<const Transformer> gone;  // destroyed after the lock is released
  const MutexLock lock(mutex_);
  if (outline != nullptr) outline_ = std::move(outline);
  gone = std::move(weights_ != nullptr ? weights_ : offloaded_);
}

std::shared_ptr<const Transformer> build_outline(ModelSource& source,
                                                 const std::vector<std::shared_ptr<Device>>& devices,
                                                 const Placement& placement, int32_t num_shards,
                                                 kernels::ActivationDtype activations,
                                                 const DraftSource* drafter) {
  BuildOptions options;
  options.num_shards = num_shards;
  options.activations = activations;
  options.mode = BuildMode::plan;
  const std::optional<SharedModel> shared = shared_model(source, devices, {});
  options.shared = shared ? &*shared : nullptr;
  return build_with_drafter(drafter, ReadScope::layout, {}, options, [&](const BuildOptions& build) {
    return build_transformer(source.config(), *source.weights(ReadScope::layout, {}), devices,
                             placement_or_default(placement, source.config()), build);
  });
}

const Tokenizer& Model::tokenizer() const {
  if (!tokenizer_) {
    throw Error(ErrorCode::unsupported, "{}: the model has no tokenizer; pass token ids instead of text",
                path_);
  }
  return *tokenizer_;
}

const ModelConfig& Model::config() const {
  if (!config_) not_loaded(path_, "the configuration is");
  return *config_;
}

TransformerShape Model::shape() const {
  return transformer_shape(config().spec);
}

const std::vector<TensorDescription>& Model::tensors() const {
  if (!config_) not_loaded(path_, "the list of tensors is");
  return stored_.list;
}

uint64_t Model::drafter_bytes() const {
  return is_loaded() ? transformer()->drafter_taken_bytes() : 0;
}

double Model::bits_per_weight() const {
  (void)config();
  return stored_.bits_per_weight;
}

uint64_t Model::weight_bytes() const {
  (void)config();
  return is_loaded() ? transformer()->taken_bytes() : stored_.size_bytes;
}

int32_t Model::num_shards() const {
  (void)config();
  return num_shards_;
}

std::vector<uint64_t> Model::shard_bytes() const {
  return transformer()->shard_taken_bytes();
}

std::shared_ptr<const Transformer> Model::transformer() const {
  if (!is_loaded()) not_loaded(path_, "the weights are");
  const MutexLock lock(mutex_);
  if (weights_ != nullptr) return weights_;
  return offloaded_ != nullptr ? offloaded_ : outline_;
}

std::shared_ptr<const Transformer> Model::weights() const {
  const MutexLock lock(mutex_);
  return weights_;
}

}  // namespace quire
