#include "core/models/transformer_draft_network.h"

#include <algorithm>

#include "core/layers/rows.h"
#include "core/models/stage_sizes.h"

namespace quire {

using kernels::Scratch;

namespace {

// Returns the format, or f16 if it cannot hold all heads.
kernels::KvFormat format_for(kernels::KvFormat format, const TransformerShape& shape) {
  const bool holds_all =
      std::all_of(shape.caches.begin(), shape.caches.end(), [format](const LayerCacheSize& size) {
        return kernels::holds_heads(format, size.head_dim) && kernels::holds_heads(format, size.value_dim);
      });
  return holds_all ? format : kernels::KvFormat::f16;
}

DraftNetworkLimits limits_of(const DraftTransformer& drafter, const TransformerExecutor& network,
                             const TransformerExecutorOptions& options) {
  DraftNetworkLimits limits;
  limits.reads_states = drafter.reads_states();
  limits.max_tokens = options.max_tokens;
  limits.max_sequences = options.max_sequences;
  limits.max_positions = std::min(longest_sequence(options), drafter.max_positions);
  limits.vocab_size = network.limits().vocab_size;
  limits.max_draw_edits = network.limits().makes_draws ? network.limits().max_draw_edits : 0;
  return limits;
}

// Copies rows [columns] of f32 that another context has computed; runs of consecutive rows at once.
void receive(const StageShardState& to, float* target, const StageShardState& from, const float* source,
             gsl::span<const int32_t> rows, int32_t columns) {
  const auto width = static_cast<size_t>(columns);
  for (size_t first = 0; first < rows.size();) {
    size_t end = first + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    to.context.check(
        to.context.table().receive_rows(to.context.handle(), target + first * width, from.context.handle(),
                                        source + static_cast<size_t>(rows[first]) * width,
                                        gsl::narrow_cast<int32_t>(end - first), columns),
        "handing states to the draft network");
    first = end;
  }
}

}  // namespace

TransformerExecutorOptions draft_executor_options(const DraftTransformer& drafter,
                                                  const TransformerExecutorOptions& target) {
  TransformerExecutorOptions options = target;
  options.max_tokens = target.max_tokens + target.max_sequences;
  options.max_logit_rows = target.max_sequences;
  if (!drafter.token_of.empty()) options.max_draw_edits = 0;
  options.kv.windows.clear();
  options.kv.num_state_slots = options.kv.least_state_slots = 0;
  options.kv.key_format = format_for(options.kv.key_format, drafter.network.shape);
  options.kv.value_format = format_for(options.kv.value_format, drafter.network.shape);
  return options;
}

TransformerDraftNetwork::TransformerDraftNetwork(const std::shared_ptr<const DraftTransformer>& drafter,
                                                 const TransformerExecutor& target,
                                                 const TransformerExecutorOptions& target_options,
                                                 WeightsSource source)
    : token_of_(drafter->token_of),
      feeds_normed_(drafter->feeds_normed),
      target_(target),
      network_(std::shared_ptr<const Transformer>(drafter, &drafter->network),
               draft_executor_options(*drafter, target_options), std::move(source)),
      limits_(limits_of(*drafter, network_, draft_executor_options(*drafter, target_options))) {
  limits_.token_of = token_of_;
}

ForwardPass TransformerDraftNetwork::rows_pass(int32_t num_rows) {
  const StageShardState& own = network_.last_stage();
  view_.num_tokens = num_rows;
  return {own.context, view_, own.memory.workspace(), own.memory.ropes()};
}

// The features of a row are in Scratch::features before its pass.
void TransformerDraftNetwork::read_states(const DraftStates& states) {
  const StageShardState& own = network_.last_stage();
  const FeaturesLayer& features = *network_.weights().embedding.features;
  const kernels::Workspace& space = own.memory.workspace();
  if (!states.of_target)
    return receive(own, space.at(Scratch::features), own, space.at(Scratch::states), states.rows,
                   features.hidden);
  const StageShardState& target = target_.last_stage();
  receive(own, space.at(Scratch::states), target, target.memory.workspace().at(Scratch::states), states.rows,
          features.num_states * features.state_columns);
  features.reduce(rows_pass(gsl::narrow<int32_t>(states.rows.size())));
}

// Keeps the network's own states of the logit rows, in Scratch::states.
void TransformerDraftNetwork::keep_states(const Batch& batch) {
  if (batch.logit_rows.empty()) return;
  const StageShardState& own = network_.last_stage();
  const kernels::Workspace& space = own.memory.workspace();
  const Transformer& network = network_.weights();
  receive(own, space.at(Scratch::states), own, space.hidden, batch.logit_rows, network.shape.hidden_size);
  if (feeds_normed_)
    norm_rows_f32(rows_pass(batch.num_logit_rows()), network.head.norm, space.at(Scratch::states),
                  space.at(Scratch::states), batch.num_logit_rows());
}

void TransformerDraftNetwork::forward(const Batch& batch, const DraftStates& states) {
  if (limits_.reads_states) read_states(states);
  last_ = network_.forward(batch);
  if (limits_.reads_states) keep_states(batch);
}

Drawn TransformerDraftNetwork::draw(const DeviceDraws& draws) {
  network_.draw(last_, draws);
  return network_.wait(last_);
}

}  // namespace quire
