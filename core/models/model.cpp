#include "core/models/model.h"

#include "core/base/error.h"
#include "core/models/transformer_builder.h"

namespace quire {
namespace {

[[noreturn]] void not_loaded(const std::string& path, const char* what) {
  throw Error(ErrorCode::unsupported, "{}: {} not loaded; load the model with its full scope", path, what);
}

Placement placement_or_default(const Placement& placement, const ModelConfig& config) {
  return placement.device_of_layer.empty() ? place_on_one_device(config.num_layers) : placement;
}

}  // namespace

std::shared_ptr<const Model> Model::load(const ModelOptions& options) {
  ModelSource& source = *options.source;
  const std::shared_ptr<Model> model(new Model());
  model->path_ = source.path();
  model->scope_ = options.scope;
  if (options.scope != ModelScope::tokenizer) {
    model->config_ = std::make_unique<const ModelConfig>(source.config());
    model->stored_ = source.tensors();
    if (options.scope == ModelScope::full) model->load_weights(options);
  }
  // Checkpoints made for tests of the network alone have no tokenizer; they can be scored by ids.
  if (options.scope == ModelScope::tokenizer || source.has_tokenizer()) {
    model->tokenizer_ = Tokenizer::load(source.tokenizer().files());
  }
  return model;
}

void Model::load_weights(const ModelOptions& options) {
  const std::unique_ptr<WeightProvider> weights = options.source->weights(ReadScope::all, options.monitor);
  placement_ = placement_or_default(options.placement, *config_);
  transformer_ =
      build_transformer(*config_, *weights, options.devices, placement_,
                        {BuildMode::prepare, options.threads, options.num_helpers, options.activations});
  weights->finish();
}

std::shared_ptr<const Transformer> outline_model(ModelSource& source,
                                                 const std::vector<std::shared_ptr<Device>>& devices,
                                                 const Placement& placement) {
  BuildOptions options;
  options.mode = BuildMode::plan;
  return build_transformer(source.config(), *source.weights(ReadScope::layout, {}), devices,
                           placement_or_default(placement, source.config()), options);
}

const Tokenizer& Model::tokenizer() const {
  if (!tokenizer_) {
    throw Error(ErrorCode::unsupported, "{}: the model has no tokenizer; give token ids instead of text",
                path_);
  }
  return *tokenizer_;
}

const ModelConfig& Model::config() const {
  if (!config_) not_loaded(path_, "the configuration is");
  return *config_;
}

TransformerShape Model::shape() const {
  return transformer_shape(config());
}

const std::vector<TensorDescription>& Model::tensors() const {
  if (!config_) not_loaded(path_, "the list of tensors is");
  return stored_.list;
}

double Model::bits_per_weight() const {
  (void)config();
  return stored_.bits_per_weight;
}

uint64_t Model::weight_bytes() const {
  (void)config();
  return transformer_ ? transformer_->taken_bytes() : stored_.size_bytes;
}

const std::shared_ptr<const Transformer>& Model::transformer() const {
  if (!transformer_) not_loaded(path_, "the weights are");
  return transformer_;
}

}  // namespace quire
