#include "core/engine/model/model_cache.h"

#include <algorithm>

#include <fmt/core.h>

#include "core/base/checked_math.h"
#include "core/engine/model/model_fingerprint.h"
#include "core/engine/model/out_of_memory.h"
#include "core/engine/model/resident_model.h"
#include "core/engine/model/tokenizer_codec.h"
#include "core/models/drafting_executor.h"
#include "core/models/stage_sizes.h"
#include "core/models/state_slots.h"
#include "core/models/transformer_shape.h"
#include "core/models/window_groups.h"

namespace quire {
namespace {

constexpr int64_t kDefaultCacheTokens = 8192;
// Number of steps in which an elastic cache grows from its smallest to its largest size.
constexpr int32_t kChunks = 16;
// Maximum distinct tokens that the penalties, biases and bans of one step may edit on the device: 32 jobs
// with penalties on 2,000 tokens each.
constexpr int32_t kMaxDrawEdits = 1 << 16;

// Objects that a cache keeps alive: its model and its memory leases.
struct Kept {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const ResidentModel> home;
  std::vector<MemoryLease> memory;  // of each stage, of host experts, and for evicted prefixes
};

int64_t require_range(int64_t value, int64_t min, int64_t max, std::string_view name) {
  if (value >= min && value <= max) return value;
  throw Error(ErrorCode::invalid_argument, "{} is {}; it must be from {} to {}", name, value, min, max)
      .at(name);
}

// Sizes of a cache with defaults filled in and ranges checked.
struct CacheSizes {
  int32_t page_tokens = 0;
  int32_t num_pages = 0;
  int32_t least_pages = 0;  // 0: num_pages
  int32_t max_seq_len = 0;
  int32_t max_sequences = 0;
  int32_t max_step_tokens = 0;
};

CacheSizes settle_sizes(const ModelConfig& config, const ModelCacheOptions& options) {
  const int64_t model_limit = config.max_positions;
  CacheSizes sizes;
  sizes.page_tokens = static_cast<int32_t>(require_range(options.page_tokens, 1, 4096, "page_tokens"));
  sizes.max_sequences =
      static_cast<int32_t>(require_range(options.max_batch_size, 1, 4096, "max_batch_size"));
  require_range(options.max_chunk_tokens, 1, 65536, "max_chunk_tokens");
  require_range(options.window_sequences, 0, 4096, "window_sequences");
  require_range(options.max_tokens, 0, int64_t{1} << 31, "max_tokens");
  require_range(options.max_seq_len, 0, model_limit, "max_seq_len");

  int64_t seq_len = options.max_seq_len != 0 ? options.max_seq_len : model_limit;
  const int64_t tokens =
      options.max_tokens != 0 ? options.max_tokens : std::max(seq_len, kDefaultCacheTokens);
  require_range(options.min_tokens, 0, tokens, "min_tokens");
  const int64_t promised = options.min_tokens != 0 ? options.min_tokens : tokens;
  if (options.max_seq_len == 0) seq_len = std::min(seq_len, promised);
  const auto pages_of = [&](int64_t of_tokens) {
    return checked_cast<int32_t>(
        ceil_div(static_cast<uint64_t>(of_tokens), static_cast<uint64_t>(sizes.page_tokens)),
        "max_tokens / page_tokens");
  };
  sizes.num_pages = pages_of(tokens);
  if (pages_of(promised) < sizes.num_pages) sizes.least_pages = pages_of(promised);
  sizes.max_seq_len = checked_cast<int32_t>(seq_len, "max_seq_len");
  // Every running sequence must be able to take its next token in the same step.
  sizes.max_step_tokens = std::max(options.max_chunk_tokens, sizes.max_sequences);
  return sizes;
}

TransformerExecutorOptions executor_options(const TransformerShape& shape, const CacheSizes& sizes,
                                            const ModelCacheOptions& options) {
  TransformerExecutorOptions out;
  out.max_tokens = sizes.max_step_tokens;
  out.max_sequences = sizes.max_sequences;
  // A scoring job needs a row of logits for each token of its chunk.
  out.max_logit_rows = sizes.max_step_tokens;
  out.max_draw_edits = kMaxDrawEdits;
  out.max_pages_per_sequence = static_cast<int32_t>(
      ceil_div(static_cast<uint64_t>(sizes.max_seq_len), static_cast<uint64_t>(sizes.page_tokens)));
  out.max_seq_len = sizes.max_seq_len;
  out.card_expert_bytes =
      static_cast<uint64_t>(require_range(options.card_expert_bytes, 0, INT64_MAX, "card_expert_bytes"));
  out.kv.key_format = options.key_format;
  out.kv.value_format = options.value_format;
  out.kv.page_tokens = sizes.page_tokens;
  out.kv.num_pages = sizes.num_pages;
  out.kv.least_pages = sizes.least_pages;
  if (sizes.least_pages > 0) out.chunk_pages = (sizes.num_pages - sizes.least_pages + kChunks - 1) / kChunks;
  out.kv.windows = window_groups(shape, out, options.window_sequences);
  out.kv.num_state_slots = num_state_slots(shape, out, options.window_sequences);
  if (sizes.least_pages > 0) out.kv.least_state_slots = least_state_slots(out.kv);
  return out;
}

// Returns the number of valid token ids. Ids unknown to the tokenizer (padding of the vocabulary) are never
// sampled and never accepted.
int32_t num_tokens(const Model& model) {
  const int32_t vocab = model.shape().vocab_size;
  if (!model.shared_tokenizer()) return vocab;
  return static_cast<int32_t>(std::min<size_t>(static_cast<size_t>(vocab), model.tokenizer().vocab_size()));
}

TokenIds ids_below(int32_t end, const TokenIds& ids) {
  TokenIds below;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(below), [end](TokenId id) { return id < end; });
  return below;
}

// Throws if the drafter is a network and the model has none.
void require_network(const Model& model, const DraftingOptions& drafting) {
  if (drafting.drafter != DrafterKind::network || !model.drafter_name().empty()) return;
  throw Error(ErrorCode::invalid_argument,
              "drafter: {} was loaded without a draft network; load it with drafter \"mtp\" or the path of a "
              "draft network, or choose another drafter for the cache",
              model.path())
      .at("drafter");
}

bool is_on_device(const Device& device, kernels::KvFormat format) {
  using kernels::KvFormat;
  return format == KvFormat::f16 || (format == KvFormat::fp8 ? device.has(kernels::kCapabilityKvFp8)
                                                             : device.has(kernels::kCapabilityKvQuantized));
}

// Returns an error text if the heads cannot be stored in the format.
std::string refusal_of_heads(kernels::KvFormat format, int32_t head_dim, const char* what) {
  if (kernels::holds_heads(format, head_dim)) return {};
  return fmt::format(
      "kv_format: heads have {} of {} elements, but the formats q8 and q4 need multiples of {}; use f16 "
      "or fp8",
      what, head_dim, kernels::kKvScaleGroup);
}

}  // namespace

