// Whole transformer blocks, with and without replay of recorded steps.
#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"
#include "tests/support/exhausted_memory.h"

namespace quire::kernels {
namespace {

// A model of one layer, and its steps.
class BlockTest : public CudaTest {
 protected:
  static constexpr int32_t kHidden = 256, kInner = 512, kVocabulary = 500, kHeads = 8, kKvHeads = 2,
                           kDim = 64;
  // Limits of a step; kPages is the number of pages per sequence for the smallest pages.
  static constexpr int32_t kMaxTokens = 300, kMaxSequences = 3, kPages = 10;

  void make_model(bool permute, KvFormat format = KvFormat::f16, int32_t page_tokens = 32) {
    const auto prepare = [this](const std::vector<WeightSource>& parts) {
      return leaves_ ? prepare_large(parts) : CudaTest::prepare(parts);
    };
    const int32_t table_rows = leaves_ ? 4096 : kVocabulary;
    const std::vector<int32_t> shared = random_order(kHidden, random_);
    const auto ordered = [&](const std::vector<std::pair<int, int>>& layout, int32_t columns) {
      auto w = std::make_unique<StoredWeight>();
      make_exl2(*w, layout, columns, false, random_);
      w->source.prescale = 0.02f;  // keeps activations within f16
      if (permute) {
        w->row_order = shared;
        w->source.row_order = w->row_order.data();
      }
      stored_.push_back(std::move(w));
      return stored_.back()->source;
    };
    const std::vector<std::pair<int, int>> layout{{5, 64}, {4, 128}, {3, 64}};
    qkv_ = prepare({ordered(layout, kHeads * kDim), ordered({{4, 256}}, kKvHeads * kDim),
                    ordered({{6, 64}, {4, 192}}, kKvHeads * kDim)});
    auto output = std::make_unique<StoredWeight>();
    make_exl2(*output, {{4, kHeads * kDim}}, kHidden, permute, random_);
    output->source.prescale = 0.02f;
    output_ = prepare({output->source});
    stored_.push_back(std::move(output));
    gate_up_ = prepare({ordered({{4, 128}, {3, 128}}, kInner), ordered({{5, 64}, {4, 192}}, kInner)});
    auto down = std::make_unique<StoredWeight>();
    make_exl2(*down, {{4, 256}, {3, 256}}, kHidden, permute, random_);
    down->source.prescale = 0.02f;
    down_ = prepare({down->source});
    stored_.push_back(std::move(down));
    auto head = std::make_unique<StoredWeight>();
    make_exl2(*head, {{6, kHidden}}, kVocabulary, permute, random_);
    head->source.prescale = 0.02f;
    head_ = prepare({head->source});
    stored_.push_back(std::move(head));
    norm_ = to_device(random_floats(kHidden, random_));
    const auto table = to_halves(random_floats(static_cast<size_t>(table_rows) * kHidden, random_));
    const TableSource source = {DType::f16, table_rows, kHidden, table.data(), nullptr};
    ASSERT_EQ(table_->prepare_table(device_, &source, &embedding_), Status::ok);
    weights_.push_back(embedding_);
    std::vector<float> frequencies;
    for (int i = 0; i < kDim / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / kDim));
    frequencies_ = to_device(frequencies);
    shape_ = {format, format, page_tokens, kMaxSequences * kPages, kKvHeads, kDim};
    kv_.keys = poisoned<uint8_t>(kv_data_bytes(shape_, format));
    kv_.values = poisoned<uint8_t>(kv_data_bytes(shape_, format));
    if (kv_scale_bytes(shape_, format) > 0) {
      kv_.key_scales = poisoned<uint8_t>(kv_scale_bytes(shape_, format));
      kv_.value_scales = poisoned<uint8_t>(kv_scale_bytes(shape_, format));
    }
    space_.hidden = poisoned<float>(size_t{kMaxTokens} * kHidden);
    space_.normed = poisoned<uint16_t>(size_t{kMaxTokens} * kHidden);
    space_.qkv = poisoned<uint16_t>(size_t{kMaxTokens} * (kHeads + 2 * kKvHeads) * kDim);
    space_.attention = poisoned<uint16_t>(size_t{kMaxTokens} * kHeads * kDim);
    space_.gate_up = poisoned<uint16_t>(size_t{kMaxTokens} * 2 * kInner);
    space_.activated = poisoned<uint16_t>(size_t{kMaxTokens} * kInner);
    space_.rope_cos = poisoned<float>(size_t{kMaxTokens} * kDim / 2);
    space_.rope_sin = poisoned<float>(size_t{kMaxTokens} * kDim / 2);
    space_.logits = poisoned<float>(64 * kVocabulary);
  }

