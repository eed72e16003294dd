// Last step of reading a model: derived data and checks of its parts against each other.
#include <algorithm>

#include "core/base/error.h"
#include "core/config/model_reader.h"

namespace quire {
namespace {

int32_t kv_index(ModelSpec& model, const KvSpec& kv) {
  const auto found = std::find(model.kvs.begin(), model.kvs.end(), kv);
  if (found != model.kvs.end()) return static_cast<int32_t>(found - model.kvs.begin());
  model.kvs.push_back(kv);
  return static_cast<int32_t>(model.kvs.size()) - 1;
}

void finish_attention(const ConfigFields& fields, ModelSpec& model, AttentionPart& part) {
  KvSpec kv = {part.heads.num_kv_heads, part.heads.head_dim, value_dim(part.heads), 0, part.sliding_window};
  if (part.chunk > 0) kv.window = part.chunk;
  if (part.indexer) kv.index_dim = index_columns(*part.indexer);
  part.kv_idx = kv_index(model, kv);
  if (part.heads.num_heads % part.heads.num_kv_heads != 0) {
    throw Error(ErrorCode::format, "{}.num_key_value_heads: {} does not divide {} heads", fields.where(),
                part.heads.num_kv_heads, part.heads.num_heads);
  }
}

}  // namespace

void finish_model(const ConfigFields& fields, ModelSpec& model) {
  for (LayerSpec& layer : model.layers) {
    if (AttentionPart* const attention = layer.find_attention()) finish_attention(fields, model, *attention);
    if (layer.experts() == nullptr) continue;
    const ExpertsPart& experts = *layer.experts();
    if (experts.num_chosen > experts.num_experts || experts.num_experts % experts.num_groups != 0 ||
        experts.chosen_groups > experts.num_groups) {
      throw Error(ErrorCode::format, "{}: cannot choose {} of {} experts in {} of {} groups", fields.where(),
                  experts.num_chosen, experts.num_experts, experts.chosen_groups, experts.num_groups);
    }
  }
}

}  // namespace quire
