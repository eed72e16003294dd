// A model of one transformer layer on a card, and its steps.
#pragma once

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {

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

}  // namespace quire::kernels
