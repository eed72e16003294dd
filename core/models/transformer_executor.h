// Runs a transformer for one cache, stage by stage on their devices: the engine's Executor.
#pragma once

#include <memory>
#include <vector>

#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/step/batch.h"

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
class TransformerExecutor {
 public:
  TransformerExecutor(std::shared_ptr<const Transformer> transformer, const TransformerShape& shape,
                      const TransformerExecutorOptions& options);

  // Enqueues the page copies, the whole step and its draws. Waits only where rows go between backends.
  void forward(const Batch& batch);
  // Waits, and gives the rows that the last forward asked for.
  Logits logits();
  // Rows of the residual stream behind the last norm, [n, hidden] from first_row on, of a last batch that
  // wanted them. Behind logits().
  void read_hidden(int32_t first_row, gsl::span<float> out);

 private:
  void run_stage(size_t stage_idx, const Batch& batch);
  void hand_over(const StageSpace& from, const StageSpace& to, int32_t num_tokens);
  void norm_all_rows(int32_t num_tokens);
  void draw(const DeviceDraws& draws);
  void read_other_rows(const DeviceDraws& draws);

  std::shared_ptr<const Transformer> transformer_;
  TransformerShape shape_;
  std::vector<StageSpace> stages_;        // as the transformer's
  std::vector<float> handed_;             // [max_tokens, hidden] between backends; empty where all are of one
  std::unique_ptr<float[]> host_logits_;  // [max_logit_rows, vocab]; untouched where rows are drawn from
  std::vector<kernels::SampleOutcome> outcomes_;
  int32_t num_rows_ = 0;
};

}  // namespace quire
