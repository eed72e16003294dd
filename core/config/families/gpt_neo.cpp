// GPT-Neo: learned positions; every second layer has a window; scores are not divided by sqrt(head_dim).
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys gpt_neo_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.h.";
  keys.attention_norm = "ln_1";
  keys.query = "attn.attention.q_proj";
  keys.key = "attn.attention.k_proj";
  keys.value = "attn.attention.v_proj";
  keys.attention_output = "attn.attention.out_proj";
  keys.mlp_norm = "ln_2";
  keys.up = "mlp.c_fc";
  keys.down = "mlp.c_proj";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

bool is_local(const JsonView& word) {
  const std::string name = word.as_string();
  if (name == "local" || name == "global") return name == "local";
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are global and local",
              word.where(), printable(name, 32));
}

// Returns for each layer whether it has a window. The field is a list of pairs: a list of kinds, and how
// often it is repeated.
std::vector<bool> windows_of_types(const JsonView& types, int32_t num_layers) {
  std::vector<bool> windows;
  for (const JsonView& pair : types.items()) {
    if (!pair.is_array() || pair.elements().size() != 2 || !pair.items().front().is_array())
      throw Error(ErrorCode::format, "{} must be a list of kinds and a number", pair.where());
    const std::vector<JsonView> kinds = pair.items().front().items();
    const int64_t repeats = pair.items().back().as_int(1, 1024);
    for (int64_t i = 0; i < repeats; ++i)
      for (const JsonView& kind : kinds) windows.push_back(is_local(kind));
    if (windows.size() > static_cast<size_t>(num_layers)) break;
  }
  if (windows.size() == static_cast<size_t>(num_layers)) return windows;
  throw Error(ErrorCode::format, "{} must name {} layers", types.where(), num_layers);
}

std::vector<bool> read_windows(const ModelReader& reader) {
  if (const auto types = reader.fields().find("attention_types"))
    return windows_of_types(*types, reader.num_layers());
  std::vector<bool> windows;
  for (int32_t i = 0; i < reader.num_layers(); ++i)
    windows.push_back(reader.layer_is("attention_layers", i, "local", "global").value_or(i % 2 != 0));
  return windows;
}

void gpt_neo(ModelReader& reader) {
  reader.use_learned_positions("transformer.wpe");
  const int32_t window = reader.int_or("window_size", 256, 1, 1 << 30);
  const std::vector<bool> windows = read_windows(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention().scale = 1.0f;
    if (windows[static_cast<size_t>(i)]) layer.attention().sliding_window = window;
  });
}

}  // namespace

const ArchitectureSpec kGptNeo = {.name = "GPTNeoForCausalLM",
                                  .model_type = "gpt_neo",
                                  .keys = gpt_neo_keys(),
                                  .norm = kernels::NormKind::layer,
                                  .gated_mlp = false,
                                  .default_intermediate_ratio = 4,
                                  .attention_output_bias = kAlways,
                                  .mlp_bias = kAlways,
                                  .tied_by_default = true,
                                  .default_activation = "gelu_new",
                                  .default_norm_epsilon = 1e-5,
                                  .default_special_token = 50256,
                                  .refine = gpt_neo};

}  // namespace quire::families