  // Binds a batch of `counts[s]` tokens that follow `past[s]` tokens, with logits for every last token.
  BatchView bind(const std::vector<int32_t>& past, const std::vector<int32_t>& counts) {
    std::vector<int32_t> ids, positions, sequence_of, starts{0}, lengths, pages, rows;
    BatchView host;
    for (size_t s = 0; s < past.size(); ++s) {
      for (int32_t i = 0; i < counts[s]; ++i) {
        positions.push_back(past[s] + i);
        ids.push_back(static_cast<int32_t>((static_cast<size_t>(past[s] + i) * 37 + s * 11) % kVocabulary));
        sequence_of.push_back(static_cast<int32_t>(s));
      }
      starts.push_back(static_cast<int32_t>(ids.size()));
      rows.push_back(static_cast<int32_t>(ids.size()) - 1);
      lengths.push_back(past[s] + counts[s]);
      for (int32_t p = 0; p < kPages; ++p) pages.push_back(static_cast<int32_t>(s) * kPages + p);
      host.max_query_tokens = std::max(host.max_query_tokens, counts[s]);
      host.max_kv_tokens = std::max({host.max_kv_tokens, lengths.back(), kv_bound_});
    }
    host.num_tokens = static_cast<int32_t>(ids.size());
    EXPECT_LE(host.num_tokens, kMaxTokens);
    EXPECT_LE(past.size(), size_t{kMaxSequences});
    host.num_sequences = static_cast<int32_t>(past.size());
    host.num_logit_rows = static_cast<int32_t>(rows.size());
    host.page_table_stride = kPages;
    host.token_ids = ids.data();
    host.positions = positions.data();
    host.sequence_of_token = sequence_of.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = lengths.data();
    host.page_table = pages.data();
    host.logit_rows = rows.data();
    BatchView batch;
    EXPECT_EQ(table_->bind_batch(context_, &host, &batch), Status::ok);
    return batch;
  }

  // Runs one step and returns the logits. fused: composite operations, otherwise primitives.
  std::vector<float> step(const std::vector<int32_t>& past, const std::vector<int32_t>& counts, bool fused,
                          bool* replayed = nullptr) {
    const BatchView batch = bind(past, counts);
    run(batch, fused, replayed);
    std::vector<float> logits(past.size() * kVocabulary);
    EXPECT_EQ(table_->read_rows(context_, space_.logits, batch.num_logit_rows, kVocabulary, logits.data()),
              Status::ok);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    return logits;
  }

  // Issues a step, recorded or not.
  void run(const BatchView& batch, bool fused, bool* replayed = nullptr) {
    for (StepAction action = StepAction::run; action == StepAction::run && !HasFailure();) {
      EXPECT_EQ(table_->begin_step(context_, &batch, &action), Status::ok);
      if (replayed != nullptr) *replayed = action == StepAction::replayed;
      if (action == StepAction::replayed) break;
      issue(batch, fused);
      EXPECT_EQ(table_->end_step(context_, &action), Status::ok);
    }
  }

  // Records a step of three jobs and returns its logits from a replay.
  void record_step(std::vector<float>& logits) {
    step({0, 0, 0}, {30, 20, 10}, true);
    bool replayed = false;
    for (int i = 0; i < 2; ++i) step({30, 20, 10}, {1, 1, 1}, true);
    logits = step({30, 20, 10}, {1, 1, 1}, true, &replayed);
    ASSERT_TRUE(replayed);
  }

  void embed(const BatchView& batch) {
    EmbedParams embed;
    embed.table = embedding_;
    embed.token_ids = batch.token_ids;
    embed.num_tokens = batch.num_tokens;
    embed.hidden = space_.hidden;
    EXPECT_EQ(table_->embed(context_, &embed), Status::ok);
  }

