#include "tests/core/models/model_cache_rig.h"

#include <cstring>
#include <set>
#include <stdexcept>

#include "core/engine/loop/batch_builder.h"
#include "core/models/state_slots.h"

namespace quire::testing {
namespace {

TransformerExecutorOptions executor_options(const TransformerShape& shape, const RigOptions& options) {
  TransformerExecutorOptions out;
  out.max_sequences = options.max_sequences;
  out.max_tokens = options.max_sequences * options.max_seq_len;
  out.max_logit_rows = out.max_tokens;
  out.max_pages_per_sequence = pages_for(options.max_seq_len, options.page_tokens);
  out.max_seq_len = options.max_seq_len;
  out.kv.page_tokens = options.page_tokens;
  out.kv.num_pages =
      options.num_pages > 0 ? options.num_pages : (options.max_sequences + 2) * out.max_pages_per_sequence;
  out.kv.key_format = out.kv.value_format = kernels::KvFormat::f16;
  std::set<int32_t> windows;
  for (const LayerCacheSize& size : shape.caches)
    if (size.window > 0 && options.num_window_slots > 0) windows.insert(size.window);
  for (const int32_t window : windows) out.kv.windows.push_back({window, options.num_window_slots});
  out.kv.num_state_slots = num_state_slots(shape, out, 0);
  return out;
}

}  // namespace

ModelCacheRig::ModelCacheRig(const std::shared_ptr<const Model>& model, const RigOptions& options)
    : executor_(std::make_unique<TransformerExecutor>(model->transformer(),
                                                      executor_options(model->shape(), options))),
      store_(PrefixStore::create(options.prefixes, {*executor_, *options.files, log_, listener_})) {
  const ExecutorLimits& limits = executor_->limits();
  KvCacheOptions kv;
  kv.pool = {limits.num_pages, limits.page_tokens, 64, 0};
  kv.max_pages_per_sequence = limits.max_pages_per_sequence;
  kv.max_sequences = limits.max_sequences;
  kv.windows = limits.windows;
  kv.num_state_slots = limits.num_state_slots;
  kv.offload_tier = store_.get();
  kv_ = std::make_unique<KvCache>(kv);
  freed_memory_.emplace(*executor_, *kv_);
  freed_memory_->poison();
}

int32_t ModelCacheRig::step(const std::vector<Feed>& feeds, int32_t most) {
  std::vector<Lane> lanes(feeds.size());
  StepPlan plan;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Feed& feed = feeds[i];
    lanes[i].tokens = feed.text->first(feed.num_tokens);
    lanes[i].tokens.insert(lanes[i].tokens.end(), feed.drafts.begin(), feed.drafts.end());
    lanes[i].num_candidates = static_cast<int32_t>(feed.drafts.size());
    lanes[i].num_prompt_tokens = feed.num_tokens;
    lanes[i].sequence = feed.sequence;
    plan.lanes.emplace_back();
    plan.lanes[i].lane = &lanes[i];
    plan.lanes[i].max_tokens = plan.lanes[i].num_rows = most;
  }
  Reservation reservation = kv_->reserve(plan);
  freed_memory_->poison_begun(plan, reservation.state_copies());
  build_batch(plan, reservation.copies(), table_shape(executor_->limits(), *kv_), batch_);
  batch_.state_copies.assign(reservation.state_copies().begin(), reservation.state_copies().end());
  const Ticket ticket = executor_->forward(batch_);
  executor_->draw(ticket, {});
  const Drawn drawn = executor_->wait(ticket);
  int32_t num_found = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    PlannedLane& lane = plan.lanes[i];
    compare(lane, feeds[i], drawn);
    lane.num_accepted = std::min(lane.num_tokens, feeds[i].num_tokens - lane.start);
    num_found += lane.num_found_tokens;
  }
  reservation.commit();
  if (const std::string problem = kv_->audit(); !problem.empty()) throw std::logic_error(problem);
  freed_memory_->poison();
  return num_found;
}

// Compares the rows of the tokens that count.
void ModelCacheRig::compare(const PlannedLane& lane, const Feed& feed, const Drawn& drawn) {
  const auto vocab = static_cast<size_t>(drawn.vocab_size);
  for (int32_t i = 0; i < lane.num_tokens && lane.start + i < feed.num_tokens; ++i) {
    const float* own = drawn.values.data() + static_cast<size_t>(lane.first_row + i) * vocab;
    const float* alone = feed.text->logits.data() + static_cast<size_t>(lane.start + i) * vocab;
    num_different_rows_ += std::memcmp(own, alone, vocab * sizeof(float)) != 0 ? 1 : 0;
    ++num_rows_;
  }
}

int32_t ModelCacheRig::compute(SequenceId sequence, const KnownText& text, int32_t num_tokens, int32_t most) {
  int32_t num_found = 0;
  while (kv_->length(sequence) < num_tokens) num_found += step({{sequence, &text, num_tokens, {}}}, most);
  return num_found;
}

int32_t ModelCacheRig::run(const KnownText& text, int32_t most) {
  reload(text);
  const SequenceId sequence = kv_->create({});
  const int32_t num_found = compute(sequence, text, text.size(), most);
  kv_->destroy(sequence);
  freed_memory_->poison();
  return num_found;
}

void ModelCacheRig::close() {
  kv_->offload_all([] { return false; });
  if (store_ != nullptr) store_->write_all_files([] { return false; });
}

}  // namespace quire::testing
