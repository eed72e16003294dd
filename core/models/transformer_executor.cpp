#include "core/models/transformer_executor.h"

#include <algorithm>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/models/stage_sizes.h"
#include "core/tensor/row_transfer.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

// Returns page_tokens if any layer stores keys and values as f16, otherwise 0. Kernels need it to read pages
// once for several sequences, which they do only for f16.
int32_t batch_page_tokens(const TransformerMemory& memory, int32_t page_tokens) {
  const gsl::span<const LayerCache> caches = memory.caches();
  const bool any = std::any_of(caches.begin(), caches.end(), [](const LayerCache& cache) {
    return cache.shape.key_format == kernels::KvFormat::f16 &&
           cache.shape.value_format == kernels::KvFormat::f16;
  });
  return any ? page_tokens : 0;
}

std::unique_ptr<ExpertSlots> make_expert_slots(const PipelineStage& stage,
                                               const kernels::PackedExpertLimits& packed) {
  if (packed.num_slots == 0) return nullptr;
  const auto num_layers =
      std::count_if(stage.layers.begin(), stage.layers.end(),
                    [](const TransformerLayer& layer) { return packed_experts_of(layer) != nullptr; });
  return std::make_unique<ExpertSlots>(gsl::narrow<int32_t>(num_layers), packed.num_experts,
                                       packed.num_slots);
}

// Allocates the memory and the contexts of all stages. Contexts of shards are connected last, because their
// addresses must not change afterwards.
std::vector<StageShards> allocate_stages(const Transformer& transformer,
                                         const TransformerExecutorOptions& options) {
  std::vector<StageShards> stages(transformer.stages.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    if (const auto& remote = transformer.stages[i].remote; remote != nullptr) {
      stages[i].remote = remote->create_executor(options, stages[transformer.home_of(i)].first().context);
      continue;
    }
    std::vector<StageShardState>& shards = stages[i].shards;
    for (int32_t rank = 0; rank < transformer.shard.num_shards; ++rank) {
      const Transformer& of = transformer.at_rank(rank);
      const std::shared_ptr<Device>& device = of.stages[i].device;
      const StageSizes sizes = stage_sizes(position_of_stage(of, i), of.shape, options);
      shards.push_back({TransformerMemory(device, sizes.shape, sizes.kv, sizes.limits),
                        DeviceContext(device, sizes.context)});
      shards.back().takes_host_experts = sizes.context.packed.staging_bytes > 0;
      shards.back().expert_slots = make_expert_slots(of.stages[i], sizes.context.packed);
      shards.back().batch_page_tokens = batch_page_tokens(shards.back().memory, options.kv.page_tokens);
    }
    if (shards.size() == 1) continue;
    std::vector<const DeviceContext*> contexts;
    contexts.reserve(shards.size());
    for (const StageShardState& shard : shards) contexts.push_back(&shard.context);
    stages[i].communicator.emplace(contexts);
  }
  return stages;
}

bool has_remote_stages(const Transformer& transformer) {
  return std::any_of(transformer.stages.begin(), transformer.stages.end(),
                     [](const PipelineStage& stage) { return stage.remote != nullptr; });
}

std::optional<StageShardState> allocate_host_experts(const Transformer& transformer,
                                                     const TransformerExecutorOptions& options) {
  if (!transformer.host_experts.exist()) return std::nullopt;
  const std::shared_ptr<Device>& device = transformer.host_experts.device;
  const StageSizes sizes = host_experts_sizes(transformer, options);
  return StageShardState{TransformerMemory(device, sizes.shape, sizes.kv, sizes.limits),
                         DeviceContext(device, sizes.context)};
}

// True if the work of shards runs after the calls that issue it, as on cards. Such shards have no breaks:
// while the first one paused, the others would fill their devices with gathers that wait for it.
bool has_late_shards(const Transformer& transformer) {
  return transformer.shard.num_shards > 1 &&
         std::any_of(transformer.stages.begin(), transformer.stages.end(),
                     [](const PipelineStage& stage) { return stage.device->is_card(); });
}

