// Runs a loaded model on ids directly, below the engine: the place to compare numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/model.h"
#include "core/models/transformer_executor.h"

namespace quire::testing {

// What QUIRE_TEST_DEVICE names ("cuda:0"), the CPU where it is not set. Throws where there is no such device.
std::shared_ptr<Device> open_test_device();
// The same device opened again, with options of its own.
std::shared_ptr<Device> open_device_like_test_device(const kernels::DeviceOptions& options);
// Another device of the same backend: what QUIRE_TEST_SECOND_DEVICE names, or the first once more.
std::shared_ptr<Device> open_second_test_device();

// How far from a reference the numbers of the device under test may lie, by the type of its activations.
double tolerance(double of_f32, double of_f16);

// On the device under test.
std::shared_ptr<const Model> load_model(const std::string& path,
                                        kernels::ActivationDtype activations = kernels::ActivationDtype::full,
                                        int32_t num_shards = 1);
std::shared_ptr<const Model> load_shards(const std::string& path, int32_t num_shards);

// Whether the device under test computes so.
bool runs_activations(kernels::ActivationDtype activations);

// Why a card does not run a model that the CPU does; empty where it does.
std::string refusal_of(const std::string& path);

struct RunnerOptions {
  int32_t page_tokens = 256;
  int32_t max_tokens = 512;  // of one step
  int32_t num_pages = 16;
  int32_t max_sequences = 8;
  bool wants_hidden = false;
  kernels::KvFormat kv_format = kernels::KvFormat::f16;
  // Pages that a sequence has in layers with a window, used in turns: as many as the window and a step reach.
  // 0: such layers keep theirs like all others.
  int32_t window_pages = 0;
};

// One sequence's share of a step.
struct Feed {
  int32_t slot = 0;   // which sequence: each has its own pages
  int32_t start = 0;  // position of the first token
  TokenIds tokens;
};

class TransformerRunner {
 public:
  TransformerRunner(std::shared_ptr<const Model> model, const RunnerOptions& options);

  // One step; the logits of all its tokens, [sum of tokens, vocabulary].
  std::vector<float> step(const std::vector<Feed>& feeds);
  // The states behind the last norm of the last step's first num_tokens tokens, [num_tokens, hidden].
  std::vector<float> hidden(int32_t num_tokens);
  // All ids of one sequence from position 0, in chunks.
  std::vector<float> logits(const TokenIds& ids, int32_t chunk_tokens, int32_t slot = 0);
  // Groups of layers that give pages back.
  size_t num_windows() const { return executor_.limits().windows.size(); }
  int32_t vocab_size() const { return model_->shape().vocab_size; }

 private:
  void append_pages(const std::vector<Feed>& feeds, Batch& batch) const;

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  TransformerExecutor executor_;
};

// Where the largest value lies; the lowest index of equals.
int32_t arg_max(const float* row, int32_t count);

}  // namespace quire::testing