TransformerExecutorOptions executor_options(const ModelConfig& config, const ModelCacheOptions& options) {
  return executor_options(transformer_shape(config.spec), settle_sizes(config, options), options);
}

namespace {

// Calls `visit` for each device of each stage with the memory of the cache there.
template <typename Visit>
void each_stage_memory(const Model& model, const TransformerExecutorOptions& sizes, Visit visit) {
  const std::shared_ptr<const Transformer> transformer = model.transformer();
  for (size_t i = 0; i < transformer->stages.size(); ++i)
    for (const StageDeviceMemory& memory : plan_stage(*transformer, i, sizes)) visit(memory);
}

MemoryRequest memory_request_of(const std::shared_ptr<Device>& device, uint64_t bytes, const Model& model) {
  return {device->name(), bytes, "the cache of " + model.path(),
          [device] { return device->info().free_bytes; }};
}

// Returns the function that computes the memory requests for an elastic cache of a given number of pages. The
// model must outlive it.
PageMemory page_memory(const Model& model, TransformerExecutorOptions sizes) {
  return [&model, sizes, slots = sizes.kv.state_slots()](int32_t num_pages) mutable {
    sizes.kv.least_pages = num_pages;
    if (slots.least_slots > 0) sizes.kv.least_state_slots = slots.slots_at(num_pages);
    std::vector<MemoryRequest> memory_requests;
    each_stage_memory(model, sizes, [&](const StageDeviceMemory& memory) {
      memory_requests.push_back(
          memory_request_of(memory.device, memory.bytes.kv + memory.bytes.states, model));
    });
    return memory_requests;
  };
}

std::vector<MemoryLease> lease_stages(Runtime& runtime, const Model& model,
                                      const TransformerExecutorOptions& sizes) {
  std::vector<MemoryLease> leases;
  each_stage_memory(model, sizes, [&](const StageDeviceMemory& memory) {
    leases.push_back(runtime.lease_memory(memory_request_of(memory.device, memory.bytes.cache(), model)));
  });
  const std::shared_ptr<const Transformer> transformer = model.transformer();
  if (transformer->host_experts.exist()) {
    leases.push_back(runtime.lease_memory(memory_request_of(
        transformer->host_experts.device, plan_host_experts(*transformer, sizes).cache(), model)));
  }
  return leases;
}

}  // namespace

