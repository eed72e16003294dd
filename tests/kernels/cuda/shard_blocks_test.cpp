// Blocks of which shards have some columns: fused and gathered, they give the result of the composed blocks
// of a whole model.
#include <algorithm>
#include <numeric>

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

constexpr int32_t kHidden = 256, kInner = 512, kVocabulary = 500, kHeads = 8, kKvHeads = 2, kDim = 64;
constexpr int32_t kMaxTokens = 70, kPageTokens = 32, kPages = 4, kShards = 2;

// Stands for a communicator. Shards run one after another, several times: each gather takes the slices that
// the other shards left at the same place of their last run, so a run is right once all runs before it have
// made the right slices.
class ReplayedGathers {
 public:
  ReplayedGathers(const KernelTable& table, Device* device) : real_(table), table_(table), device_(device) {
    table_.all_gather = gather;
    current() = this;
  }
  ~ReplayedGathers() { current() = nullptr; }

  // Lets a context gather here until the end of the run.
  void begin_run(Context* context) {
    reinterpret_cast<ContextHeader*>(context)->table = &table_;
    next_ = 0;
  }
  void end_run(Context* context) { reinterpret_cast<ContextHeader*>(context)->table = &real_; }
  size_t num_gathers() const { return slices_.size(); }

 private:
  static ReplayedGathers*& current() {
    static ReplayedGathers* gathers = nullptr;
    return gathers;
  }
  static Status gather(Context* context, const AllGatherParams* params) {
    return current()->gather_rows(context, *params);
  }

  Status gather_rows(Context* context, const AllGatherParams& params) {
    const ColumnSplit& columns = params.columns;
    const auto rows = static_cast<size_t>(params.rows);
    const size_t element = dtype_bytes(params.dtype);
    if (next_ == slices_.size()) slices_.emplace_back(kShards);
    std::vector<std::vector<uint8_t>>& of_shards = slices_[next_++];
    std::vector<uint8_t>& own = of_shards[static_cast<size_t>(columns.rank)];
    own.resize(rows * static_cast<size_t>(columns.own()) * element);
    if (const Status s = real_.synchronize(context); s != Status::ok) return s;
    const size_t own_bytes = own.size() / rows;
    const size_t stride =
        params.input_stride != 0 ? static_cast<size_t>(params.input_stride) * element : own_bytes;
    for (size_t row = 0; row < rows; ++row) {
      const Status s = real_.download(device_, own.data() + row * own_bytes,
                                      static_cast<const uint8_t*>(params.input) + row * stride, own_bytes);
      if (s != Status::ok) return s;
    }
    const size_t row_bytes = static_cast<size_t>(columns.total()) * element;
    std::vector<uint8_t> all(rows * row_bytes);
    for (size_t r = 0; r < of_shards.size(); ++r) {
      const size_t width = static_cast<size_t>(columns.starts[r + 1] - columns.starts[r]) * element;
      for (size_t row = 0; row < rows && !of_shards[r].empty(); ++row) {
        const size_t first = static_cast<size_t>(columns.starts[r]) * element;
        std::memcpy(&all[row * row_bytes + first], &of_shards[r][row * width], width);
      }
    }
    if (params.place != nullptr)
      if (const Status s = put_in_place(params, all); s != Status::ok) return s;
    return real_.upload(device_, params.output, all.data(), all.size());
  }

  // Moves the columns of f16 rows to their places.
  Status put_in_place(const AllGatherParams& params, std::vector<uint8_t>& rows) const {
    const auto columns = static_cast<size_t>(params.columns.total());
    std::vector<int32_t> place(columns);
    const Status s = real_.download(device_, place.data(), params.place, columns * sizeof(int32_t));
    const std::vector<uint8_t> from = rows;
    for (size_t i = 0; i < rows.size() / 2; ++i) {
      const size_t to = i / columns * columns + static_cast<size_t>(place[i % columns]);
      std::memcpy(&rows[2 * to], &from[2 * i], 2);
    }
    return s;
  }

  const KernelTable& real_;
  KernelTable table_;
  Device* device_;
  size_t next_ = 0;
  std::vector<std::vector<std::vector<uint8_t>>> slices_;  // [gathers of a run][shards]
};

std::vector<int32_t> range(int32_t first, int32_t end, int32_t offset = 0) {
  std::vector<int32_t> out(static_cast<size_t>(end - first));
  std::iota(out.begin(), out.end(), first + offset);
  return out;
}

// The matrices of one shard, or of the whole model, and the columns that it has.
struct ShardModel {
  Weight *qkv = nullptr, *output = nullptr, *gate_up = nullptr, *down = nullptr, *head = nullptr;
  int32_t heads = kHeads, kv_heads = kKvHeads, inner = kInner;
  ColumnSplit results, activated, hidden, vocabulary;
  KvLayer kv;
};

struct ShardCase {
  const char* name;
  bool has_post_norm;
};
void PrintTo(const ShardCase& test, std::ostream* out) {
  *out << test.name;
}

