// Arranged activations for broad products (arranged.cuh): a row's result is the same as in a step of few
// rows.
#include <algorithm>

#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

class ArrangedRowsTest : public CudaTest {
 protected:
  std::mt19937 random_{std::random_device{}()};
};

// So many rows that a block gathers eight of them.
TEST_F(ArrangedRowsTest, ManyRowsEqualFewRows) {
  constexpr size_t kDepth = 1024, kColumns = 4096, kRows = 1029, kFew = 8;
  ContextLimits limits = small_limits();
  limits.max_tokens = kRows;
  table_->release_context(context_);
  make_context(limits);
  StoredWeight w;
  make_exl2(w, {{5, 384}, {4, 640}}, kColumns, true, random_);
  LinearParams p;
  p.weight = prepare({w.source});
  ASSERT_NE(p.weight, nullptr);
  const std::vector<uint16_t> input = to_halves(random_floats(kRows * kDepth, random_));
  const auto product = [&](size_t first, size_t rows) {
    const auto begin = input.begin() + static_cast<ptrdiff_t>(first * kDepth);
    p.input = to_device(std::vector<uint16_t>(begin, begin + static_cast<ptrdiff_t>(rows * kDepth)));
    p.rows = static_cast<int32_t>(rows);
    p.output_f32 = poisoned<float>(rows * kColumns);
    EXPECT_EQ(table_->linear(context_, &p), Status::ok);
    return from_device(p.output_f32, rows * kColumns);
  };
  const std::vector<float> all = product(0, kRows);
  for (const size_t first : {size_t{0}, size_t{507}, kRows - kFew}) {
    const std::vector<float> few = product(first, kFew);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin() + static_cast<ptrdiff_t>(first * kColumns)))
        << "from row " << first;
  }
}

// A feed-forward block whose matrices use broad tiles on cards with warpgroup products (see GemmShapeTest):
// activations between its kernels are arranged then.
struct ArrangedBlock {
  const char* name;
  int32_t hidden, inner, tokens;
  bool permuted;
};
std::string name_of_arranged(const testing::TestParamInfo<ArrangedBlock>& test) {
  return test.param.name;
}

class ArrangedBlockTest : public CudaTest, public testing::WithParamInterface<ArrangedBlock> {
 protected:
  static constexpr int32_t kFew = 8;
  const int32_t kHidden = GetParam().hidden, kInner = GetParam().inner, kTokens = GetParam().tokens;

  void SetUp() override {
    open(true);
    if (device_ == nullptr) return;
    ContextLimits limits = small_limits();
    limits.max_tokens = std::max(limits.max_tokens, kTokens);
    make_context(limits);
  }
  std::vector<float> run(const std::vector<float>& hidden) {
    block_.num_tokens = static_cast<int32_t>(hidden.size()) / kHidden;
    block_.workspace.hidden = to_device(hidden);
    EXPECT_EQ(table_->mlp_block(context_, &block_), Status::ok);
    return from_device(block_.workspace.hidden, hidden.size());
  }
  void make_block() {
    const std::vector<int32_t> order = random_order(kHidden, random_);
    for (StoredWeight* part : {&gate_, &up_}) {
      make_exl2(*part, {{5, kHidden / 384 * 128}, {4, kHidden - kHidden / 384 * 128}}, kInner, false,
                random_);
      part->row_order = order;
      if (GetParam().permuted) part->source.row_order = part->row_order.data();
    }
    make_exl2(down_, {{5, 512}, {3, kInner - 512}}, kHidden, false, random_);
    for (StoredWeight* part : {&gate_, &up_, &down_}) part->source.prescale = 0.02f;
    block_.norm.weight = to_device(random_floats(kHidden, random_));
    block_.norm.columns = kHidden;
    block_.gate_up = prepare({gate_.source, up_.source});
    block_.down = prepare({down_.source});
    block_.intermediate = kInner;
    block_.workspace.normed = poisoned<uint16_t>(elements(kHidden));
    block_.workspace.gate_up = poisoned<uint16_t>(elements(2 * kInner));
    block_.workspace.activated = poisoned<uint16_t>(elements(kInner));
  }

  size_t elements(int32_t columns) const {
    return static_cast<size_t>(kTokens) * static_cast<size_t>(columns);
  }

  std::mt19937 random_{std::random_device{}()};
  StoredWeight gate_, up_, down_;
  MlpBlockParams block_;
};

TEST_P(ArrangedBlockTest, ManyRowsEqualFewRows) {
  make_block();
  const std::vector<float> hidden = random_floats(elements(kHidden), random_);
  const std::vector<float> all = run(hidden);
  for (const int32_t first : {0, kTokens - kFew}) {
    const auto begin = static_cast<ptrdiff_t>(first) * kHidden, end = begin + kFew * kHidden;
    const std::vector<float> few = run({hidden.begin() + begin, hidden.begin() + end});
    EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin() + begin)) << "from row " << first;
    EXPECT_GT(relative_error(few, std::vector<float>(hidden.begin() + begin, hidden.begin() + end)), 1e-4)
        << "nothing was added";
  }
}

// The last has so many rows that a block of the norm kernel handles eight of them.
INSTANTIATE_TEST_SUITE_P(Shapes, ArrangedBlockTest,
                         testing::Values(ArrangedBlock{"in_order", 3200, 6656, 70, false},
                                         ArrangedBlock{"permuted", 3200, 6656, 70, true},
                                         ArrangedBlock{"many_rows", 768, 1536, 1029, true}),
                         name_of_arranged);

}  // namespace
}  // namespace quire::kernels