std::string kv_refusal(const Device& device, const ModelConfig& config, const ModelCacheOptions& options) {
  if (!is_on_device(device, options.key_format) || !is_on_device(device, options.value_format))
    return fmt::format("kv_format: the backend {} does not support this format; use f16",
                       device.table().name);
  for (const KvSpec& kv : config.spec.kvs) {
    std::string refusal = refusal_of_heads(options.key_format, kv.head_dim, "keys");
    if (refusal.empty())
      refusal =
          refusal_of_heads(options.value_format, kv.value_dim == 0 ? kv.head_dim : kv.value_dim, "values");
    if (!refusal.empty()) return refusal;
  }
  return {};
}

std::vector<uint64_t> plan_model_cache(const Model& model, const ModelCacheOptions& options,
                                       const Device& device) {
  const TransformerExecutorOptions sizes = executor_options(model.config(), options);
  if (model.is_loaded()) return plan_shards(*model.transformer(), sizes);
  std::vector<uint64_t> bytes;
  for (int32_t rank = 0; rank < model.num_shards(); ++rank) {
    const TransformerShape shape =
        transformer_shape(shard_of(model.config().spec, {rank, model.num_shards(), {}}));
    const bool draws = rank == 0 && device.has(kernels::kCapabilityDeviceSampling);
    StagePosition position = {shape.num_layers, true, false, draws};
    position.num_shards = model.num_shards();
    bytes.push_back(plan_stage(device, stage_sizes(position, shape, sizes)).cache());
  }
  return bytes;
}

std::shared_ptr<Engine> create_model_cache(std::shared_ptr<Runtime> runtime,
                                           const std::shared_ptr<const Model>& model,
                                           const ModelCacheOptions& options,
                                           const std::shared_ptr<const ResidentModel>& home) {
  const CacheSizes sizes = settle_sizes(model->config(), options);
  require_network(*model, options.engine.drafting);
  const std::shared_ptr<const Transformer> transformer = model->transformer();
  const ResidencyGuard stay(home != nullptr ? home->shared_residency() : nullptr);
  const std::vector<std::shared_ptr<Device>> devices = transformer->devices();
  for (const std::shared_ptr<Device>& device : devices) {
    const std::string refusal = kv_refusal(*device, model->config(), options);
    if (!refusal.empty()) throw Error(ErrorCode::unsupported, "{}", refusal).at("kv_format");
  }
  TransformerExecutorOptions executor = executor_options(model->shape(), sizes, options);
  executor.threads = &runtime->threads();
  EngineParts parts;
  auto kept = std::make_shared<Kept>(Kept{model, home, lease_stages(*runtime, *model, executor)});
  if (options.engine.prefixes.host_bytes > 0) {
    kept->memory.push_back(runtime->lease_memory(
        {"cpu", options.engine.prefixes.host_bytes, "the stored prefixes of " + model->path()}));
  }
  WeightsSource source;
  if (home != nullptr) {
    parts.residency = home->shared_residency();
    source = [model] { return model->weights(); };
  }
  uint64_t bytes = 0;
  for (const MemoryLease& lease : kept->memory) bytes += lease.bytes();
  const auto in_memory = [&](const auto& body) {
    return within_memory("the cache of " + model->path(), bytes, *transformer->stages.front().device, body);
  };
  parts.executor = in_memory([&] { return make_executor(transformer, executor, source); });
  for (MemoryLease& lease : kept->memory) lease.settle();
  for (const std::shared_ptr<Device>& device : devices) parts.devices.push_back(device->name());
  if (transformer->host_experts.exist()) parts.devices.push_back(transformer->host_experts.device->name());
  parts.codec = std::make_shared<TokenizerCodec>(model->shared_tokenizer());
  parts.end_tokens = model->config().eos_ids;
  parts.num_tokens = num_tokens(*model);
  const GenerationRules& rules = model->config().usage.generation;
  parts.rules.banned_tokens = ids_below(parts.num_tokens, rules.banned_ids);
  parts.rules.first_banned_tokens = ids_below(parts.num_tokens, rules.first_banned_ids);
  const EmbeddingConfig& embedding = model->config().usage.embedding;
  parts.rules.has_head = !transformer->head.is_absent;
  parts.rules.pooling = embedding.pooling == DeclaredPooling::last ? Pooling::last : Pooling::mean;
  parts.rules.unsupported_pooling = embedding.unsupported;
  parts.max_seq_len = sizes.max_seq_len;
  parts.shard_bytes = plan_shards(*transformer, executor);
  if (sizes.least_pages > 0) parts.page_memory = page_memory(*model, executor);
  parts.model = std::move(kept);

  EngineOptions engine = options.engine;
  engine.max_running_jobs = sizes.max_sequences;
  engine.max_chunk_tokens = options.max_chunk_tokens;
  engine.max_seq_len = sizes.max_seq_len;
  if (!engine.prefixes.directory.empty())
    engine.prefixes.fingerprint = model_fingerprint(runtime->files(), *model, executor);
  return in_memory([&] { return Engine::create(std::move(runtime), std::move(parts), engine); });
}

}  // namespace quire
