// Creates the engine of a loaded model, with its KV cache.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/engine/engine.h"
#include "core/models/memory_plan.h"
#include "core/models/model.h"

namespace quire {

// Formats of keys and values that are used together, with the name that options use for the pair.
struct KvFormats {
  kernels::KvFormat keys, values;
  const char* name;
};

// Sorted from the most exact. FP8 is last: it is as large as Q8 and less exact.
inline constexpr std::array<KvFormats, 5> kKvFormats = {{
    {kernels::KvFormat::f16, kernels::KvFormat::f16, "F16"},
    {kernels::KvFormat::q8, kernels::KvFormat::q8, "Q8"},
    {kernels::KvFormat::q8, kernels::KvFormat::q4, "Q6"},
    {kernels::KvFormat::q4, kernels::KvFormat::q4, "Q4"},
    {kernels::KvFormat::fp8, kernels::KvFormat::fp8, "FP8"},
}};

// Options of a cache: sizes that cost memory, and the engine's policy. 0 selects the default, if one is
// given.
struct ModelCacheOptions {
  int64_t max_tokens = 0;  // for all jobs together; default: max(max_seq_len, 8192)
  // Set for an elastic cache, which grows and shrinks: its minimum size, which jobs can rely on. 0: always
  // max_tokens.
  int64_t min_tokens = 0;
  int32_t page_tokens = 256;       // 1 to 4096
  int32_t max_batch_size = 64;     // jobs that run at the same time, 1 to 4096
  int32_t max_chunk_tokens = 512;  // tokens of one step, 1 to 65536
  // Tokens of one job. Default: the model's limit, or min_tokens or max_tokens if that is smaller.
  int64_t max_seq_len = 0;
  // Number of sequences that can have full sliding windows, or recurrent states, at the same time. Default:
  // max_batch_size, so that no job waits for them. A smaller value saves memory.
  int32_t window_sequences = 0;
  kernels::KvFormat key_format = kernels::KvFormat::f16;
  kernels::KvFormat value_format = kernels::KvFormat::f16;
  // Memory of each card for experts that lie in host memory: the most chosen ones stay there between steps.
  int64_t card_expert_bytes = 0;
  bool picks_kv_format =
      false;  // ignores the two formats and picks the most exact one that fits (precision.h)
  // max_running_jobs, max_chunk_tokens and max_seq_len are replaced by the values above
  EngineOptions engine;
};

// Returns the sizes of such a cache. Throws ErrorCode::invalid_argument naming the option.
TransformerExecutorOptions executor_options(const ModelConfig& config, const ModelCacheOptions& options);

// Returns the bytes that such a cache needs on the devices of each shard, without allocating. `device` is
// used only if the model has no weights: the device to plan for. Throws ErrorCode::invalid_argument naming
// the option.
std::vector<uint64_t> plan_model_cache(const Model& model, const ModelCacheOptions& options,
                                       const Device& device);

// Returns why the device or a layer of the model does not support these KV formats; empty if they are
// supported.
std::string kv_refusal(const Device& device, const ModelConfig& config, const ModelCacheOptions& options);

class ResidentModel;

// Creates the engine. Throws ErrorCode::invalid_argument naming the option, ErrorCode::unsupported with a
// kv_refusal, ErrorCode::out_of_memory with the bytes needed; then nothing stays allocated. `home`: set if
// the weights may be evicted while the cache has no jobs; null: they stay loaded.
std::shared_ptr<Engine> create_model_cache(std::shared_ptr<Runtime> runtime,
                                           const std::shared_ptr<const Model>& model,
                                           const ModelCacheOptions& options,
                                           const std::shared_ptr<const ResidentModel>& home = nullptr);

}  // namespace quire