int32_t num_breaks(const Transformer& transformer) {
  if (has_late_shards(transformer)) return 0;
  size_t num_layers = 0;
  for (const PipelineStage& stage : transformer.stages) num_layers += stage.layers.size();
  return gsl::narrow<int32_t>(num_layers) * TransformerLayer::kNumBreaks;
}

ExecutorLimits limits_of(const Transformer& transformer, const TransformerExecutorOptions& options) {
  ExecutorLimits limits;
  limits.max_tokens = options.max_tokens;
  limits.max_sequences = options.max_sequences;
  limits.max_logit_rows = transformer.is_inner ? 0 : options.max_logit_rows;
  limits.max_pages_per_sequence = options.max_pages_per_sequence;
  limits.num_pages = options.kv.num_pages;
  limits.page_tokens = options.kv.page_tokens;
  limits.least_pages = options.kv.least_pages;
  limits.chunk_pages = options.chunk_pages;
  limits.windows = options.kv.windows;
  limits.num_state_slots = options.kv.num_state_slots;
  limits.least_state_slots = options.kv.least_state_slots;
  limits.vocab_size = transformer.shape.vocab_size;
  limits.hidden_size = transformer.shape.hidden_size;
  if (draws_on_device(transformer)) limits.max_draw_edits = options.max_draw_edits;
  limits.num_breaks = num_breaks(transformer);
  limits.makes_draws = limits.max_draw_edits > 0;
  limits.follows = limits.makes_draws && follows_on_device(transformer);
  return limits;
}

// Returns undefined values, [rows, columns].
HostFloats allocate_values(int32_t rows, int32_t columns, std::string_view what) {
  const auto num_values = checked_mul<size_t>(static_cast<size_t>(rows), static_cast<size_t>(columns), what);
  const auto num_bytes = checked_mul<size_t>(num_values, sizeof(float), what);
  if (num_bytes == 0) return {};
  void* const memory = kernels::take_host_memory(num_bytes);
  if (memory == nullptr)
    throw Error(ErrorCode::out_of_memory, "{}: no host memory for {} bytes", what, num_bytes);
  return {static_cast<float*>(memory), {num_bytes}};
}

void copy_pages(const StageShardState& stage, const Batch& batch) {
  for (const PageCopy& copy : batch.copies) {
    for (size_t layer = 0; layer < stage.memory.caches().size(); ++layer) {
      const LayerCache& cache = stage.memory.caches()[layer];
      if (!stage.memory.owns_pages(layer) || cache.table != copy.table || cache.pages.keys == nullptr)
        continue;
      kernels::CopyPageParams params;
      params.kv_shape = cache.shape;
      params.kv = cache.pages;
      params.source = copy.source.value;
      params.target = copy.target.value;
      params.num_tokens = copy.num_tokens;
      stage.context.check(stage.context.table().copy_page(stage.context.handle(), &params), "copying a page");
    }
  }
}

void copy_states(const StageShardState& stage, const Batch& batch) {
  for (const StateCopy& copy : batch.state_copies)
    stage.memory.copy_state(stage.context, copy.source, copy.target);
}

ContextRows residual_stream(const StageShardState& stage) {
  return {stage.context, stage.memory.workspace().hidden};
}

