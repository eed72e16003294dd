#include "tests/core/models/transformer_runner.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/engine/model/backends.h"
#include "core/models/state_slots.h"

namespace quire::testing {
namespace {

// Returns one group for each window of the layers.
std::vector<WindowGroup> windows_of(const TransformerShape& shape, const RunnerOptions& options) {
  std::set<int32_t> windows;
  for (const LayerCacheSize& size : shape.caches) {
    if (size.window > 0) windows.insert(size.window);
  }
  std::vector<WindowGroup> groups;
  for (const int32_t window : windows)
    groups.push_back({window, options.max_sequences * options.window_pages});
  return groups;
}

TransformerExecutorOptions executor_options(const TransformerShape& shape, const RunnerOptions& options) {
  TransformerExecutorOptions out;
  out.max_tokens = options.max_tokens;
  out.max_sequences = options.max_sequences;
  out.max_logit_rows = options.max_tokens;
  out.max_pages_per_sequence = options.num_pages / options.max_sequences;
  out.max_seq_len = options.max_seq_len;
  out.card_expert_bytes = options.card_expert_bytes;
  out.kv.page_tokens = options.page_tokens;
  out.kv.num_pages = options.num_pages;
  out.kv.key_format = out.kv.value_format = options.kv_format;
  if (options.window_pages > 0) out.kv.windows = windows_of(shape, options);
  out.kv.num_state_slots = num_state_slots(shape, out, 0);
  return out;
}

const char* test_device_name() {
  const char* name = std::getenv("QUIRE_TEST_DEVICE");
  return name == nullptr ? "cpu:0" : name;
}

std::shared_ptr<Device> open_named(const std::string& name, const kernels::DeviceOptions& options = {}) {
  std::string known;
  for (const BackendReport& report : find_backends()) {
    for (int32_t i = 0; i < report.num_devices; ++i) {
      if (name == fmt::format("{}:{}", report.name, i)) return Device::open(*report.backend, i, options);
    }
    known += fmt::format("; {}: {} devices {}", report.name, report.num_devices, report.why);
  }
  throw Error(ErrorCode::not_found, "QUIRE_TEST_DEVICE={}: no such device{}", name, known);
}

}  // namespace

std::shared_ptr<Device> open_test_device() {
  return open_named(test_device_name());
}

std::shared_ptr<Device> open_device_like_test_device(const kernels::DeviceOptions& options) {
  return open_named(test_device_name(), options);
}

std::shared_ptr<Device> open_second_test_device() {
  const char* name = std::getenv("QUIRE_TEST_SECOND_DEVICE");
  return name == nullptr ? open_test_device() : open_named(name);
}

double tolerance(double of_f32, double of_f16) {
  const bool is_f16 = open_test_device()->table().activation_dtype == kernels::DType::f16;
  return is_f16 ? std::max(of_f32, of_f16) : of_f32;
}

std::shared_ptr<const Model> load_model(const std::string& path, kernels::ActivationDtype activations,
                                        int32_t num_shards) {
  ModelOptions options;
  options.num_shards = num_shards;
  options.source = open_model_source(posix_file_system(), path);
  options.devices = {open_test_device()};
  options.activations = activations;
  return Model::load(options);
}

std::shared_ptr<const Model> load_with_drafter(const std::string& path, const std::string& drafter) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), path);
  options.devices = {open_test_device()};
  options.drafter =
      std::make_shared<const DraftSource>(open_draft_source(posix_file_system(), drafter, options.source));
  return Model::load(options);
}

bool runs_activations(kernels::ActivationDtype activations) {
  return (kernels::mechanisms_of(activations) & ~open_test_device()->table().mechanisms) == 0;
}

std::shared_ptr<const Model> load_shards(const std::string& path, int32_t num_shards) {
  return load_model(path, kernels::ActivationDtype::full, num_shards);
}

std::string refusal_of(const std::string& path) {
  const bool is_host = open_test_device()->is_host();
  try {
    (void)open_model_source(posix_file_system(), path)->config();
    if (!is_host) (void)load_model(path);
  } catch (const Error& error) {
    const std::string reason = error.what();
    const bool lacks_layer = reason.find("recurrent state") != std::string::npos;
    if (error.code() != ErrorCode::unsupported || (is_host && !lacks_layer)) throw;
    return reason;
  }
  return {};
}

TransformerRunner::TransformerRunner(std::shared_ptr<const Model> model, const RunnerOptions& options,
                                     WeightsSource source)
    : model_(std::move(model)),
      options_(options),
      executor_(model_->transformer(), executor_options(model_->shape(), options), std::move(source)),
      lines_(static_cast<size_t>(executor_.limits().num_state_slots)) {}