class ShardBlocksTest : public CudaTest, public testing::WithParamInterface<ShardCase> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    // Rows of the last matrices of blocks have an order of their own, as EXL2 files have them.
    for (const auto& [rows, columns, permute] : {std::tuple{kHidden, kHeads * kDim, false},
                                                 {kHidden, kKvHeads * kDim, false},
                                                 {kHidden, kKvHeads * kDim, false},
                                                 {kHeads * kDim, kHidden, true},
                                                 {kHidden, kInner, false},
                                                 {kHidden, kInner, false},
                                                 {kInner, kHidden, true},
                                                 {kHidden, kVocabulary, false}}) {
      stored_.push_back(std::make_unique<StoredWeight>());
      make_exl2(*stored_.back(), {{4, rows}}, columns, permute, random_);
      stored_.back()->source.prescale = 0.02f;  // keeps activations within f16
    }
    norm_ = to_device(random_floats(kHidden, random_));
    hidden_ = random_floats(size_t{kMaxTokens} * kHidden, random_);
    take_workspace();
  }

  void take_workspace() {
    space_.hidden = to_device(hidden_);
    space_.normed = poisoned<uint16_t>(size_t{kMaxTokens} * kHidden);
    space_.qkv = poisoned<uint16_t>(size_t{kMaxTokens} * (kHeads + 2 * kKvHeads) * kDim);
    space_.attention = poisoned<uint16_t>(size_t{kMaxTokens} * kHeads * kDim);
    space_.gate_up = poisoned<uint16_t>(size_t{kMaxTokens} * 2 * kInner);
    space_.activated = poisoned<uint16_t>(size_t{kMaxTokens} * kInner);
    space_.rope_cos = to_device(std::vector<float>(size_t{kMaxTokens} * kDim / 2, 1.0f));
    space_.rope_sin = to_device(std::vector<float>(size_t{kMaxTokens} * kDim / 2, 0.0f));
    space_.logits = poisoned<float>(kVocabulary);
    for (const Scratch kind : {Scratch::projected, Scratch::slice})
      space_.scratch[static_cast<size_t>(kind)] = poisoned<float>(size_t{kMaxTokens} * kInner);
  }

  // Returns a matrix with some of its columns; all of them if there are none.
  WeightSource slice(size_t matrix, const std::vector<int32_t>& columns) {
    WeightSource source = stored_[matrix]->source;
    if (columns.empty()) return source;
    orders_.push_back(std::make_unique<std::vector<int32_t>>(columns));
    source.column_order = orders_.back()->data();
    source.num_out = static_cast<int32_t>(columns.size());
    return source;
  }

  void make_cache(ShardModel& model) {
    const KvShape shape = kv_shape(model);
    model.kv.keys = poisoned<uint8_t>(kv_data_bytes(shape, KvFormat::f16));
    model.kv.values = poisoned<uint8_t>(kv_data_bytes(shape, KvFormat::f16));
  }

  ShardModel whole() {
    ShardModel model;
    model.qkv = prepare({slice(0, {}), slice(1, {}), slice(2, {})});
    model.output = prepare({slice(3, {})});
    model.gate_up = prepare({slice(4, {}), slice(5, {})});
    model.down = prepare({slice(6, {})});
    model.head = prepare({slice(7, {})});
    make_cache(model);
    return model;
  }

  ShardModel shard(int32_t rank) {
    const auto own = [&](const std::vector<int32_t>& starts) {
      return range(starts[static_cast<size_t>(rank)], starts[static_cast<size_t>(rank) + 1]);
    };
    ShardModel model;
    model.heads = kHeads / kShards;
    model.kv_heads = kKvHeads / kShards;
    const std::vector<int32_t> of_keys = range(rank * kDim, (rank + 1) * kDim);
    model.qkv = prepare({slice(0, own(result_starts_)), slice(1, of_keys), slice(2, of_keys)});
    model.output = prepare({slice(3, own(hidden_starts_))});
    model.gate_up = prepare({slice(4, own(inner_starts_)), slice(5, own(inner_starts_))});
    model.down = prepare({slice(6, own(hidden_starts_))});
    model.head = prepare({slice(7, own(vocabulary_starts_))});
    model.inner = static_cast<int32_t>(own(inner_starts_).size());
    model.results = {result_starts_.data(), kShards, rank};
    model.activated = {inner_starts_.data(), kShards, rank};
    model.hidden = {hidden_starts_.data(), kShards, rank};
    model.vocabulary = {vocabulary_starts_.data(), kShards, rank};
    make_cache(model);
    return model;
  }

  static KvShape kv_shape(const ShardModel& model) {
    return {KvFormat::f16, KvFormat::f16, kPageTokens, kPages, model.kv_heads, kDim};
  }

  BatchView bind(int32_t tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(tokens), 0), positions = range(0, tokens);
    const std::vector<int32_t> starts{0, tokens}, pages = range(0, kPages), rows{tokens - 1};
    BatchView host;
    host.num_tokens = host.max_query_tokens = host.max_kv_tokens = tokens;
    host.num_sequences = host.num_logit_rows = 1;
    host.page_table_stride = kPages;
    host.token_ids = host.sequence_of_token = ids.data();
    host.positions = positions.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = &starts[1];
    host.page_table = pages.data();
    host.logit_rows = rows.data();
    BatchView batch;
    EXPECT_EQ(table_->bind_batch(context_, &host, &batch), Status::ok);
    return batch;
  }

  NormParams norm() const {
    NormParams out;
    out.weight = norm_;
    out.columns = kHidden;
    return out;
  }

  void attend(const ShardModel& model, const BatchView& batch, bool fused) {
    const NormParams post_norm = norm();
    AttentionBlockParams a;
    a.norm = norm();
    a.qkv = model.qkv;
    a.output = model.output;
    a.heads = {model.heads, model.kv_heads, kDim};
    a.rotary_dim = kDim;
    a.scale = 0.125f;
    a.batch = batch;
    a.kv_shape = kv_shape(model);
    a.kv = model.kv;
    a.workspace = space_;
    a.results = model.results;
    a.outputs = model.hidden;
    if (GetParam().has_post_norm) a.post_norm = &post_norm;
    EXPECT_EQ(fused ? table_->attention_block(context_, &a) : composed_attention_block(context_, &a),
              Status::ok);
  }

  void feed_forward(const ShardModel& model, const BatchView& batch, bool fused) {
    const NormParams post_norm = norm();
    MlpBlockParams m;
    m.norm = norm();
    m.gate_up = model.gate_up;
    m.down = model.down;
    m.intermediate = model.inner;
    m.num_tokens = batch.num_tokens;
    m.workspace = space_;
    m.activated = model.activated;
    m.outputs = model.hidden;
    if (GetParam().has_post_norm) m.post_norm = &post_norm;
    EXPECT_EQ(fused ? table_->mlp_block(context_, &m) : composed_mlp_block(context_, &m), Status::ok);
  }

  void head(const ShardModel& model, const BatchView& batch, bool fused) {
    HeadParams h;
    h.norm = norm();
    h.head = model.head;
    h.vocab_size = kVocabulary;
    h.vocabulary = model.vocabulary;
    h.batch = batch;
    h.workspace = space_;
    EXPECT_EQ(fused ? table_->head(context_, &h) : composed_head(context_, &h), Status::ok);
  }

  // Returns what a layer adds to the residual stream, then the logits of the last token.
  std::vector<float> run(const ShardModel& model, int32_t tokens, bool fused) {
    EXPECT_EQ(table_->upload(device_, space_.hidden, hidden_.data(), hidden_.size() * sizeof(float)),
              Status::ok);
    const BatchView batch = bind(tokens);
    attend(model, batch, fused);
    feed_forward(model, batch, fused);
    head(model, batch, fused);
    std::vector<float> out = from_device(space_.hidden, static_cast<size_t>(tokens) * kHidden);
    for (size_t i = 0; i < out.size(); ++i) out[i] -= hidden_[i];
    const std::vector<float> logits = from_device(space_.logits, kVocabulary);
    out.insert(out.end(), logits.begin(), logits.end());
    return out;
  }

  // Starts of the columns of each shard; shares are uneven where they can be.
  const std::vector<int32_t> result_starts_{0, kHeads*kDim / 2, kHeads*kDim}, inner_starts_{0, 192, kInner},
      hidden_starts_{0, 96, kHidden}, vocabulary_starts_{0, 200, kVocabulary};
  std::vector<std::unique_ptr<StoredWeight>> stored_;  // q, k, v, o, gate, up, down, head
  std::vector<std::unique_ptr<std::vector<int32_t>>> orders_;
  const float* norm_ = nullptr;
  std::vector<float> hidden_;
  Workspace space_;
  std::mt19937 random_{std::random_device{}()};
};

TEST_P(ShardBlocksTest, GatheredColumnsEqualComposedBlocksOfTheWhole) {
  const ShardModel all = whole();
  const ShardModel shards[] = {shard(0), shard(1)};
  for (const int32_t tokens : {1, kMaxTokens}) {
    SCOPED_TRACE(tokens);
    const std::vector<float> expected = run(all, tokens, false);
    EXPECT_LT(relative_error(run(all, tokens, true), expected), 3e-3);
    ReplayedGathers gathers(*table_, device_);
    std::vector<float> given[kShards];
    // A layer and the head gather five times: results, o, activated columns, down, logits.
    constexpr size_t kGathers = 5;
    for (size_t round = 0; round <= kGathers; ++round) {
      for (const size_t rank : {0, 1}) {
        gathers.begin_run(context_);
        given[rank] = run(shards[rank], tokens, true);
        gathers.end_run(context_);
      }
    }
    EXPECT_EQ(gathers.num_gathers(), kGathers);
    EXPECT_EQ(given[0], given[1]);
    EXPECT_LT(relative_error(given[0], expected), 3e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, ShardBlocksTest,
                         testing::Values(ShardCase{"plain", false}, ShardCase{"post_norm", true}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace quire::kernels
