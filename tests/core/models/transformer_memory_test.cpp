#include "core/models/transformer_memory.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// Returns the table of a device whose allocations take whole pages, or exactly their bytes.
KernelTable table_of(kernels::DType activation_dtype, bool has_pages = false) {
  KernelTable table;
  table.activation_dtype = activation_dtype;
  table.taken_bytes = has_pages ? +[](uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
                                : +[](uint64_t bytes) { return bytes; };
  return table;
}

TransformerShape small_shape() {
  TransformerShape shape;
  shape.num_layers = 3;
  shape.hidden_size = 64;
  shape.rotary_dims = {16};
  shape.vocab_size = 160;
  shape.columns.qkv = 8 * 16;
  shape.columns.attention = 4 * 16;
  shape.columns.gate_up = 2 * 96;
  shape.columns.activated = 96;
  shape.columns.logits = 160;
  shape.caches.assign(3, {2, 16, 16, 0, -1, 0});
  return shape;
}

CachePages small_pages(kernels::KvFormat format) {
  CachePages kv;
  kv.key_format = format;
  kv.value_format = format;
  kv.page_tokens = 4;
  kv.num_pages = 10;
  kv.num_kv_heads = 2;
  kv.head_dim = 16;
  return kv;
}

TEST(TransformerMemoryPlan, CountsEveryByteOfTheCache) {
  const uint64_t elements = 10 * 4 * 2 * 16;
  const auto kv_bytes = [&](kernels::KvFormat format) {
    return plan_transformer_memory(table_of(kernels::DType::f32), small_shape(), small_pages(format), {8, 8})
        .kv_bytes;
  };
  EXPECT_EQ(kv_bytes(kernels::KvFormat::f16), 3 * 2 * elements * 2);
  EXPECT_EQ(kv_bytes(kernels::KvFormat::fp8), 3 * 2 * elements);
  EXPECT_EQ(kv_bytes(kernels::KvFormat::q8), 3 * 2 * (elements + elements / 32 * 2));
  EXPECT_EQ(kv_bytes(kernels::KvFormat::q4), 3 * 2 * (elements / 2 + elements / 32 * 2));
}

TEST(TransformerMemoryPlan, CountsActivationsByTheirType) {
  const uint64_t hidden = 8 * 64 * 4;
  const uint64_t rope = 8 * 8 * 4 * 2;
  const uint64_t logits = 5 * 160 * 4;
  const uint64_t elements = 8 * (64 + 8 * 16 + 4 * 16 + 2 * 96 + 96);
  const TransformerMemoryPlan plan = plan_transformer_memory(table_of(kernels::DType::f16), small_shape(),
                                                             small_pages(kernels::KvFormat::f16), {8, 5});
  EXPECT_EQ(plan.activation_bytes, hidden + rope + logits + elements * 2);
}

TEST(TransformerMemoryPlan, CountsEachLayerByItsOwnKindOfPages) {
  TransformerShape shape = small_shape();
  shape.caches[1] = {1, 32, 16, 8, -1, 0};  // one head, wider keys, selection keys
  shape.caches[2] = {2, 16, 16, 0, 0, 0};   // pages of another layer
  const uint64_t tokens = 10 * 4;
  const TransformerMemoryPlan plan = plan_transformer_memory(table_of(kernels::DType::f32), shape,
                                                             small_pages(kernels::KvFormat::f16), {8, 8});
  EXPECT_EQ(plan.kv_bytes, tokens * 2 * (2 * 16 + 2 * 16) + tokens * 2 * (32 + 16 + 8));
}

TEST(TransformerMemoryPlan, CountsSlotsOfLayersWithAWindow) {
  TransformerShape shape = small_shape();
  shape.caches[0].window = 5;
  shape.caches[1].window = 8;
  CachePages pages = small_pages(kernels::KvFormat::f16);
  pages.windows = {{6, 3}};  // the larger window has no group
  const TransformerMemoryPlan plan =
      plan_transformer_memory(table_of(kernels::DType::f32), shape, pages, {8, 8});
  EXPECT_EQ(plan.kv_bytes, (3U + 10 + 10) * 4 * 2 * 2 * 16 * 2);
}

TEST(TransformerMemoryPlan, AShardThatDoesNotDrawHasItsOwnLogitsAlone) {
  const auto activation_bytes = [](const TransformerShape& shape) {
    return plan_transformer_memory(table_of(kernels::DType::f32), shape, small_pages(kernels::KvFormat::f16),
                                   {8, 5})
        .activation_bytes;
  };
  TransformerShape first = small_shape();
  first.columns.at(kernels::Scratch::slice) = 3;
  first.columns.own_logits = 96;
  TransformerShape second = first;
  second.columns.logits = 0;
  second.columns.own_logits = 64;
  EXPECT_EQ(activation_bytes(first), activation_bytes(small_shape()) + 5 * 96 * 4);
  EXPECT_EQ(activation_bytes(second), activation_bytes(small_shape()) - 5 * 160 * 4 + 5 * 64 * 4);
}

TEST(TransformerMemoryPlan, CountsWholePagesOfEachAllocation) {
  const TransformerMemoryPlan plan = plan_transformer_memory(
      table_of(kernels::DType::f16, true), small_shape(), small_pages(kernels::KvFormat::f16), {8, 5});
  EXPECT_EQ(plan.kv_bytes, 3U * 2 * 4096);      // 2,560 bytes each
  EXPECT_EQ(plan.activation_bytes, 9U * 4096);  // each fits in a page
}

}  // namespace
}  // namespace quire