  void issue(const BatchView& batch, bool fused) {
    embed(batch);
    RopeAnglesParams angles;
    angles.inv_freq = frequencies_;
    angles.rotary_dim = kDim;
    angles.positions = batch.positions;
    angles.num_tokens = batch.num_tokens;
    angles.cos = space_.rope_cos;
    angles.sin = space_.rope_sin;
    EXPECT_EQ(table_->rope_angles(context_, &angles), Status::ok);
    NormParams norm;
    norm.weight = norm_;
    norm.columns = kHidden;
    AttentionBlockParams a;
    a.norm = norm;
    a.qkv = qkv_;
    a.output = output_;
    a.heads = {kHeads, kKvHeads, kDim};
    a.rotary_dim = kDim;
    if (head_norm_ != nullptr) {
      a.qk_norm = QkNorm::each_head;
      a.qk_norm_epsilon = 1e-6f;
      a.q_norm = head_norm_;
      a.k_norm = head_norm_ + kDim;
    }
    a.scale = 0.125f;
    a.batch = batch;
    a.kv_shape = shape_;
    a.kv = kv_;
    a.workspace = space_;
    EXPECT_EQ(fused ? table_->attention_block(context_, &a) : composed_attention_block(context_, &a),
              Status::ok);
    MlpBlockParams m;
    m.norm = norm;
    m.gate_up = gate_up_;
    m.down = down_;
    m.intermediate = kInner;
    m.num_tokens = batch.num_tokens;
    m.workspace = space_;
    EXPECT_EQ(fused ? table_->mlp_block(context_, &m) : composed_mlp_block(context_, &m), Status::ok);
    HeadParams h;
    h.norm = norm;
    h.head = head_;
    h.vocab_size = kVocabulary;
    h.batch = batch;
    h.workspace = space_;
    EXPECT_EQ(fused ? table_->head(context_, &h) : composed_head(context_, &h), Status::ok);
  }

  std::vector<std::unique_ptr<StoredWeight>> stored_;
  Weight *qkv_ = nullptr, *output_ = nullptr, *gate_up_ = nullptr, *down_ = nullptr, *head_ = nullptr,
         *embedding_ = nullptr;
  const float* norm_ = nullptr;
  const float* head_norm_ = nullptr;  // norms of queries, then of keys; nullptr: heads are not normalised
  const float* frequencies_ = nullptr;
  bool leaves_ = false;   // whether the weights are large enough to be offloaded
  int32_t kv_bound_ = 0;  // upper bound of the sequences' tokens in the batch
  KvShape shape_;
  KvLayer kv_;
  Workspace space_;
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(BlockTest, ReplayedStepsHaveTheSameBits) {
  make_model(true);
  step({0, 0, 0}, {30, 20, 10}, true);
  bool replayed = false;
  const auto first = step({30, 20, 10}, {1, 1, 1}, true, &replayed);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true), first);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), first);
    EXPECT_TRUE(replayed);
  }
  // Other lengths and tokens with the same graph, compared with a separate step that is not recorded.
  const auto later = step({31, 21, 11}, {1, 1, 1}, true, &replayed);
  EXPECT_TRUE(replayed);
  const auto alone = step({31, 21}, {1, 1}, true);
  EXPECT_EQ(std::memcmp(alone.data(), later.data(), alone.size() * sizeof(float)), 0);
}

