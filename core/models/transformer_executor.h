// Runs a transformer for one cache, stage by stage on their devices.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/step/executor.h"
#include "core/step/following_step.h"

namespace quire {

struct TransformerExecutorOptions {
  int32_t max_tokens = 512;  // of one step
  int32_t max_sequences = 64;
  int32_t max_logit_rows = 64;
  int32_t max_draw_edits = 0;  // of all draws of a step
  int32_t max_pages_per_sequence = 0;
  kernels::KvShape kv;  // num_pages, page_tokens, formats; heads come from the transformer
};

// Memory and stream of one stage: the pages of its layers, and activations.
struct StageSpace {
  TransformerMemory memory;
  DeviceContext context;
};

// One thread at a time.
class TransformerExecutor final : public Executor {
 public:
  TransformerExecutor(std::shared_ptr<const Transformer> transformer, const TransformerShape& shape,
                      const TransformerExecutorOptions& options);

  const ExecutorLimits& limits() const override { return limits_; }
  // Enqueues the page copies, the whole step and its draws. Waits only where rows go between backends.
  void forward(const Batch& batch) override;
  bool forward_next(const Batch& next) override;
  Logits logits() override;
  void read_hidden(int32_t first_row, gsl::span<float> out) override;

 private:
  // What comes of the draws of a step.
  struct Drawn {
    std::vector<kernels::SampleOutcome> outcomes;  // [max_logit_rows]: the device keeps its address
    size_t num_rows = 0;

    gsl::span<const kernels::SampleOutcome> rows() const { return {outcomes.data(), num_rows}; }
  };

  bool adopt(const Batch& batch);
  void run_stage(size_t stage_idx, const Batch& batch, bool follows);
  void hand_over(const StageSpace& from, const StageSpace& to, int32_t num_tokens);
  void norm_all_rows(int32_t num_tokens);
  void draw(const DeviceDraws& draws, Drawn& drawn);
  void take_part(const Drawn& whole);
  void read_other_rows(const DeviceDraws& draws);

  std::shared_ptr<const Transformer> transformer_;
  TransformerShape shape_;
  int32_t max_context_;
  ExecutorLimits limits_;
  std::vector<StageSpace> stages_;        // as the transformer's
  std::vector<float> handed_;             // [max_tokens, hidden] between backends; empty where all are of one
  std::unique_ptr<float[]> host_logits_;  // [max_logit_rows, vocab]; untouched where rows are drawn from
  int32_t num_rows_ = 0;
  std::array<Drawn, 2> drawn_;  // of the last forward and of the step behind it, in turn
  size_t current_ = 0;          // the last forward's
  bool is_known_ = false;       // logits() has waited for it
  FollowingStep following_;
  bool is_part_ =
      false;  // the last forward is a part of a step that was issued ahead; `part_` then has its draws
  Drawn part_;
};

}  // namespace quire
