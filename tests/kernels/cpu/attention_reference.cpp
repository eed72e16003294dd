#include "tests/kernels/cpu/attention_reference.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/interface/half.h"

namespace quire::testing {
namespace {

using kernels::AttentionParams;
using kernels::KvFormat;
using kernels::KvShape;

bool has_scales(KvFormat format) {
  return format == KvFormat::q8 || format == KvFormat::q4;
}

// Computes the 32-point Walsh-Hadamard transform from its definition, for 32 elements `step` apart.
void transform_32(double* x, size_t step) {
  std::vector<double> sums(32, 0.0);
  for (unsigned i = 0; i < 32; ++i) {
    for (unsigned j = 0; j < 32; ++j)
      sums[i] += (__builtin_popcount(i & j) % 2 == 0 ? 1.0 : -1.0) * x[j * step];
  }
  for (size_t i = 0; i < 32; ++i) x[i * step] = sums[i];
}

void undo_transform(std::vector<double>& x) {
  if (x.size() % 64 == 0) {
    for (size_t block = 0; block < x.size(); block += 64) {
      transform_32(x.data() + block, 2);
      transform_32(x.data() + block + 1, 2);
    }
  } else {
    for (size_t block = 0; block < x.size(); block += 32) transform_32(x.data() + block, 1);
  }
  for (double& value : x) value /= 32.0;
}

}  // namespace

PagedCache::PagedCache(const KvShape& shape)
    : shape_(shape),
      keys_(kernels::kv_data_bytes(shape, shape.key_format), 0xff),
      values_(kernels::kv_data_bytes(shape, shape.value_format), 0xff),
      key_scales_(kernels::kv_scale_bytes(shape, shape.key_format) / 2, 0xffff),
      value_scales_(kernels::kv_scale_bytes(shape, shape.value_format) / 2, 0xffff) {}

kernels::KvLayer PagedCache::layer() {
  return {keys_.data(), values_.data(), has_scales(shape_.key_format) ? key_scales_.data() : nullptr,
          has_scales(shape_.value_format) ? value_scales_.data() : nullptr};
}

bool PagedCache::operator==(const PagedCache& other) const {
  return keys_ == other.keys_ && values_ == other.values_ && key_scales_ == other.key_scales_ &&
         value_scales_ == other.value_scales_;
}

size_t PagedCache::row_of(int32_t page, int32_t kv_head, int32_t slot) const {
  return static_cast<size_t>((page * shape_.num_kv_heads + kv_head) * shape_.page_tokens + slot);
}

std::vector<double> PagedCache::key(int32_t page, int32_t kv_head, int32_t slot) const {
  return decode(shape_.key_format, keys_, key_scales_, row_of(page, kv_head, slot));
}

std::vector<double> PagedCache::value(int32_t page, int32_t kv_head, int32_t slot) const {
  return decode(shape_.value_format, values_, value_scales_, row_of(page, kv_head, slot));
}

std::vector<double> PagedCache::decode(KvFormat format, const std::vector<uint8_t>& codes,
                                       const std::vector<uint16_t>& scales, size_t row) const {
  const auto head_dim = static_cast<size_t>(shape_.head_dim);
  std::vector<double> out(head_dim);
  for (size_t d = 0; d < head_dim; ++d) {
    const size_t e = row * head_dim + d;
    const double scale = has_scales(format) ? kernels::half_to_float(scales[e / 32]) : 0.0f;
    switch (format) {
      case KvFormat::f16:
        out[d] = kernels::half_to_float(static_cast<uint16_t>(codes[2 * e] | (codes[2 * e + 1] << 8)));
        break;
      case KvFormat::fp8:
        out[d] = kernels::half_to_float(static_cast<uint16_t>(codes[e] << 8));
        break;
      case KvFormat::q8:
        out[d] = (codes[e] - 128) * scale;
        break;
      case KvFormat::q4:
        out[d] = (((codes[e / 2] >> (4 * (e % 2))) & 15) - 8) * scale;
        break;
    }
  }
  if (has_scales(format)) undo_transform(out);
  return out;
}

StepBatch::StepBatch(const std::vector<Sequence>& sequences, const KvShape& shape, Random& random)
    : page_tokens_(shape.page_tokens) {
  for (const Sequence& s : sequences) {
    stride_ = std::max(stride_, (s.kv_tokens + page_tokens_ - 1) / page_tokens_);
  }
  const std::vector<int32_t> free = random.permutation(shape.num_pages);
  size_t next = 0;
  // Entries that no token needs are -1.
  pages_.assign(sequences.size() * static_cast<size_t>(stride_), -1);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int32_t p = 0; p * page_tokens_ < sequences[s].kv_tokens; ++p) {
      pages_[s * static_cast<size_t>(stride_) + static_cast<size_t>(p)] = free.at(next++);
    }
  }
  set_step(sequences);
}

