#include "core/models/model.h"

#include "core/base/error.h"
#include "core/loader/weight_directory.h"
#include "core/loader/weight_summary.h"
#include "core/models/transformer_builder.h"

namespace quire {
namespace {

// Larger than any tokenizer in use; a file beyond it is not one.
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

std::string read_if_there(const FileSystem& files, const std::string& path) {
  return files.is_file(path) ? files.read_text(path, kMaxTokenizerBytes) : std::string();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const FileSystem& files, const std::string& directory) {
  const std::string tokenizer = files.read_text(directory + "/tokenizer.json", kMaxTokenizerBytes);
  const std::string config = read_if_there(files, directory + "/tokenizer_config.json");
  const std::string special_tokens = read_if_there(files, directory + "/special_tokens_map.json");
  const std::string added_tokens = read_if_there(files, directory + "/added_tokens.json");
  return Tokenizer::load({tokenizer, config, special_tokens, added_tokens});
}

std::shared_ptr<const Tokenizer> load_bare_tokenizer(const FileSystem& files, const std::string& path) {
  const std::string tokenizer = files.read_text(path, kMaxTokenizerBytes);
  return Tokenizer::load({tokenizer, {}, {}, {}});
}

[[noreturn]] void not_loaded(const std::string& path, const char* what) {
  throw Error(ErrorCode::unsupported, "{}: {} not loaded; load the model with its full scope", path, what);
}

Placement placement_or_default(const Placement& placement, const ModelConfig& config) {
  return placement.device_of_layer.empty() ? place_on_one_device(config.num_layers) : placement;
}

BuildOptions build_options(const ModelOptions& options) {
  return {BuildMode::prepare, options.threads, options.num_helpers};
}

std::unique_ptr<const ModelConfig> synthetic_model_config(const SyntheticSpec& spec,
                                                          const std::string& path) {
  return std::make_unique<const ModelConfig>(parse_model_config(synthetic_config(spec), {}, path));
}

void require_model_directory(const FileSystem& files, const std::string& path) {
  if (!files.is_directory(path)) throw Error(ErrorCode::not_found, "{}: no such model directory", path);
}

}  // namespace

std::shared_ptr<const Model> Model::load(const FileSystem& files, const ModelOptions& options) {
  const std::shared_ptr<Model> model(new Model());
  model->path_ = options.path;
  model->scope_ = options.scope;
  if (options.path.starts_with(kSyntheticPrefix)) {
    model->make_synthetic(parse_synthetic_spec(options.path), options);
    return model;
  }
  if (options.scope == ModelScope::tokenizer && files.is_file(options.path)) {
    model->tokenizer_ = load_bare_tokenizer(files, options.path);
    return model;
  }
  require_model_directory(files, options.path);
  if (options.scope != ModelScope::tokenizer) {
    model->config_ = std::make_unique<const ModelConfig>(read_model_config(files, options.path));
    model->load_weights(files, options);
  }
  // Checkpoints made for tests of the network alone have no tokenizer; they can be scored by ids.
  if (options.scope == ModelScope::tokenizer || files.is_file(options.path + "/tokenizer.json")) {
    model->tokenizer_ = load_tokenizer(files, options.path);
  }
  return model;
}

void Model::load_weights(const FileSystem& files, const ModelOptions& options) {
  const WeightDirectory directory = WeightDirectory::open(files, path_);
  tensors_ = describe_tensors(directory, config_->architecture->keys.layers);
  bits_per_weight_ = summarize_weights(directory, config_->architecture->keys.layers).total.bits_per_weight();
  stored_bytes_ = directory.total_bytes();
  if (options.scope != ModelScope::full) return;
  WeightReader reader(directory, options.monitor);
  StoredWeights weights(reader);
  placement_ = placement_or_default(options.placement, *config_);
  transformer_ = build_transformer(*config_, weights, options.devices, placement_, build_options(options));
  reader.finish();
}

void Model::make_synthetic(const SyntheticSpec& spec, const ModelOptions& options) {
  config_ = synthetic_model_config(spec, path_);
  if (scope_ != ModelScope::full) return;
  placement_ = placement_or_default(options.placement, *config_);
  transformer_ = build_transformer(*config_, *make_synthetic_weights(spec), options.devices, placement_,
                                   build_options(options));
  stored_bytes_ = transformer_->taken_bytes();
}

std::unique_ptr<const ModelConfig> read_config(const FileSystem& files, const std::string& path) {
  if (path.starts_with(kSyntheticPrefix)) return synthetic_model_config(parse_synthetic_spec(path), path);
  require_model_directory(files, path);
  return std::make_unique<const ModelConfig>(read_model_config(files, path));
}

OutlinedModel outline_model(const FileSystem& files, const std::string& path,
                            const std::vector<std::shared_ptr<Device>>& devices, const Placement& placement) {
  OutlinedModel out;
  out.config = read_config(files, path);
  const auto build = [&](WeightProvider& weights) {
    BuildOptions options;
    options.mode = BuildMode::plan;
    out.transformer = build_transformer(*out.config, weights, devices,
                                        placement_or_default(placement, *out.config), options);
  };
  if (path.starts_with(kSyntheticPrefix)) {
    build(*make_synthetic_weights(parse_synthetic_spec(path), ReadScope::layout));
    return out;
  }
  const WeightDirectory directory = WeightDirectory::open(files, path);
  WeightReader reader(directory, {}, ReadScope::layout);
  StoredWeights weights(reader);
  build(weights);
  return out;
}

const Tokenizer& Model::tokenizer() const {
  if (!tokenizer_) throw Error(ErrorCode::unsupported, "{}: the directory has no tokenizer.json", path_);
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
  return tensors_;
}

double Model::bits_per_weight() const {
  (void)config();
  return bits_per_weight_;
}

uint64_t Model::weight_bytes() const {
  (void)config();
  return transformer_ ? transformer_->taken_bytes() : stored_bytes_;
}

const std::shared_ptr<const Transformer>& Model::transformer() const {
  if (!transformer_) not_loaded(path_, "the weights are");
  return transformer_;
}

}  // namespace quire