// Rows leave and return in the middle of a step, for which the host waits: no such step is recorded.
TEST_F(BlockTest, AStepInWhichTheHostWaitsIsNotRecorded) {
  make_model(true);
  const std::vector<int32_t> none(3, 0), past = {30, 20, 10}, ones(3, 1);
  step(none, past, true);
  const auto expected = step(past, ones, true);
  Context* waiting = nullptr;
  ContextLimits limits = small_limits();
  limits.waits_within_steps = 1;
  limits.handed_columns = kHidden;
  ASSERT_EQ(table_->create_context(device_, &limits, &waiting), Status::ok);
  std::swap(context_, waiting);
  std::vector<float> rows(size_t{3} * kHidden);
  for (int round = 0; round < 4; ++round) {
    const BatchView batch = bind(past, ones);
    StepAction action = StepAction::replayed;
    ASSERT_EQ(table_->begin_step(context_, &batch, &action), Status::ok);
    ASSERT_EQ(action, StepAction::run);
    embed(batch);
    ASSERT_EQ(table_->read_rows(context_, space_.hidden, 3, kHidden, rows.data()), Status::ok);
    ASSERT_EQ(table_->synchronize(context_), Status::ok);
    ASSERT_EQ(table_->write_rows(context_, rows.data(), 3, kHidden, space_.hidden), Status::ok);
    issue(batch, true);
    ASSERT_EQ(table_->end_step(context_, &action), Status::ok);
    EXPECT_EQ(action, StepAction::replayed);
    std::vector<float> logits(expected.size());
    EXPECT_EQ(table_->read_rows(context_, space_.logits, 3, kVocabulary, logits.data()), Status::ok);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    EXPECT_EQ(logits, expected);
  }
  std::swap(context_, waiting);
  table_->release_context(waiting);
}

// Two contexts share one workspace: the second one's results would be overwritten if the first still ran.
TEST_F(BlockTest, APassWaitsForPassesOfOtherContexts) {
  make_model(true);
  const std::vector<int32_t> none(3, 0), past = {30, 20, 10}, ones(3, 1);
  step(none, past, true);
  const auto expected = step(past, ones, true);
  Context* other = nullptr;
  const ContextLimits limits = small_limits();
  ASSERT_EQ(table_->create_context(device_, &limits, &other), Status::ok);
  for (int round = 0; round < 5; ++round) {  // the last rounds are replayed
    const BatchView batch = bind(none, {20, 20, 20});
    for (int i = 0; i < 8; ++i) run(batch, true);
    std::swap(context_, other);
    step(none, past, true);
    EXPECT_EQ(step(past, ones, true), expected);
    std::swap(context_, other);
  }
  table_->release_context(other);
  EXPECT_EQ(step(none, past, true).empty(), false) << "the other context issued work last";
  EXPECT_EQ(step(past, ones, true), expected);
}

// Weights come back in the order of the step, which begins before the last has arrived; recorded steps stay
// valid.
TEST_F(BlockTest, OffloadedWeightsComeBackUnchanged) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  bool replayed = false;
  std::vector<float> expected;
  ASSERT_NO_FATAL_FAILURE(record_step(expected));
  std::rotate(weights_.begin(), weights_.end() - 1, weights_.end());  // the embedding is read first
  MemoryUse at_first, copied, again;
  table_->memory_use(device_, &at_first);
  const uint64_t parked = offload_all();
  EXPECT_EQ(parked % (uint64_t{2} << 20), 0U);
  EXPECT_GE(parked, uint64_t{12} << 20) << "six memory blocks";
  table_->memory_use(device_, &copied);
  EXPECT_EQ(copied.pinned_bytes - at_first.pinned_bytes, parked);
  for (const bool fused : {true, false}) {
    restore_all();
    restore_all();  // a second call copies nothing
    if (num_copies_in_flight()) {
      EXPECT_EQ(num_copies_in_flight(), 6);
      embed(bind({30, 20, 10}, {1, 1, 1}));
      EXPECT_EQ(num_copies_in_flight(), 5) << "the step must not wait for the other weights";
    }
    const auto streamed = step({30, 20, 10}, {1, 1, 1}, fused, &replayed);
    EXPECT_FALSE(replayed && num_copies_in_flight()) << "a recorded step waits for nothing";
    if (fused) {
      EXPECT_EQ(streamed, expected);
    }
    EXPECT_LT(relative_error(streamed, expected), 3e-3);
    EXPECT_EQ(num_copies_in_flight().value_or(0), 0);
    EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
    EXPECT_TRUE(replayed);
    EXPECT_EQ(offload_all(), parked);
    table_->memory_use(device_, &again);
    EXPECT_EQ(again.pinned_bytes, copied.pinned_bytes) << "copied once";
  }
  // Release some weights while they are offloaded, and some while they are being copied.
  for (size_t i = 0; i < weights_.size(); i += 2)
    EXPECT_EQ(table_->bring_weight(device_, weights_[i]), Status::ok);
  for (Weight* weight : weights_) table_->release_weight(device_, weight);
  weights_.clear();
  table_->memory_use(device_, &again);
  EXPECT_EQ(again.pinned_bytes, at_first.pinned_bytes);
  EXPECT_EQ(num_copies_in_flight().value_or(0), 0);
}