// Places a batch on the device of a shard. Only the last stage computes logits. Only the first shard reads
// tokens, and knows those that it drew.
kernels::BatchView bind(const StageShardState& stage, const Batch& batch, bool is_last, bool is_first) {
  kernels::BatchView host;
  host.num_tokens = batch.num_tokens();
  host.num_sequences = batch.num_sequences();
  host.num_logit_rows = is_last ? batch.num_logit_rows() : 0;
  for (int32_t s = 0; s < host.num_sequences; ++s) {
    const auto index = static_cast<size_t>(s);
    host.max_query_tokens =
        std::max(host.max_query_tokens, batch.sequence_starts[index + 1] - batch.sequence_starts[index]);
    host.max_kv_tokens = std::max(host.max_kv_tokens, batch.kv_lengths[index]);
  }
  host.page_table_stride = batch.page_table_stride;
  host.num_page_tables = batch.num_page_tables;
  host.page_tokens = stage.batch_page_tokens;
  host.token_ids = batch.token_ids.data();
  host.drawn_rows = batch.drawn_rows.empty() || !is_first ? nullptr : batch.drawn_rows.data();
  host.positions = batch.positions.data();
  host.sequence_of_token = batch.sequence_of_token.data();
  host.sequence_starts = batch.sequence_starts.data();
  host.kv_lengths = batch.kv_lengths.data();
  host.page_table = batch.page_table.data();
  host.logit_rows = batch.logit_rows.data();
  if (!batch.state_slots.empty()) {
    host.read_slots = host.write_slots = batch.state_slots.data();
    host.state_banks = batch.state_banks.data();
  }
  kernels::BatchView device;
  stage.context.check(stage.context.table().bind_batch(stage.context.handle(), &host, &device),
                      "placing a batch");
  return device;
}

// True if the device has not filled in the outcome.
bool is_missing(const kernels::SampleOutcome& outcome) {
  return outcome.status == kernels::SampleStatus::drawn && outcome.token < 0;
}

}  // namespace

TransformerExecutor::TransformerExecutor(std::shared_ptr<const Transformer> transformer,
                                         const TransformerExecutorOptions& options, WeightsSource source)
    : weights_{std::move(transformer), std::move(source), {}},
      sequence_{max_context(options), longest_sequence(options)},
      limits_(limits_of(*weights_.current, options)),
      stages_(allocate_stages(*weights_.current, options)),
      host_experts_(allocate_host_experts(*weights_.current, options)),
      num_pages_(limits_.guaranteed_pages()),
      stored_bytes_(count_stored_bytes()),
      rows_{has_remote_stages(*weights_.current)
                ? allocate_values(options.max_tokens, limits_.hidden_size, "the residual stream")
                : HostFloats(),
            nullptr, allocate_values(limits_.max_logit_rows, limits_.vocab_size, "logits")} {
  for (Pass& pass : passes_) pass.outcomes.resize(static_cast<size_t>(limits_.max_logit_rows));
  if (weights_.current->shard.num_shards > 1)
    team_.emplace(*options.threads, weights_.current->shard.num_shards);
  if (weights_.source != nullptr) {
    weights_.current = nullptr;
  } else {
    acquire_remote_weights();
  }
}

void TransformerExecutor::acquire_remote_weights() {
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].remote != nullptr) stages_[i].remote->acquire_weights(*weights_.current->stages[i].remote);
  }
}

// Discards recorded steps if the weights have changed, because the steps contain addresses of weights, and
// the copies of weights on cards.
void TransformerExecutor::acquire_weights() {
  if (weights_.source == nullptr) return;
  std::shared_ptr<const Transformer> weights = weights_.source();
  if (weights_.recorded.lock() != weights) {
    for_each_shard([](const DeviceContext& context) {
      context.check(context.table().forget_steps(context.handle()), "forgetting recorded steps");
    });
    for_each_expert_slots([](ExpertSlots& slots) { slots.clear(); });
  }
  weights_.recorded = weights;
  weights_.current = std::move(weights);
  acquire_remote_weights();
}

ExpertUse TransformerExecutor::expert_use() const {
  ExpertUse use;
  for_each_expert_slots([&](const ExpertSlots& slots) {
    use.hits += slots.use().hits;
    use.misses += slots.use().misses;
  });
  return use;
}

void TransformerExecutor::release_weights() {
  if (weights_.source == nullptr || weights_.current == nullptr) return;
  const auto drop = gsl::finally([this] { weights_.current = nullptr; });
  wait_for_all("waiting for a step");
  for_each_remote([](RemoteExecutor& remote) { remote.release_weights(); });
}

