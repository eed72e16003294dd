// Runs a transformer on a device for one cache: the engine's Executor.
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
  int32_t max_pages_per_sequence = 0;
  kernels::KvShape kv;  // num_pages, page_tokens, formats; heads come from the transformer
};

// One thread at a time.
class TransformerExecutor {
 public:
  TransformerExecutor(std::shared_ptr<const Transformer> transformer, const TransformerShape& shape,
                      const std::shared_ptr<Device>& device, const TransformerExecutorOptions& options);

  // Enqueues the page copies and the whole step.
  void forward(const Batch& batch);
  // Waits, and gives the rows that the last forward asked for.
  Logits logits();
  // Rows of the residual stream behind the last norm, [n, hidden] from first_row on, of a last batch that
  // wanted them. Behind logits().
  void read_hidden(int32_t first_row, gsl::span<float> out);

 private:
  void copy_pages(const Batch& batch);
  kernels::BatchView bind(const Batch& batch);
  void norm_all_rows(int32_t num_tokens);

  std::shared_ptr<const Transformer> transformer_;
  TransformerShape shape_;
  TransformerExecutorOptions options_;
  TransformerMemory memory_;
  DeviceContext context_;
  std::vector<float> host_logits_;  // [max_logit_rows, vocab]
  int32_t num_rows_ = 0;
};

}  // namespace quire
