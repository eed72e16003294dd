// A paged KV cache and a plain reader of it: the reference for append_kv and attention.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/interface/kernel_table.h"
#include "tests/support/quantized_fixture.h"

namespace quire::testing {

// Memory of one layer, filled with bytes that are NaN in every format that has one.
class PagedCache {
 public:
  explicit PagedCache(const kernels::KvShape& shape);
  const kernels::KvShape& shape() const { return shape_; }
  kernels::KvLayer layer();
  // Return one head of one token as stored, in double precision, decoded as docs/formats.md describes.
  std::vector<double> key(int32_t page, int32_t kv_head, int32_t slot) const;
  std::vector<double> value(int32_t page, int32_t kv_head, int32_t slot) const;
  bool operator==(const PagedCache& other) const;

 private:
  std::vector<double> decode(kernels::KvFormat format, const std::vector<uint8_t>& codes,
                             const std::vector<uint16_t>& scales, size_t row) const;
  size_t row_of(int32_t page, int32_t kv_head, int32_t slot) const;

  kernels::KvShape shape_;
  std::vector<uint8_t> keys_;
  std::vector<uint8_t> values_;
  std::vector<uint16_t> key_scales_;
  std::vector<uint16_t> value_scales_;
};

// Sequences whose last tokens are in a step, on pages in random order.
class StepBatch {
 public:
  struct Sequence {
    int32_t kv_tokens;
    int32_t query_tokens;
  };
  StepBatch(const std::vector<Sequence>& sequences, const kernels::KvShape& shape, Random& random);
  // Sets another step of the same sequences and pages.
  void set_step(const std::vector<Sequence>& sequences);

  kernels::BatchView view() const;
  int32_t num_tokens() const { return static_cast<int32_t>(positions_.size()); }
  int32_t page(int32_t sequence, int32_t position) const;
  int32_t position(int32_t token) const { return positions_[static_cast<size_t>(token)]; }
  int32_t sequence(int32_t token) const { return sequence_of_token_[static_cast<size_t>(token)]; }
  int32_t page_tokens() const { return page_tokens_; }

 private:
  int32_t page_tokens_;
  int32_t stride_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> sequence_of_token_;
  std::vector<int32_t> starts_;
  std::vector<int32_t> kv_lengths_;
  std::vector<int32_t> pages_;
};

// Returns [tokens, num_heads * head_dim] for the whole step, in double precision from the stored keys and
// values.
std::vector<double> attention_reference(const kernels::AttentionParams& params, const PagedCache& cache,
                                        const StepBatch& batch);

}  // namespace quire::testing
