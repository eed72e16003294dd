// Parts from which an engine for one model is built: executor, text, tokens and memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/events/text_codec.h"
#include "core/engine/residency/runtime.h"
#include "core/engine/settings/model_rules.h"
#include "core/step/executor.h"

namespace quire {

// Parts that can be copied. An engine keeps them all.
struct ModelParts {
  std::shared_ptr<const TextCodec> codec;
  std::vector<TokenId> end_tokens;  // end-of-sequence tokens, which every job stops at
  ModelRules rules;
  int32_t num_tokens = 0;   // valid token ids are [0, num_tokens); at most the executor's vocabulary
  int32_t max_seq_len = 0;  // the model's own limit
  std::shared_ptr<WeightResidency> residency;  // null: the weights always stay on their devices
  PageMemory page_memory;             // of an elastic cache; null: its pages count in no memory budget
  std::vector<uint64_t> shard_bytes;  // device memory on each shard; for an elastic cache its initial memory
  std::shared_ptr<const void> model;  // kept alive as long as the engine
};

struct EngineParts : ModelParts {
  std::unique_ptr<Executor> executor;
  std::vector<std::string> devices;  // names of the devices that the executor computes on
};

}  // namespace quire