void StepBatch::set_step(const std::vector<Sequence>& sequences) {
  sequences_ = sequences;
  positions_.clear();
  sequence_of_token_.clear();
  kv_lengths_.clear();
  starts_.assign(1, 0);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int32_t i = sequences[s].kv_tokens - sequences[s].query_tokens; i < sequences[s].kv_tokens; ++i) {
      positions_.push_back(i);
      sequence_of_token_.push_back(static_cast<int32_t>(s));
    }
    starts_.push_back(static_cast<int32_t>(positions_.size()));
    kv_lengths_.push_back(sequences[s].kv_tokens);
  }
}

kernels::BatchView StepBatch::view() const {
  kernels::BatchView view;
  view.num_tokens = num_tokens();
  view.num_sequences = static_cast<int32_t>(sequences_.size());
  for (const Sequence& s : sequences_) {
    view.max_query_tokens = std::max(view.max_query_tokens, s.query_tokens);
    view.max_kv_tokens = std::max(view.max_kv_tokens, s.kv_tokens);
  }
  view.page_table_stride = stride_;
  view.positions = positions_.data();
  view.sequence_of_token = sequence_of_token_.data();
  view.sequence_starts = starts_.data();
  view.kv_lengths = kv_lengths_.data();
  view.page_table = pages_.data();
  return view;
}

int32_t StepBatch::page(int32_t sequence, int32_t position) const {
  return pages_[static_cast<size_t>(sequence * stride_ + position / page_tokens_)];
}

std::vector<double> attention_reference(const AttentionParams& params, const PagedCache& cache,
                                        const StepBatch& batch) {
  const int32_t num_heads = params.heads.num_heads;
  const int32_t group = num_heads / params.heads.num_kv_heads;
  const auto head_dim = static_cast<size_t>(params.heads.head_dim);
  const auto row_floats = static_cast<size_t>(num_heads + 2 * params.heads.num_kv_heads) * head_dim;
  std::vector<double> out;
  for (int32_t t = 0; t < batch.num_tokens(); ++t) {
    for (int32_t h = 0; h < num_heads; ++h) {
      const float* query = static_cast<const float*>(params.qkv) + static_cast<size_t>(t) * row_floats +
                           static_cast<size_t>(h) * head_dim;
      const int32_t last = batch.position(t);
      const int32_t first = params.sliding_window > 0 ? std::max(0, last - params.sliding_window + 1) : 0;
      std::vector<double> weights;
      double maximum = -std::numeric_limits<double>::infinity();
      for (int32_t p = first; p <= last; ++p) {
        const auto key = cache.key(batch.page(batch.sequence(t), p), h / group, p % batch.page_tokens());
        double score =
            static_cast<double>(params.scale) * std::inner_product(key.begin(), key.end(), query, 0.0);
        const double cap = params.softcap;
        if (cap != 0.0) score = cap * std::tanh(score / cap);
        if (params.has_slopes) score -= static_cast<double>(params.slopes[h]) * (last - p);
        weights.push_back(score);
        maximum = std::max(maximum, score);
      }
      double sum = 0.0;
      for (double& weight : weights) sum += weight = std::exp(weight - maximum);
      std::vector<double> total(head_dim, 0.0);
      for (int32_t p = first; p <= last; ++p) {
        const auto value = cache.value(batch.page(batch.sequence(t), p), h / group, p % batch.page_tokens());
        for (size_t d = 0; d < head_dim; ++d)
          total[d] += weights[static_cast<size_t>(p - first)] / sum * value[d];
      }
      out.insert(out.end(), total.begin(), total.end());
    }
  }
  return out;
}

}  // namespace quire::testing