// Only the model that is coming back waits for its weights; others on the card replay their steps.
TEST_F(BlockTest, StepsReplayWhileAnotherModelIsCopied) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  bool replayed = false;
  std::vector<float> expected;
  ASSERT_NO_FATAL_FAILURE(record_step(expected));
  const auto table = to_halves(random_floats(size_t{4096} * kHidden, random_));
  Weight* other = nullptr;
  const TableSource source = {DType::f16, 4096, kHidden, table.data(), nullptr};
  ASSERT_EQ(table_->prepare_table(device_, &source, &other), Status::ok);
  ASSERT_EQ(table_->copy_weight(device_, other), Status::ok);
  ASSERT_GT(table_->park_weight(device_, other), 0U);
  ASSERT_EQ(table_->bring_weight(device_, other), Status::ok);
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
  // A step of another kind is not recorded during that time, because its weights are not known yet.
  for (int i = 0; i < 3; ++i) step({30, 20}, {1, 1}, true, &replayed);
  EXPECT_FALSE(replayed && num_copies_in_flight());
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1) << "the step must not wait for the other weight";
  table_->release_weight(device_, other);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
}

TEST_F(BlockTest, AMatrixIsReadOnlyAfterItsCopy) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  std::vector<float> before(size_t{kHidden} * 2 * kInner), after(before.size());
  ASSERT_EQ(table_->dequantize(device_, gate_up_, before.data()), Status::ok);
  offload_all();
  restore_all();
  ASSERT_EQ(table_->dequantize(device_, gate_up_, after.data()), Status::ok);
  EXPECT_EQ(before, after);
}

// Steps allocate no memory of the card: they do without optional allocations such as recordings.
TEST_F(BlockTest, OutOfMemoryStepsAreUnchanged) {
  make_model(true);
  const auto steps = [&] {
    std::vector<std::vector<float>> all;
    all.push_back(step({0, 0, 0}, {100, 30, 20}, true));
    all.push_back(step({0}, {300}, true));
    all.push_back(step({0, 0, 0}, {30, 20, 10}, true));
    // Each multiple of chunks is another kind of step.
    for (int32_t bound = 0; bound <= 60000; bound += 1000) {
      kv_bound_ = bound;
      for (int i = 0; i < 3; ++i) all.push_back(step({30, 20, 10}, {1, 1, 1}, true));
    }
    kv_bound_ = 0;
    return all;
  };
  {
    const ExhaustedMemory taken(*table_, device_);
    EXPECT_EQ(steps(), steps());
  }
  MemoryUse before, after;
  table_->memory_use(device_, &before);
  steps();
  table_->memory_use(device_, &after);
  EXPECT_EQ(after.num_taken, before.num_taken);
}

// With products of cuBLASLt, too, whose kernels may not fit on a full card.
TEST_F(BlockTest, OutOfMemoryStepsOfTheFastModeSucceed) {
  close();
  open(false);
  if (device_ == nullptr) return;
  make_context(small_limits());
  make_model(true);
  std::vector<float> full;
  {
    const ExhaustedMemory taken(*table_, device_);
    full = step({0}, {300}, true);
  }
  EXPECT_LT(relative_error(full, step({0}, {300}, true)), 3e-3);
}

// More kinds of steps than recordings are stored, each run plainly, recorded and replayed.
TEST_F(BlockTest, ManyKindsOfStepsHaveTheSameBits) {
  make_model(true);
  for (int32_t tokens = 1; tokens <= 64; ++tokens) {
    const auto expected = step({0}, {tokens}, true);
    for (int32_t bound = 0; bound <= 60000; bound += 1000) {
      kv_bound_ = bound;
      for (int i = 0; i < 3; ++i) ASSERT_EQ(step({0}, {tokens}, true), expected) << tokens << ", " << bound;
    }
    kv_bound_ = 0;
  }
}

