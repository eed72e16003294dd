// Split-K partial sums that blocks of a product exchange, while other products compete for the card.
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

class SplitKTest : public CudaTest {
 protected:
  std::mt19937 random_{std::random_device{}()};
};

// Blocks of one product occupy multiprocessors that blocks of another wait for. A block whose partner is not
// on the card stops waiting and leaves its tile to the last block.
TEST_F(SplitKTest, SplitKSumsAreCompleteWhileOtherProductsRun) {
  constexpr size_t kContexts = 4, kProducts = 8, kDepth = 8192, kColumns = 2048;
  StoredWeight w;
  make_exl2(w, {{4, kDepth}}, kColumns, false, random_);
  Weight* weight = prepare({w.source});
  ASSERT_NE(weight, nullptr);
  for (const size_t rows : {32, 40, 200}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    LinearParams p;
    p.weight = weight;
    p.input = to_device(to_halves(random_floats(rows * kDepth, random_)));
    p.rows = static_cast<int32_t>(rows);
    auto* alone = poisoned<float>(rows * kColumns);
    p.output_f32 = alone;
    ASSERT_EQ(table_->linear(context_, &p), Status::ok);
    const std::vector<float> expected = from_device(alone, rows * kColumns);
    std::vector<Context*> contexts(kContexts, nullptr);
    std::vector<float*> outputs;
    const ContextLimits limits = small_limits();
    for (Context*& context : contexts) {
      ASSERT_EQ(table_->create_context(device_, &limits, &context), Status::ok);
      outputs.push_back(poisoned<float>(rows * kColumns));
    }
    for (size_t i = 0; i < (rows > 64 ? 2 : kProducts); ++i) {
      for (size_t c = 0; c < kContexts; ++c) {
        p.output_f32 = outputs[c];
        EXPECT_EQ(table_->linear(contexts[c], &p), Status::ok);
      }
    }
    for (size_t c = 0; c < kContexts; ++c) {
      EXPECT_EQ(table_->synchronize(contexts[c]), Status::ok);
      EXPECT_EQ(from_device(outputs[c], rows * kColumns), expected) << "context " << c;
      table_->release_context(contexts[c]);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
