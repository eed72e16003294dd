// Draft network of a transformer: its passes beside those of the target's executor.
#pragma once

#include "core/models/transformer_executor.h"

namespace quire {

// Returns the options of a draft network's executor: the pages of the target's, and a step that holds the
// tokens of any step of the target and one more for each sequence.
TransformerExecutorOptions draft_executor_options(const DraftTransformer& drafter,
                                                  const TransformerExecutorOptions& target);

// For the thread of the target's executor.
class TransformerDraftNetwork final : public DraftNetwork {
 public:
  // `target` must outlive this. `source` is like that of the executor, for the network's own weights.
  TransformerDraftNetwork(const std::shared_ptr<const DraftTransformer>& drafter,
                          const TransformerExecutor& target, const TransformerExecutorOptions& target_options,
                          WeightsSource source);

  const DraftNetworkLimits& limits() const override { return limits_; }
  void forward(const Batch& batch, const DraftStates& states) override;
  Drawn draw(const DeviceDraws& draws) override;

  // The executor that computes the passes, for pages and weights.
  TransformerExecutor& executor() { return network_; }
  const TransformerExecutor& executor() const { return network_; }

 private:
  // Returns the arguments of an operation on rows, outside of a pass.
  ForwardPass rows_pass(int32_t num_rows);
  void read_states(const DraftStates& states);
  void keep_states(const Batch& batch);

  // Copies, because the weights that they belong to may leave their device.
  const std::vector<TokenId> token_of_;
  const bool feeds_normed_;
  const TransformerExecutor& target_;
  TransformerExecutor network_;
  DraftNetworkLimits limits_;
  kernels::BatchView view_;  // of rows_pass
  Ticket last_;
};

}  // namespace quire
