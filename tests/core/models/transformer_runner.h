// Runs a loaded model on ids directly, without the engine, to compare numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/model.h"
#include "core/models/transformer_executor.h"

namespace quire::testing {

// Opens the device that QUIRE_TEST_DEVICE names ("cuda:0"), or the CPU if it is not set. Throws if there is
// no such device.
std::shared_ptr<Device> open_test_device();
// Opens the same device again, with other options.
std::shared_ptr<Device> open_device_like_test_device(const kernels::DeviceOptions& options);
// Opens another device of the same backend: the one that QUIRE_TEST_SECOND_DEVICE names, or the first one
// again.
std::shared_ptr<Device> open_second_test_device();

// Returns the tolerance relative to a reference for the device under test, by the type of its activations.
double tolerance(double of_f32, double of_f16);

// Load a model on the device under test.
std::shared_ptr<const Model> load_model(const std::string& path,
                                        kernels::ActivationDtype activations = kernels::ActivationDtype::full,
                                        int32_t num_shards = 1);
// `drafter` is that of open_draft_source.
std::shared_ptr<const Model> load_with_drafter(const std::string& path, const std::string& drafter);
std::shared_ptr<const Model> load_shards(const std::string& path, int32_t num_shards);

// Returns whether the device under test supports this activation type.
bool runs_activations(kernels::ActivationDtype activations);

// Returns why a GPU does not run a model that the CPU supports, or why no device does: a mixer of it has no
// layer. Empty if the device under test runs it.
std::string refusal_of(const std::string& path);

struct RunnerOptions {
  int32_t page_tokens = 256;
  int32_t max_tokens = 512;  // of one step
  int32_t num_pages = 16;
  int32_t max_sequences = 8;
  bool wants_hidden = false;
  kernels::KvFormat kv_format = kernels::KvFormat::f16;
  // Pages of a sequence in layers with a window, used in turn: as many as the window and a step need. 0: such
  // layers keep all pages, like other layers.
  int32_t window_pages = 0;
  int32_t max_seq_len = 0;  // 0: as many tokens as the pages of a sequence hold
  uint64_t card_expert_bytes = 0;
};

// Tokens of one sequence in a step.
struct Feed {
  int32_t slot = 0;   // index of the sequence; each has its own pages
  int32_t start = 0;  // position of the first token
  TokenIds tokens;
};

class TransformerRunner {
 public:
  // `source` is that of TransformerExecutor; steps then need acquire_weights.
  TransformerRunner(std::shared_ptr<const Model> model, const RunnerOptions& options,
                    WeightsSource source = nullptr);

  void acquire_weights() { executor_.acquire_weights(); }
  void release_weights() { executor_.release_weights(); }

  // Runs one step and returns the logits of all its tokens, [sum of tokens, vocabulary].
  std::vector<float> step(const std::vector<Feed>& feeds);
  // Lets sequence `to` have the first num_tokens tokens of `from` from the next step on. Layers with a window
  // are not copied.
  void fork(int32_t from, int32_t to, int32_t num_tokens);
  // Returns whether the state of a sequence can continue at a position.
  bool can_continue(int32_t slot, int32_t position) const {
    return lines_.empty() || kernels::state_bank(lines_[static_cast<size_t>(slot)], position) >= 0;
  }
  // Returns the hidden states after the last norm of the last step's first num_tokens tokens, [num_tokens,
  // hidden].
  std::vector<float> hidden(int32_t num_tokens);
  // Runs all ids of one sequence from position 0, in chunks, and returns their logits.
  std::vector<float> logits(const TokenIds& ids, int32_t chunk_tokens, int32_t slot = 0);
  // Returns the number of groups of layers with a window.
  size_t num_windows() const { return executor_.limits().windows.size(); }
  const TransformerExecutor& executor() const { return executor_; }
  int32_t vocab_size() const { return model_->shape().vocab_size; }

 private:
  void append_pages(const std::vector<Feed>& feeds, Batch& batch) const;
  void append_states(const std::vector<Feed>& feeds, Batch& batch);

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  TransformerExecutor executor_;
  std::vector<kernels::StateLines> lines_;  // of each sequence; empty: no layer has a state
  std::vector<PageCopy> page_copies_;       // before the next step
  std::vector<StateCopy> state_copies_;
};

// Returns the index of the largest value; the lowest index of equals.
int32_t arg_max(const float* row, int32_t count);

}  // namespace quire::testing
