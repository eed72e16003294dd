#include "core/models/shard_spec.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace quire {
namespace {

// Shards begin at multiples of the largest of these that gives each of them some: kernels work in such tiles.
constexpr std::array<int32_t, 4> kUnits = {64, 32, 16, 1};

std::vector<int32_t> range(int32_t first, int32_t end) {
  std::vector<int32_t> out(static_cast<size_t>(end - first));
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Makes the layers of a shard out of those of the model, one after another.
class ShardMaker {
 public:
  ShardMaker(const ModelSpec& whole, Shard shard) : whole_(whole), shard_(shard), model_(whole) {}

  ModelSpec make() && {
    model_.kvs.clear();
    const std::vector<bool> cuts_heads = layers_with_cut_heads();
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      LayerSpec& layer = model_.layers[i];
      cut_attention(layer.attention(), cuts_heads[i]);
      FeedForwardPart& part = layer.feed_forward;
      if (part.dense) cut_mlp(*part.dense);
      if (part.experts) {
        cut_mlp(part.experts->expert);
        if (part.experts->shared) cut_mlp(*part.experts->shared);
      }
    }
    model_.head.vocabulary = cut(model_.vocab_size);
    if (model_.head.vocabulary.is_split()) take_own(model_.head.projection, model_.head.vocabulary);
    return std::move(model_);
  }

 private:
  // ---- columns ----

  // As even as units go; not at all where there are fewer than shards.
  ShardColumns cut(int32_t count, int32_t least_unit = 0) const {
    if (count < shard_.num_shards) return {};
    int32_t unit = least_unit;
    if (unit == 0) {
      unit = *std::find_if(kUnits.begin(), kUnits.end(),
                           [&](int32_t of) { return count / of >= shard_.num_shards; });
    }
    ShardColumns out;
    out.rank = shard_.rank;
    for (int32_t r = 0; r < shard_.num_shards; ++r)
      out.starts.push_back(static_cast<int32_t>(int64_t{count / unit} * r / shard_.num_shards) * unit);
    out.starts.push_back(count);
    return out;
  }

  static std::vector<int32_t> own_range(const ShardColumns& columns) {
    const kernels::ColumnSplit split = columns.split();
    return range(split.first(), split.first() + split.own());
  }

  static void take(MatrixPart& part, const std::vector<int32_t>& outputs) {
    std::vector<int32_t> order = outputs;
    if (part.order) {
      for (int32_t& output : order) output = (*part.order)[static_cast<size_t>(output)];
    }
    part.order = std::make_shared<const std::vector<int32_t>>(std::move(order));
  }

  static void take_own(MatrixPart& part, const ShardColumns& columns) { take(part, own_range(columns)); }

  // Of the outputs of all parts side by side, those named, which rise.
  static MatrixParts selected(const MatrixParts& parts, const std::vector<int32_t>& outputs) {
    MatrixParts out;
    int32_t first = 0;
    auto next = outputs.begin();
    for (const MatrixPart& part : parts) {
      const int32_t end = first + part.outputs();
      std::vector<int32_t> of_part;
      for (; next != outputs.end() && *next < end; ++next) of_part.push_back(*next - first);
      first = end;
      if (of_part.empty()) continue;
      out.push_back(part);
      take(out.back(), of_part);
    }
    return out;
  }

  // ---- attention ----

  bool can_cut_heads(const AttentionPart& part) const {
    return part.heads.num_kv_heads >= shard_.num_shards && !part.head_experts &&
           part.qk_norm != kernels::QkNorm::all_heads;
  }

  // Layers that share pages are cut alike.
  std::vector<bool> layers_with_cut_heads() const {
    std::vector<bool> out;
    for (const LayerSpec& layer : whole_.layers) out.push_back(can_cut_heads(layer.attention()));
    const auto source = [&](size_t i) {
      const int32_t layer = whole_.layers[i].attention().kv_source;
      return layer < 0 ? i : static_cast<size_t>(layer);
    };
    for (size_t i = 0; i < out.size(); ++i) out[source(i)] = out[source(i)] && out[i];
    for (size_t i = 0; i < out.size(); ++i) out[i] = out[source(i)];
    return out;
  }

  void cut_attention(AttentionPart& part, bool cuts_heads) {
    KvSpec kv = whole_.kvs[static_cast<size_t>(part.kv_idx)];
    if (cuts_heads) {
      cut_heads(part);
      kv.num_heads = part.heads.num_kv_heads;
    }
    part.kv_idx = kv_index(kv);
    if (part.head_experts) return;
    part.outputs = cut(whole_.hidden_size);
    if (part.outputs.is_split()) take_own(part.output, part.outputs);
  }

  int32_t kv_index(const KvSpec& kv) {
    const auto found = std::find(model_.kvs.begin(), model_.kvs.end(), kv);
    const auto index = static_cast<int32_t>(found - model_.kvs.begin());
    if (found == model_.kvs.end()) model_.kvs.push_back(kv);
    return index;
  }

  // The heads of queries that go with heads of keys, rising.
  static std::vector<int32_t> query_heads(const kernels::AttentionSpec& spec,
                                          const std::vector<int32_t>& of_keys) {
    const int32_t per_key = spec.heads.num_heads / spec.heads.num_kv_heads;
    std::vector<int32_t> out;
    for (const int32_t key : of_keys) {
      for (int32_t i = 0; i < per_key; ++i)
        out.push_back(spec.heads_apart ? key + i * spec.heads.num_kv_heads : key * per_key + i);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  static std::vector<int32_t> columns_of(const std::vector<int32_t>& heads, int32_t width,
                                         int32_t first = 0) {
    std::vector<int32_t> out;
    for (const int32_t head : heads) {
      for (int32_t i = 0; i < width; ++i) out.push_back(first + head * width + i);
    }
    return out;
  }

  void cut_heads(AttentionPart& part) const {
    const kernels::AttentionSpec whole = part;
    const ShardColumns heads = cut(whole.heads.num_kv_heads, 1);
    const std::vector<int32_t> keys = own_range(heads);
    const std::vector<int32_t> queries = query_heads(whole, keys);
    part.heads.num_kv_heads = static_cast<int32_t>(keys.size());
    part.heads.num_heads = static_cast<int32_t>(queries.size());
    if (part.latent) {
      cut_latent(*part.latent, whole, queries);
    } else {
      part.qkv = selected(part.qkv, qkv_outputs(whole, queries, keys));
    }
    cut_vectors(part, queries, keys);
    // Heads that lie apart: the heads of one group of queries after another, and each group is cut alike.
    const int32_t per_key = whole.heads.num_heads / whole.heads.num_kv_heads;
    const int32_t width = value_dim(whole.heads) * (whole.heads_apart ? 1 : per_key);
    part.results = heads;
    for (int32_t& start : part.results.starts) start *= width;
  }

  static std::vector<int32_t> qkv_outputs(const kernels::AttentionSpec& whole,
                                          const std::vector<int32_t>& queries,
                                          const std::vector<int32_t>& keys) {
    std::vector<int32_t> out = columns_of(queries, whole.heads.head_dim);
    const auto add = [&](const std::vector<int32_t>& more) {
      out.insert(out.end(), more.begin(), more.end());
    };
    if (key_columns(whole) != 0) add(columns_of(keys, whole.heads.head_dim, query_columns(whole)));
    if (value_columns(whole) != 0)
      add(columns_of(keys, value_dim(whole.heads), query_columns(whole) + key_columns(whole)));
    return out;
  }

  static void cut_latent(LatentPart& latent, const kernels::AttentionSpec& whole,
                         const std::vector<int32_t>& queries) {
    take(latent.query, columns_of(queries, whole.heads.head_dim));
    const int32_t of_head = whole.heads.head_dim - whole.rotary_dim + value_dim(whole.heads);
    take(latent.expand, columns_of(queries, of_head));
  }

  static void cut_vectors(AttentionPart& part, const std::vector<int32_t>& queries,
                          const std::vector<int32_t>& keys) {
    const auto elements = [](VectorPart& vector, const std::vector<int32_t>& heads, int32_t width) {
      if (!vector.name.empty())
        vector.order = std::make_shared<const std::vector<int32_t>>(columns_of(heads, width));
    };
    elements(part.sinks, queries, 1);
    if (!part.qk_weight_per_head) return;
    elements(part.q_norm, queries, part.heads.head_dim);
    elements(part.k_norm, keys, part.heads.head_dim);
  }

  // ---- feed-forward ----

  void cut_mlp(MlpPart& part) const {
    if (!part.is_sparse) cut_inner(part);
    part.outputs = cut(whole_.hidden_size);
    if (part.outputs.is_split()) take_own(part.down, part.outputs);
  }

  void cut_inner(MlpPart& part) const {
    part.activated = cut(part.intermediate);
    if (!part.activated.is_split()) return;
    std::vector<int32_t> outputs = own_range(part.activated);
    const auto own = outputs.size();
    for (size_t i = 0; part.gated && i < own; ++i) outputs.push_back(part.intermediate + outputs[i]);
    part.gate_up = selected(part.gate_up, outputs);
    part.intermediate = static_cast<int32_t>(own);
  }

  const ModelSpec& whole_;
  const Shard shard_;
  ModelSpec model_;
};

}  // namespace

ModelSpec shard_of(const ModelSpec& model, Shard shard) {
  return shard.num_shards == 1 ? model : ShardMaker(model, shard).make();
}

}  // namespace quire