void TransformerExecutor::wait_for_all(std::string_view what) {
  for_each_shard([what](const DeviceContext& context) {
    context.check(context.table().synchronize(context.handle()), what);
  });
}

// Waits before pages lose their memory: work issued before may still access pages that are no longer in use.
void TransformerExecutor::set_num_pages(int32_t num_pages) {
  if (num_pages < num_pages_) wait_for_all("waiting for pages");
  const auto set_all = [this](int32_t count) {
    for (StageShards& stage : stages_)
      for (StageShardState& shard : stage.shards) shard.memory.set_num_pages(count);
    for_each_remote([count](RemoteExecutor& remote) { remote.set_num_pages(count); });
  };
  try {
    set_all(num_pages);
  } catch (...) {
    set_all(num_pages_);
    throw;
  }
  num_pages_ = num_pages;
}

Ticket TransformerExecutor::forward(const Batch& batch) {
  Expects(batch.num_page_tables == 1 + static_cast<int32_t>(limits_.windows.size()));
  Expects(limits_.num_state_slots == 0 || batch.state_slots.size() == batch.kv_lengths.size());
  for (size_t i = 0; i < stages_.size(); ++i) run_stage(i, batch);
  if (batch.wants_hidden) norm_all_rows(batch.num_tokens());
  last_ = Ticket{last_.value + 1};
  pass_of(last_).num_rows = static_cast<size_t>(batch.num_logit_rows());
  return last_;
}

void TransformerExecutor::run_stage(size_t stage_idx, const Batch& batch) {
  if (stages_[stage_idx].remote != nullptr) return run_remote(stage_idx, batch);
  if (!team_) return run_shard(stage_idx, 0, batch);
  const ShardCommunicator& communicator = *stages_[stage_idx].communicator;
  communicator.resume();
  team_->run([&](int32_t rank) { run_shard(stage_idx, rank, batch); }, [&] { communicator.interrupt(); });
}

// Only the first shard receives the residual stream and pauses at breaks. The others wait for it at the next
// all-gather.
void TransformerExecutor::run_shard(size_t stage_idx, int32_t rank, const Batch& batch) {
  const StageShardState& stage = stages_[stage_idx].shards[static_cast<size_t>(rank)];
  const DeviceContext& context = stage.context;
  const bool is_first = rank == 0;
  copy_pages(stage, batch);
  copy_states(stage, batch);
  const kernels::BatchView view = bind(stage, batch, weights_.current->is_last(stage_idx), is_first);
  if (is_first) receive_rows(stage_idx, batch.num_tokens());
  kernels::BatchView rows;
  rows.num_tokens = batch.num_tokens();
  std::optional<ForwardPass> at_experts;
  if (host_experts_)
    at_experts.emplace(ForwardPass{host_experts_->context, rows, host_experts_->memory.workspace(), {}});
  if (at_experts && stage.takes_host_experts) at_experts->card = &context;
  if (at_experts && stage.expert_slots != nullptr) {
    stage.expert_slots->begin_step();
    at_experts->slots = stage.expert_slots.get();
  }
  for (auto action = kernels::StepAction::run; action == kernels::StepAction::run;) {
    context.check(context.table().begin_step(context.handle(), &view, &action), "beginning a step");
    if (action == kernels::StepAction::replayed) return;
    weights_.current->at_rank(rank).forward(
        stage_idx,
        {context, view, stage.memory.workspace(), stage.memory.ropes(), sequence_.context, sequence_.longest,
         is_first && limits_.num_breaks > 0 ? breaks_ : nullptr, at_experts ? &*at_experts : nullptr},
        stage.memory.caches());
    context.check(context.table().end_step(context.handle(), &action), "ending a step");
  }
}