void TransformerRunner::fork(int32_t from, int32_t to, int32_t num_tokens) {
  const int32_t stride = options_.num_pages / options_.max_sequences;
  for (int32_t p = 0; p * options_.page_tokens < num_tokens; ++p) {
    const int32_t count = std::min(options_.page_tokens, num_tokens - p * options_.page_tokens);
    page_copies_.push_back({PageId{(from + 1) * stride - 1 - p}, PageId{(to + 1) * stride - 1 - p}, count});
  }
  if (lines_.empty()) return;
  state_copies_.push_back({from, to});
  lines_[static_cast<size_t>(to)] = lines_[static_cast<size_t>(from)];
}

// The state of a sequence is in the slot with its number.
void TransformerRunner::append_states(const std::vector<Feed>& feeds, Batch& batch) {
  batch.copies = std::exchange(page_copies_, {});
  batch.state_copies = std::exchange(state_copies_, {});
  if (lines_.empty()) return;
  for (const Feed& feed : feeds) {
    kernels::StateLines& lines = lines_[static_cast<size_t>(feed.slot)];
    const int32_t bank = kernels::state_bank(lines, feed.start);
    if (bank < 0) throw Error(ErrorCode::internal, "the state of slot {} cannot continue", feed.slot);
    batch.state_slots.push_back(feed.slot);
    batch.state_banks.push_back(bank);
    lines = kernels::lines_after(lines, feed.start, static_cast<int32_t>(feed.tokens.size()), bank);
  }
}

std::vector<float> TransformerRunner::step(const std::vector<Feed>& feeds) {
  Batch batch;
  batch.page_table_stride = options_.num_pages / options_.max_sequences;
  batch.wants_hidden = options_.wants_hidden;
  batch.sequence_starts.push_back(0);
  for (size_t s = 0; s < feeds.size(); ++s) {
    const Feed& feed = feeds[s];
    for (size_t i = 0; i < feed.tokens.size(); ++i) {
      batch.logit_rows.push_back(batch.num_tokens());
      batch.token_ids.push_back(feed.tokens[i]);
      batch.positions.push_back(feed.start + static_cast<int32_t>(i));
      batch.sequence_of_token.push_back(static_cast<int32_t>(s));
    }
    batch.sequence_starts.push_back(batch.num_tokens());
    batch.kv_lengths.push_back(feed.start + static_cast<int32_t>(feed.tokens.size()));
  }
  append_pages(feeds, batch);
  append_states(feeds, batch);
  const Ticket ticket = executor_.forward(batch);
  executor_.draw(ticket, {});
  const Drawn drawn = executor_.wait(ticket);
  return {drawn.values.begin(), drawn.values.end()};
}

// Uses pages in descending order, so that a kernel that ignores the table reads the wrong ones. Layers with a
// window reuse a few pages in turn; entries that no token attends to name pages of another sequence.
void TransformerRunner::append_pages(const std::vector<Feed>& feeds, Batch& batch) const {
  const auto& windows = executor_.limits().windows;
  batch.num_page_tables = 1 + static_cast<int32_t>(windows.size());
  for (const Feed& feed : feeds) {
    for (int32_t p = 0; p < batch.page_table_stride; ++p)
      batch.page_table.push_back((feed.slot + 1) * batch.page_table_stride - 1 - p);
  }
  const int32_t turn = options_.window_pages;
  for (const WindowGroup& group : windows) {
    for (const Feed& feed : feeds) {
      const int32_t first = first_seen_page(feed.start, group.window, options_.page_tokens);
      const int32_t other = (feed.slot + 1) % options_.max_sequences * turn;
      for (int32_t p = 0; p < batch.page_table_stride; ++p)
        batch.page_table.push_back(p < first ? other : (feed.slot + 1) * turn - 1 - p % turn);
    }
  }
}

std::vector<float> TransformerRunner::hidden(int32_t num_tokens) {
  std::vector<float> states(static_cast<size_t>(num_tokens) *
                            static_cast<size_t>(model_->shape().hidden_size));
  executor_.read_hidden(0, states);
  return states;
}

std::vector<float> TransformerRunner::logits(const TokenIds& ids, int32_t chunk_tokens, int32_t slot) {
  std::vector<float> all;
  for (size_t start = 0; start < ids.size(); start += static_cast<size_t>(chunk_tokens)) {
    const size_t end = std::min(ids.size(), start + static_cast<size_t>(chunk_tokens));
    Feed feed;
    feed.slot = slot;
    feed.start = static_cast<int32_t>(start);
    feed.tokens.assign(ids.begin() + static_cast<ptrdiff_t>(start),
                       ids.begin() + static_cast<ptrdiff_t>(end));
    const std::vector<float> rows = step({feed});
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

int32_t arg_max(const float* row, int32_t count) {
  return static_cast<int32_t>(std::max_element(row, row + count) - row);
}

}  // namespace quire::testing
