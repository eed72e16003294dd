// Runs a transformer for one cache, stage by stage on the devices of the stages.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/layers/expert_slots.h"
#include "core/models/shard_team.h"
#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/step/executor.h"
#include "kernels/interface/host_memory.h"

namespace quire {

struct TransformerExecutorOptions {
  int32_t max_tokens = 512;  // of one step
  int32_t max_sequences = 64;
  int32_t max_logit_rows = 64;
  int32_t max_draw_edits = 0;  // of all draws of a step
  int32_t max_pages_per_sequence = 0;
  int32_t max_seq_len = 0;  // of the longest sequence, in tokens; 0: as many as its pages hold
  CachePages kv;
  // Memory of each card for host experts that stay there between steps.
  uint64_t card_expert_bytes = 0;
  int32_t chunk_pages = 0;                           // pages by which a cache grows or shrinks
  const ThreadFactory* threads = &system_threads();  // for the shards
  bool is_linked = false;  // of a stage alone: rows come from the card of another process
};

// Values in mappings of their own. The heap would hand out a large block as a mapping once, and after it was
// freed keep up to twice its size in each of its arenas.
using HostFloats = std::unique_ptr<float[], kernels::HostMemoryDeleter>;

// Memory and stream of one shard of a stage: the pages of its layers, and activations.
struct StageShardState {
  TransformerMemory memory;
  DeviceContext context;
  int32_t batch_page_tokens = 0;                        // BatchView::page_tokens of its batches
  bool takes_host_experts = false;                      // its context has memory to multiply host experts
  std::unique_ptr<ExpertSlots> expert_slots = nullptr;  // null: its context has no slots
};

// Returns the weights of a model that are on their devices at present; never nullptr when the executor takes
// weights.
using WeightsSource = std::function<std::shared_ptr<const Transformer>()>;

// Limits of a sequence, in tokens.
struct SequenceLimits {
  int32_t context = 0;  // as many as its pages hold
  int32_t longest = 0;  // of the longest sequence allowed
};

struct StageShards {
  std::vector<StageShardState> shards;
  std::optional<ShardCommunicator> communicator;  // only if there are several shards
  std::unique_ptr<RemoteExecutor> remote;         // all of it, if the stage lies in another process

  const StageShardState& first() const { return shards.front(); }
};

// Executor for a transformer. For one thread at a time.
class TransformerExecutor final : public Executor {
 public:
  // Without `source` the executor always computes with `transformer`. With it, `transformer` only provides
  // sizes and devices, so an outline is enough. The executor then computes with the weights that the last
  // call to acquire_weights got from `source`.
  TransformerExecutor(std::shared_ptr<const Transformer> transformer,
                      const TransformerExecutorOptions& options, WeightsSource source = nullptr);