TEST_F(BlockTest, AFailedOperationDuringRecordingDoesNotAffectLaterSteps) {
  make_model(true);
  step({0, 0}, {30, 20}, true);
  const auto expected = step({30, 20}, {1, 1}, true);
  for (int i = 0; i < 2; ++i) {
    const BatchView batch = bind({30, 20}, {1, 1});
    StepAction action = StepAction::replayed;
    ASSERT_EQ(table_->begin_step(context_, &batch, &action), Status::ok);
    ASSERT_EQ(action, StepAction::run);  // the second of its kind: it is recorded
    embed(batch);
    LinearParams product;
    product.weight = embedding_;
    product.rows = batch.num_tokens;
    const Status refused = table_->linear(context_, &product);
    EXPECT_EQ(refused, Status::invalid_argument);
    EXPECT_STREQ(refused.words, "linear: the weight is not a matrix");
  }
  bool replayed = true;
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
}

// One test per page format, because a time limit applies to each test under a sanitizer.
struct BlockPages {
  const char* name;
  KvFormat format;
  int32_t page_tokens;
};
void PrintTo(const BlockPages& pages, std::ostream* out) {
  *out << pages.name;
}
std::string name_of(const testing::TestParamInfo<BlockPages>& test) {
  return test.param.name;
}

class BlockPagesTest : public BlockTest, public testing::WithParamInterface<BlockPages> {
 protected:
  void make_model_of_pages(bool permute) { make_model(permute, GetParam().format, GetParam().page_tokens); }
};

TEST_P(BlockPagesTest, FusedBlocksEqualComposedOnes) {
  for (const bool permute : {false, true}) {
    SCOPED_TRACE(testing::Message() << "permute " << permute);
    // A context belongs to one model: its recordings are that model's steps.
    table_->release_context(context_);
    make_context(small_limits());
    make_model_of_pages(permute);
    for (const auto& [past, counts] :
         {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{0, 0}, {40, 3}}, {{40, 3}, {1, 1}}}) {
      const auto composed = step(past, counts, false);
      const auto fused = step(past, counts, true);
      EXPECT_LT(relative_error(fused, composed), 3e-3);
    }
  }
}

TEST_P(BlockPagesTest, ResultsDoNotDependOnBatchOrChunks) {
  make_model_of_pages(true);
  const auto whole = step({0, 0, 0}, {40, 33, 50}, true);
  const auto alone = step({0}, {40}, true);
  EXPECT_EQ(std::memcmp(alone.data(), whole.data(), alone.size() * sizeof(float)), 0);
  step({0}, {17}, true);
  step({17}, {22}, true);
  EXPECT_EQ(step({39}, {1}, true), alone);
  // Beyond the first chunk of keys, so that chunks are merged.
  const auto late = step({0}, {140}, true);
  step({0}, {128}, true);
  std::vector<float> last;
  for (int32_t position = 128; position < 140; ++position) last = step({position}, {1}, true);
  EXPECT_EQ(last, late);
  // So many tokens that attention leaves the row order to a gather.
  const auto many = step({0}, {300}, true);
  step({0}, {250}, true);
  EXPECT_EQ(step({250}, {50}, true), many);
}

// The attention kernel appends a single token, another kernel appends many.
TEST_P(BlockPagesTest, ResultsWithHeadNormsDoNotDependOnTheBatch) {
  make_model_of_pages(true);
  const auto plain = step({0}, {40}, true);
  head_norm_ = to_device(random_floats(2 * kDim, random_));
  const auto whole = step({0}, {40}, true);
  EXPECT_GT(relative_error(whole, plain), 1e-4);
  EXPECT_LT(relative_error(step({0}, {40}, false), whole), 3e-3);
  step({0}, {39}, true);
  EXPECT_EQ(step({39}, {1}, true), whole);
}

