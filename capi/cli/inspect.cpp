// quire inspect: shows the contents of a model directory or a GGUF file, and the memory it takes to run.
// Reads no weights.
#include <map>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct InspectOptions {
  ModelChoice model;
  int64_t context = 0;  // 0 means the model's own
  int32_t batch = 1;
  bool summary = false;
};

struct Tensor {
  std::string name;
  std::string format;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  int32_t layer = -1;

  bool is_matrix() const { return shape.size() >= 2; }
  int64_t num_weights() const {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

// Sizes of the matrices of one layer; for -1, of those that belong to no layer.
struct LayerSize {
  int num_tensors = 0;
  int64_t matrix_weights = 0;
  int64_t matrix_bytes = 0;
  int64_t bytes = 0;

  double bits_per_weight() const {
    return matrix_weights > 0 ? 8.0 * static_cast<double>(matrix_bytes) / static_cast<double>(matrix_weights)
                              : 0.0;
  }
};

struct Memory {
  int64_t context = 0;
  int64_t weight_bytes = 0;
  int64_t drafter_bytes = 0;
  int64_t cache_bytes = 0;
  std::string drafter;  // draft network; empty if there is none

  int64_t total_bytes() const { return weight_bytes + drafter_bytes + cache_bytes; }
};

std::vector<Tensor> read_tensors(quire_model* model) {
  std::vector<Tensor> tensors;
  const int32_t num_tensors = call(quire_model_num_tensors, model);
  tensors.reserve(static_cast<size_t>(num_tensors));
  for (int32_t idx = 0; idx < num_tensors; ++idx) {
    tensors.push_back({.name = text_of(quire_model_tensor_name, model, idx),
                       .format = text_of(quire_model_tensor_format, model, idx),
                       .shape = values_of<int64_t>(quire_model_tensor_shape, model, idx),
                       .bytes = call(quire_model_tensor_bytes, model, idx),
                       .layer = call(quire_model_tensor_layer, model, idx)});
  }
  return tensors;
}

std::map<int32_t, LayerSize> sum_layers(const std::vector<Tensor>& tensors) {
  std::map<int32_t, LayerSize> layers;
  for (const Tensor& tensor : tensors) {
    LayerSize& layer = layers[tensor.layer];
    ++layer.num_tensors;
    layer.bytes += tensor.bytes;
    if (!tensor.is_matrix()) continue;
    layer.matrix_weights += tensor.num_weights();
    layer.matrix_bytes += tensor.bytes;
  }
  return layers;
}

Memory plan_memory(quire_runtime* runtime, quire_model* model, const InspectOptions& options) {
  Memory memory;
  memory.context = options.context > 0 ? options.context : call(quire_model_max_context, model);
  const CacheOptions cache(call(quire_cache_options_create));
  call(quire_cache_options_set_max_seq_len, cache.get(), memory.context);
  call(quire_cache_options_set_max_tokens, cache.get(), memory.context * options.batch);
  call(quire_cache_options_set_max_batch_size, cache.get(), options.batch);
  set_drafting(cache.get(), options.model.drafting);
  memory.weight_bytes = call(quire_model_weight_bytes, model);
  memory.cache_bytes = call(quire_cache_required_bytes, model, cache.get());
  memory.drafter = text_of(quire_model_drafter, model);
  if (memory.drafter.empty()) return memory;
  const ModelOptions planned = choose_model(options.model, text_of(quire_model_path, model));
  const Plan plan = plan_model(runtime, planned.get(), cache.get());
  memory.drafter_bytes = call(quire_plan_drafter_bytes, plan.get());
  memory.cache_bytes = call(quire_plan_kv_bytes, plan.get()) + call(quire_plan_workspace_bytes, plan.get());
  return memory;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

Json to_json(const Tensor& tensor) {
  Json json{
      {"name", tensor.name}, {"format", tensor.format}, {"shape", tensor.shape}, {"bytes", tensor.bytes}};
  if (tensor.layer >= 0) json["layer"] = tensor.layer;
  return json;
}

Json to_json(int32_t layer_idx, const LayerSize& layer) {
  Json json;
  json["layer"] = layer_idx < 0 ? Json() : Json(layer_idx);
  json["num_tensors"] = layer.num_tensors;
  json["weights"] = layer.matrix_weights;
  json["bytes"] = layer.bytes;
  json["bits_per_weight"] = layer.bits_per_weight();
  return json;
}

// Adds the hash of the directory's template, or the reason why it cannot be used; adds nothing if there is
// none.
void add_chat_template(const std::string& path, Json& json) {
  try {
    const ChatTemplate chat(call(quire_chat_template_open, path));
    json["chat_template"] = text_of(quire_chat_template_hash, chat.get());
  } catch (const Error& error) {
    if (error.code() != QUIRE_ERROR_NOT_FOUND) json["chat_template_error"] = error.what();
  }
}

Json describe(quire_model* model, const InspectOptions& options) {
  Json json;
  json["model"] = resolve_model_path(options.model);
  json["architecture"] = text_of(quire_model_architecture, model);
  json["num_layers"] = call(quire_model_num_layers, model);
  json["hidden_size"] = call(quire_model_hidden_size, model);
  json["num_heads"] = call(quire_model_num_heads, model);
  json["num_kv_heads"] = call(quire_model_num_kv_heads, model);
  json["vocab_size"] = call(quire_model_vocab_size, model);
  if (const int32_t size = tokenizer_size(model); size > 0) json["tokenizer_size"] = size;
  json["max_context"] = call(quire_model_max_context, model);
  json["num_shards"] = call(quire_model_num_shards, model);
  json["bits_per_weight"] = call(quire_model_bits_per_weight, model);
  add_chat_template(resolve_model_path(options.model), json);
  return json;
}

void print_as_json(Json json, const std::vector<Tensor>& tensors, const Memory& memory,
                   const InspectOptions& options) {
  json["memory"] = {{"context", memory.context},           {"batch", options.batch},
                    {"weight_bytes", memory.weight_bytes}, {"drafter_bytes", memory.drafter_bytes},
                    {"cache_bytes", memory.cache_bytes},   {"total_bytes", memory.total_bytes()}};
  if (!memory.drafter.empty()) json["memory"]["drafter"] = memory.drafter;
  json["layers"] = Json::array();
  for (const auto& [layer_idx, layer] : sum_layers(tensors))
    json["layers"].push_back(to_json(layer_idx, layer));
  if (!options.summary) {
    json["tensors"] = Json::array();
    for (const Tensor& tensor : tensors) json["tensors"].push_back(to_json(tensor));
  }
  print_json(json);
}

void print_description(const Json& description) {
  Table table({"", ""});
  for (const auto& [key, value] : description.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    const bool fraction = value.is_number_float();
    table.add({name, value.is_string() ? value.get<std::string>()
                     : fraction        ? format_number(value.get<double>(), 3)
                                       : value.dump()});
  }
  print(table.text().substr(1));
}

void print_layers(const std::vector<Tensor>& tensors) {
  Table table({"layer", "tensors", "weights", "bytes", "bits/weight"});
  for (const auto& [layer_idx, layer] : sum_layers(tensors)) {
    table.add({layer_idx < 0 ? "none" : std::to_string(layer_idx), std::to_string(layer.num_tensors),
               std::to_string(layer.matrix_weights), std::to_string(layer.bytes),
               format_number(layer.bits_per_weight(), 3)});
  }
  print("\n" + table.text());
}

void print_tensors(const std::vector<Tensor>& tensors) {
  Table table({"tensor", "format", "shape", "bytes", "bits/weight"});
  for (const Tensor& tensor : tensors) {
    const double bits = 8.0 * static_cast<double>(tensor.bytes) / static_cast<double>(tensor.num_weights());
    table.add({tensor.name, tensor.format, shape_text(tensor.shape), std::to_string(tensor.bytes),
               format_number(bits, 3)});
  }
  print("\n" + table.text());
}

void print_memory(const Memory& memory, const InspectOptions& options) {
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<double>(value)); };
  const int num_shards = options.model.num_shards;
  print_line("\nmemory for " + std::to_string(options.batch) + (options.batch == 1 ? " job" : " jobs") +
             " of " + std::to_string(memory.context) + " tokens" +
             (num_shards > 1 ? ", the cache in " + std::to_string(num_shards) + " shards" : ""));
  print_line("weights  " + bytes(memory.weight_bytes));
  if (memory.drafter_bytes > 0) print_line("drafter  " + bytes(memory.drafter_bytes) + ", " + memory.drafter);
  print_line("cache    " + bytes(memory.cache_bytes));
  print_line("total    " + bytes(memory.total_bytes()));
}

int inspect(const InspectOptions& options, Interrupt& interrupt) {
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_METADATA, interrupt);
  const Json description = describe(model.get(), options);
  const std::vector<Tensor> tensors = read_tensors(model.get());
  const Memory memory = plan_memory(runtime.get(), model.get(), options);
  if (options.model.json) {
    print_as_json(description, tensors, memory, options);
    return kExitOk;
  }
  print_description(description);
  print_layers(tensors);
  if (!options.summary) print_tensors(tensors);
  print_memory(memory, options);
  return kExitOk;
}

constexpr const char* kInspectNotes =
    R"(Reads headers only, never the weights. Bits per weight count everything a matrix has on disk, scales and
orders included.

Examples:
  quire inspect --model DIR --context 8192 --batch 16 --summary
)";

}  // namespace

Command add_inspect(CLI::App& root) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app = root.add_subcommand("inspect", "Show the parts of a model and the memory it needs");
  app->footer(kInspectNotes);
  add_model_options(*app, options->model);
  add_shards_option(*app, options->model);
  add_drafting_options(*app, options->model.drafting);
  app->add_option("--context", options->context, "Tokens of one job (default: the model's context)")
      ->type_name("N")
      ->check(in_range(1, kMaxTokens));
  app->add_option("--batch", options->batch, "Jobs that run at the same time")
      ->type_name("B")
      ->check(in_range(1, 4096))
      ->capture_default_str();
  app->add_flag("--summary", options->summary, "Leave the tensors out");
  return {app, [options](Interrupt& interrupt) { return inspect(*options, interrupt); }};
}

}  // namespace quire::cli