// Passes the rows through the layers of another process. With a link they are in the residual stream of the
// home before and after it, otherwise in the transfer buffer.
void TransformerExecutor::run_remote(size_t stage_idx, const Batch& batch) {
  RemoteExecutor& remote = *stages_[stage_idx].remote;
  const int32_t num_tokens = batch.num_tokens();
  const StageShardState& home = home_of(stage_idx);
  const bool are_on_device = leaves_rows_on_device(stage_idx - 1);
  if (remote.is_linked()) {
    if (!are_on_device) write_rows(home, rows_.buffer.get(), num_tokens);
    home.context.check(home.context.table().synchronize(home.context.handle()), "computing a stage");
    return remote.forward_linked(batch, home.memory.workspace().hidden, limits_.hidden_size);
  }
  if (are_on_device) read_rows(home, num_tokens, rows_.buffer.get());
  const size_t count = static_cast<size_t>(num_tokens) * static_cast<size_t>(limits_.hidden_size);
  remote.forward(batch, {rows_.buffer.get(), count});
}

const StageShardState& TransformerExecutor::home_of(size_t stage_idx) const {
  return stages_[weights_.current->home_of(stage_idx)].first();
}

// Returns false if the rows are in the transfer buffer after the stage.
bool TransformerExecutor::leaves_rows_on_device(size_t stage_idx) const {
  const auto& remote = stages_[stage_idx].remote;
  return remote == nullptr || remote->is_linked();
}

void TransformerExecutor::run_rows(const Batch& batch, gsl::span<float> rows) {
  rows_.input = rows.data();
  const auto forget = gsl::finally([this] { rows_.input = nullptr; });
  run_stage(0, batch);
  read_rows(stages_.front().first(), batch.num_tokens(), rows.data());
}

void TransformerExecutor::run_received(const Batch& batch) {
  run_stage(0, batch);
  wait_for_all("computing a stage");
}

// Reads the residual stream to host memory, and waits for it.
void TransformerExecutor::read_rows(const StageShardState& from, int32_t num_tokens, float* rows) const {
  const DeviceContext& sender = from.context;
  sender.check(sender.table().read_rows(sender.handle(), from.memory.workspace().hidden, num_tokens,
                                        limits_.hidden_size, rows),
               "reading the residual stream");
  sender.check(sender.table().synchronize(sender.handle()), "reading the residual stream");
}

// Brings the residual stream of the previous stage to the first shard of this one: the rows of all tokens,
// because each layer stores keys and values of every token.
void TransformerExecutor::receive_rows(size_t stage_idx, int32_t num_tokens) {
  const StageShardState& to = stages_[stage_idx].first();
  if (stage_idx > 0 && leaves_rows_on_device(stage_idx - 1))
    return transfer_rows(residual_stream(home_of(stage_idx)), residual_stream(to), num_tokens,
                         limits_.hidden_size);
  const float* const rows = stage_idx > 0 ? rows_.buffer.get() : rows_.input;
  if (rows != nullptr) write_rows(to, rows, num_tokens);
}

void TransformerExecutor::write_rows(const StageShardState& to, const float* rows, int32_t num_tokens) const {
  to.context.check(to.context.table().write_rows(to.context.handle(), rows, num_tokens, limits_.hidden_size,
                                                 to.memory.workspace().hidden),
                   "writing the residual stream");
}

// Issues the copies of rows to the host first, so that they are complete when the draws are.
void TransformerExecutor::draw(Ticket ticket, const DeviceDraws& draws) {
  Expects(ticket == last_);
  Pass& pass = pass_of(ticket);
  read_other_rows(draws, pass.num_rows);
  sample(draws, pass);
}