// Jobs with draft tokens: the first one's tokens lie in two chunks of keys, and its rows in two tiles.
TEST_P(BlockPagesTest, DraftTokensEqualSingleTokens) {
  make_model_of_pages(true);
  const auto of = [](const std::vector<float>& logits, size_t sequence) {
    const auto first = logits.begin() + static_cast<ptrdiff_t>(sequence * kVocabulary);
    return std::vector<float>(first, first + kVocabulary);
  };
  const float* const other = to_device(random_floats(2 * kDim, random_));
  for (const bool normed : {false, true}) {
    head_norm_ = normed ? to_device(random_floats(2 * kDim, random_)) : nullptr;
    for (const int32_t past : {124, 126}) {
      SCOPED_TRACE(testing::Message() << past << " tokens before, normed " << normed);
      step({0, 0, 0}, {past, 31, 140}, true);
      std::vector<std::vector<float>> alone;
      for (int32_t i = 0; i < 6; ++i) alone.push_back(step({past + i, 31 + i, 140 + i}, {1, 1, 1}, true));
      const float* const own = std::exchange(head_norm_, other);  // leaves other keys in the cache
      step({past, 31, 140}, {6, 6, 6}, true);
      head_norm_ = own;
      const auto drafts = step({past, 31, 140}, {5, 2, 3}, true);
      EXPECT_EQ(of(drafts, 0), of(alone[4], 0));
      EXPECT_EQ(of(drafts, 1), of(alone[1], 1));
      EXPECT_EQ(of(drafts, 2), of(alone[2], 2));
      const auto next = step({past + 5, 33, 143}, {1, 1, 1}, true);
      EXPECT_EQ(of(next, 0), of(alone[5], 0));
      EXPECT_EQ(of(next, 1), of(alone[2], 1));
      EXPECT_EQ(of(next, 2), of(alone[3], 2));
    }
  }
}

// A job without drafts comes before those with drafts, in any order of jobs.
TEST_P(BlockPagesTest, DraftTokensBesideSingleTokensEqualThemAlone) {
  make_model_of_pages(false);
  step({0, 0, 0}, {40, 126, 9}, true);
  const auto single = step({40}, {1}, true);
  const auto together = step({40, 126, 9}, {1, 5, 4}, true);
  EXPECT_EQ(std::vector<float>(together.begin(), together.begin() + kVocabulary), single);
  std::vector<float> last;
  for (int32_t i = 0; i < 5; ++i) last = step({40, 126 + i}, {1, 1}, true);
  EXPECT_EQ(std::vector<float>(together.begin() + kVocabulary, together.begin() + 2 * kVocabulary),
            std::vector<float>(last.begin() + kVocabulary, last.end()));
}

INSTANTIATE_TEST_SUITE_P(Pages, BlockPagesTest,
                         testing::Values(BlockPages{"f16_of_32", KvFormat::f16, 32},
                                         BlockPages{"f16_of_256", KvFormat::f16, 256},
                                         BlockPages{"q8_of_256", KvFormat::q8, 256},
                                         BlockPages{"q4_of_128", KvFormat::q4, 128}),
                         name_of);

class BlockChunksTest : public BlockPagesTest {};

// The number of chunks selects the attention kernel, but does not change its results or the cache.
TEST_P(BlockChunksTest, ManyAndFewChunksHaveTheSameBits) {
  make_model_of_pages(true);
  std::vector<int32_t> past{127, 40, 300};
  step({0, 0, 0}, {1, 1, 150}, true);
  step({0, 0, 150}, {1, 1, 150}, true);
  step({0, 0, 300}, {127, 25, 1}, true);
  step({127, 25, 300}, {1, 15, 1}, true);
  for (int i = 0; i < 3; ++i) {
    kv_bound_ = 0;
    const auto few = step(past, {1, 1, 1}, true);
    for (const int32_t bound : {1000, 60000}) {
      kv_bound_ = bound;
      EXPECT_EQ(step(past, {1, 1, 1}, true), few) << bound;
    }
    kv_bound_ = 0;
    EXPECT_EQ(step(past, {1, 1, 1}, true), few);
    for (int32_t& p : past) ++p;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, BlockChunksTest,
                         testing::Values(BlockPages{"f16_of_256", KvFormat::f16, 256},
                                         BlockPages{"q8_of_256", KvFormat::q8, 256},
                                         BlockPages{"q4_of_128", KvFormat::q4, 128}),
                         name_of);

}  // namespace
}  // namespace quire::kernels