  const ExecutorLimits& limits() const override { return limits_; }
  void acquire_weights() override;
  void release_weights() override;
  void set_num_pages(int32_t num_pages) override;
  void set_breaks(StepBreaks* breaks) override { breaks_ = breaks; }
  ExpertUse expert_use() const override;
  // Waits only if rows are transferred between backends, between stages or for host experts.
  Ticket forward(const Batch& batch) override;
  void draw(Ticket ticket, const DeviceDraws& draws) override;
  Drawn wait(Ticket ticket) override;
  void read_hidden(int32_t first_row, gsl::span<float> out) override;
  uint64_t page_bytes(int32_t table) const override {
    return stored_bytes_.pages[static_cast<size_t>(table)];
  }
  void read_page(int32_t table, PageId page, gsl::span<std::byte> out) override;
  void write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) override;
  uint64_t state_bytes() const override { return stored_bytes_.state; }
  void read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) override;
  void write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) override;

  // For a stage alone (Transformer::is_inner): passes the rows of a batch through its layers, [T, hidden], in
  // place, and waits.
  void run_rows(const Batch& batch, gsl::span<float> rows);
  // The same for rows that are in the residual stream of last_stage already.
  void run_received(const Batch& batch);

  // Memory and context of the last stage's first shard, which computes the logits.
  const StageShardState& last_stage() const { return stages_.back().first(); }
  // Returns the weights that passes use now.
  const Transformer& weights() const { return *weights_.current; }

 private:
  struct Weights {
    std::shared_ptr<const Transformer> current;  // null after release_weights
    const WeightsSource source;                  // may be null
    std::weak_ptr<const Transformer> recorded;   // weights that steps were recorded with
  };
  // Bytes of a page and of a bank of a state slot outside the executor.
  struct StoredBytes {
    std::array<uint64_t, 1 + kMaxWindowGroups> pages{};  // by page table
    uint64_t state = 0;
  };
  // Rows in host memory.
  struct HostRows {
    HostFloats buffer;             // residual stream, [max_tokens, hidden]; empty without remote stages
    const float* input = nullptr;  // of a stage alone, during run_rows
    HostFloats logits;  // [max_logit_rows, vocab]; rows that are sampled on the device are not written
  };
  struct Pass {
    size_t num_rows = 0;
    size_t num_drawn = 0;
    std::vector<kernels::SampleOutcome> outcomes;  // [max_logit_rows]; the device keeps the address
  };

  template <typename Visit>
  void for_each_shard(Visit visit) const {
    for (const StageShards& stage : stages_)
      for (const StageShardState& shard : stage.shards) visit(shard.context);
    if (host_experts_) visit(host_experts_->context);
  }
  template <typename Visit>
  void for_each_remote(Visit visit) const {
    for (const StageShards& stage : stages_)
      if (stage.remote != nullptr) visit(*stage.remote);
  }
  template <typename Visit>
  void for_each_expert_slots(Visit visit) const {
    for (const StageShards& stage : stages_)
      for (const StageShardState& shard : stage.shards)
        if (shard.expert_slots != nullptr) visit(*shard.expert_slots);
  }
  void wait_for_all(std::string_view what);
  void run_stage(size_t stage_idx, const Batch& batch);
  void run_shard(size_t stage_idx, int32_t rank, const Batch& batch);
  void receive_rows(size_t stage_idx, int32_t num_tokens);
  void read_rows(const StageShardState& from, int32_t num_tokens, float* rows) const;
  void write_rows(const StageShardState& to, const float* rows, int32_t num_tokens) const;
  void run_remote(size_t stage_idx, const Batch& batch);
  const StageShardState& home_of(size_t stage_idx) const;
  bool leaves_rows_on_device(size_t stage_idx) const;
  void acquire_remote_weights();
  void norm_all_rows(int32_t num_tokens);
  template <typename PiecesOf, typename Visit>
  void for_each_piece(PiecesOf pieces_of, Visit visit) const;
  template <typename PiecesOf>
  size_t read_pieces(PiecesOf pieces_of, gsl::span<std::byte> out) const;
  template <typename PiecesOf>
  size_t write_pieces(PiecesOf pieces_of, gsl::span<const std::byte> bytes) const;
  StoredBytes count_stored_bytes() const;
  Pass& pass_of(Ticket ticket) { return passes_[ticket.value % passes_.size()]; }
  void sample(const DeviceDraws& draws, Pass& pass);
  void read_other_rows(const DeviceDraws& draws, size_t num_rows);

  Weights weights_;
  SequenceLimits sequence_;
  ExecutorLimits limits_;
  std::vector<StageShards> stages_;  // in the order of the transformer's stages
  std::optional<StageShardState> host_experts_;
  int32_t num_pages_;  // pages that have memory
  const StoredBytes stored_bytes_;
  HostRows rows_;
  StepBreaks* breaks_ = nullptr;
  Ticket last_;
  std::array<Pass, 2> passes_;  // the last pass and the one before it
  std::optional<ShardTeam> team_;
};

}  // namespace quire