void TransformerExecutor::sample(const DeviceDraws& draws, Pass& pass) {
  pass.num_drawn = draws.rows.size();
  if (draws.rows.empty()) return;
  std::fill_n(pass.outcomes.begin(), pass.num_drawn, kernels::SampleOutcome{});
  const StageShardState& last = stages_.back().first();
  kernels::SampleParams params;
  params.logits = last.memory.workspace().logits;
  params.stride = limits_.vocab_size;
  params.vocab_size = draws.vocab_size;
  params.rows = draws.rows.data();
  params.num_rows = gsl::narrow<int32_t>(draws.rows.size());
  params.edits = draws.edits.data();
  params.num_edits = gsl::narrow<int32_t>(draws.edits.size());
  params.outcomes = pass.outcomes.data();
  last.context.check(last.context.table().sample(last.context.handle(), &params), "drawing tokens");
}

// Reads the runs of rows between the rows that are sampled on the device.
void TransformerExecutor::read_other_rows(const DeviceDraws& draws, size_t num_rows) {
  const StageShardState& last = stages_.back().first();
  const auto read = [&](int32_t begin, int32_t end) {
    if (begin == end) return;
    const size_t offset = static_cast<size_t>(begin) * static_cast<size_t>(limits_.vocab_size);
    last.context.check(
        last.context.table().read_rows(last.context.handle(), last.memory.workspace().logits + offset,
                                       end - begin, limits_.vocab_size, rows_.logits.get() + offset),
        "reading logits");
  };
  int32_t next = 0;
  for (const kernels::SampleRow& drawn : draws.rows) {
    read(next, drawn.logit_row);
    next = drawn.logit_row + 1;
  }
  read(next, static_cast<int32_t>(num_rows));
}

// Writes the hidden states of all rows to workspace.normed, which the head no longer needs.
void TransformerExecutor::norm_all_rows(int32_t num_tokens) {
  const StageShardState& last = stages_.back().first();
  kernels::NormParams params = weights_.current->head.norm.params();
  params.input = last.memory.workspace().hidden;
  params.rows = num_tokens;
  params.output = last.memory.workspace().normed;
  last.context.check(last.context.table().norm(last.context.handle(), &params), "the last norm");
}

void TransformerExecutor::read_hidden(int32_t first_row, gsl::span<float> out) {
  const StageShardState& last = stages_.back().first();
  const kernels::DType dtype = last.context.table().activation_dtype;
  const size_t start = static_cast<size_t>(first_row) * static_cast<size_t>(limits_.hidden_size);
  const auto* const states =
      static_cast<const std::byte*>(last.memory.workspace().normed) + start * kernels::dtype_bytes(dtype);
  const auto download = [&](void* host) {
    const Device& device = *last.context.device();
    device.check(
        device.table().download(device.handle(), host, states, out.size() * kernels::dtype_bytes(dtype)),
        "reading states");
  };
  if (dtype == kernels::DType::f32) return download(out.data());
  std::vector<uint16_t> halves(out.size());
  download(halves.data());
  std::transform(halves.begin(), halves.end(), out.begin(), kernels::half_to_float);
}

// Waits only for the draws if another pass was issued after this one. The memory of outcomes is used again by
// later passes, so a draw whose outcome the device did not fill in must not pass for one of an earlier pass.
Drawn TransformerExecutor::wait(Ticket ticket) {
  const DeviceContext& last = stages_.back().first().context;
  const Pass& pass = pass_of(ticket);
  const bool is_followed = ticket != last_ && pass.num_drawn > 0;
  last.check(is_followed ? last.table().wait_for_draws(last.handle(), pass.outcomes.data())
                         : last.table().synchronize(last.handle()),
             "waiting for a step");
  const auto outcomes = gsl::span<const kernels::SampleOutcome>(pass.outcomes).first(pass.num_drawn);
  if (std::any_of(outcomes.begin(), outcomes.end(), is_missing))
    throw Error(ErrorCode::internal, "{} has not returned the tokens that were drawn on it",
                last.device()->name());
  const size_t count = pass.num_rows * static_cast<size_t>(limits_.vocab_size);
  return {gsl::span<const float>(rows_.logits.get(), count), limits_.vocab_size, outcomes};
}

}  // namespace quire
