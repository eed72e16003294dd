// Parts that several conversions share.
#include <cstring>
#include <regex>
#include <stdexcept>

#include "tests/core/models/gguf_conversion.h"

namespace quire::testing {

NameParts parts_of_name(const std::string& name) {
  static const std::regex kLayer(
      R"((?:(?:model|backbone|gpt_neox)\.layers|transformer\.(?:h|blocks))\.(\d+)\.(.*))");
  std::smatch match;
  if (std::regex_match(name, match, kLayer)) return {match[1], match[2]};
  const size_t base = name.find('.');
  const bool is_in_base = name.find('.', base + 1) != std::string::npos;
  return {"", is_in_base ? name.substr(base + 1) : name};
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  const size_t count = tensor.dtype == "F32" ? tensor.bytes.size() / 4 : tensor.bytes.size() / 2;
  std::vector<float> values(count);
  if (tensor.dtype == "F32") {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  if (tensor.dtype != "BF16") throw std::runtime_error(tensor.name + " is not BF16 or F32");
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
    const uint32_t wide = uint32_t{bits} << 16;
    std::memcpy(&values[i], &wide, 4);
  }
  return values;
}

StoredTensor with_floats(const std::string& name, const StoredTensor& like,
                         const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {name, "F32", like.shape, bytes};
}

StoredTensor rows_of(const std::string& name, const StoredTensor& tensor, size_t first, size_t last) {
  const bool is_stack = tensor.shape.size() == 3;
  const size_t outer = is_stack ? static_cast<size_t>(tensor.shape[0]) : 1;
  const auto count = static_cast<size_t>(tensor.shape[is_stack ? 1 : 0]);
  const size_t row_bytes = tensor.bytes.size() / outer / count;
  StoredTensor part = {name, tensor.dtype, tensor.shape, {}};
  part.shape[is_stack ? 1 : 0] = static_cast<int64_t>(last - first);
  for (size_t o = 0; o < outer; ++o)
    part.bytes += tensor.bytes.substr((o * count + first) * row_bytes, (last - first) * row_bytes);
  return part;
}

void add_latent_sizes(const std::string& architecture, const Json& config, GgufBuilder& file) {
  const auto number = [&](const char* field) { return config[field].get<uint32_t>(); };
  const std::string prefix = architecture + ".attention.";
  const uint32_t rotary = number("qk_rope_head_dim");
  file.add_u32(prefix + "kv_lora_rank", number("kv_lora_rank"));
  if (!config["q_lora_rank"].is_null()) file.add_u32(prefix + "q_lora_rank", number("q_lora_rank"));
  file.add_u32(prefix + "key_length", number("kv_lora_rank") + rotary);
  file.add_u32(prefix + "value_length", number("kv_lora_rank"));
  file.add_u32(prefix + "key_length_mla", number("qk_nope_head_dim") + rotary);
  file.add_u32(prefix + "value_length_mla", number("v_head_dim"));
  file.add_u32(architecture + ".rope.dimension_count", rotary);
}

std::vector<StoredTensor> split_latent(const Json& config, const std::string& rest,
                                       const StoredTensor& tensor) {
  if (rest != "self_attn.kv_b_proj.weight") return {};
  const auto heads = config["num_attention_heads"].get<size_t>(),
             key = config["qk_nope_head_dim"].get<size_t>();
  const auto value = config["v_head_dim"].get<size_t>(), rank = config["kv_lora_rank"].get<size_t>();
  const size_t element = tensor.bytes.size() / (heads * (key + value) * rank);
  StoredTensor keys = {"attn_k_b.weight", tensor.dtype, {}, {}},
               values = {"attn_v_b.weight", tensor.dtype, {}, {}};
  for (size_t head = 0; head < heads; ++head) {
    const size_t first = head * (key + value) * rank;
    for (size_t r = 0; r < rank; ++r)
      for (size_t k = 0; k < key; ++k)
        keys.bytes += tensor.bytes.substr((first + k * rank + r) * element, element);
    values.bytes += tensor.bytes.substr((first + key * rank) * element, value * rank * element);
  }
  const auto extent = [](size_t size) { return static_cast<int64_t>(size); };
  keys.shape = {extent(heads), extent(rank), extent(key)};
  values.shape = {extent(heads), extent(value), extent(rank)};
  return {keys, values};
}

void granite_moe(const std::string& architecture, const Json& config, GgufBuilder& file) {
  if (config.contains("shared_intermediate_size"))
    file.add_u32(architecture + ".expert_shared_feed_forward_length",
                 config["shared_intermediate_size"].get<uint32_t>());
}

std::vector<StoredTensor> convert_granite_moe(const Json&, const std::string& rest,
                                              const StoredTensor& tensor) {
  const auto halves = [&](const std::string& ending) {
    const auto half = static_cast<size_t>(tensor.shape[tensor.shape.size() - 2] / 2);
    return std::vector<StoredTensor>{rows_of("ffn_gate_" + ending, tensor, 0, half),
                                     rows_of("ffn_up_" + ending, tensor, half, 2 * half)};
  };
  StoredTensor same = tensor;
  if (rest == "block_sparse_moe.input_linear.weight") return halves("exps.weight");
  if (rest == "shared_mlp.input_linear.weight") return halves("shexp.weight");
  if (rest == "block_sparse_moe.output_linear.weight") {
    same.name = "ffn_down_exps.weight";
  } else if (rest == "shared_mlp.output_linear.weight") {
    same.name = "ffn_down_shexp.weight";
  } else if (rest == "block_sparse_moe.router.layer.weight") {
    same.name = "ffn_gate_inp.weight";
  } else {
    return {};
  }
  return {same};
}

}  // namespace quire::testing
