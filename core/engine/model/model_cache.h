// A cache on a loaded model: where models meet the engine.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/engine/engine.h"
#include "core/models/memory_plan.h"
#include "core/models/model.h"

namespace quire {

// Keys and values as they are stored together, by the name that they have for users.
struct KvFormats {
  kernels::KvFormat keys, values;
  const char* name;
};

// The most exact first, but for FP8, which is as large as Q8 and less exact.
inline constexpr std::array<KvFormats, 5> kKvFormats = {{
    {kernels::KvFormat::f16, kernels::KvFormat::f16, "F16"},
    {kernels::KvFormat::q8, kernels::KvFormat::q8, "Q8"},
    {kernels::KvFormat::q8, kernels::KvFormat::q4, "Q6"},
    {kernels::KvFormat::q4, kernels::KvFormat::q4, "Q4"},
    {kernels::KvFormat::fp8, kernels::KvFormat::fp8, "FP8"},
}};

// Sizes that cost memory, and the policy of the engine. 0 takes the default named beside it.
struct ModelCacheOptions {
  int64_t max_tokens = 0;  // of all jobs together; max(max_seq_len, 8192)
  // A cache that grows and shrinks: what it has at least, and promises to jobs; 0: max_tokens, always.
  int64_t min_tokens = 0;
  int32_t page_tokens = 256;       // 1 to 4096
  int32_t max_batch_size = 64;     // jobs that run at the same time, 1 to 4096
  int32_t max_chunk_tokens = 512;  // of one step, 1 to 65536
  int64_t max_seq_len = 0;         // of one job; the model's, or min_tokens or max_tokens where that is less
  // Sequences that hold whole windows at the same time in layers that have one: max_batch_size, so that they
  // never wait for windows. With fewer the cache is smaller, and jobs wait where it does not suffice.
  int32_t window_sequences = 0;
  kernels::KvFormat key_format = kernels::KvFormat::f16;
  kernels::KvFormat value_format = kernels::KvFormat::f16;
  bool kv_by_room = false;  // in place of these two the most exact that there is room for (precision.h)
  EngineOptions engine;     // max_running_jobs, max_chunk_tokens and max_seq_len are taken from above
};

// The sizes that such a cache has. Throws ErrorCode::invalid_argument naming the option.
TransformerExecutorOptions executor_options(const ModelConfig& config, const ModelCacheOptions& options);

// Bytes that such a cache takes on the devices of each shard of the model, before anything is taken. Of a
// model without weights: on `device`, which is not looked at otherwise. Throws ErrorCode::invalid_argument
// naming the option.
std::vector<uint64_t> plan_model_cache(const Model& model, const ModelCacheOptions& options,
                                       const Device& device);

// Why the device, or a layer of the model, cannot have keys and values in these formats; empty where they
// can.
std::string kv_refusal(const Device& device, const ModelConfig& config, const ModelCacheOptions& options);

class ResidentModel;

// Throws ErrorCode::invalid_argument naming the option, ErrorCode::unsupported with a kv_refusal,
// ErrorCode::out_of_memory with the bytes needed; nothing stays taken then. `home`: of a model whose weights
// may leave while the cache has no jobs; null: they stay.
std::shared_ptr<Engine> create_model_cache(std::shared_ptr<Runtime> runtime,
                                           const std::shared_ptr<const Model>& model,
                                           const ModelCacheOptions& options,
                                           const std::shared_ptr<const ResidentModel>& home = nullptr);

}  // namespace quire
