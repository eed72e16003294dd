#include "core/stages/stage_device.h"

#include <algorithm>

namespace quire {
namespace {

constexpr uint64_t kSharedCapabilities =
    kernels::kCapabilityKvFp8 | kernels::kCapabilityKvQuantized | kernels::kCapabilityDeterministic;

// Converts to any function of a kernel table that returns a status: one that refuses.
struct Refusal {
  template <typename... Arguments>
  using Function = kernels::Status (*)(Arguments...);
  template <typename... Arguments>
  operator Function<Arguments...>() const {  // NOLINT: the conversion is intended
    return [](Arguments...) {
      return kernels::failed(kernels::Status::unsupported, "the device is in another process");
    };
  }
};

// Everything that a Device refers to. Freed by its close_device.
struct StageHandle {
  std::string name;
  StageDescription description;
  std::shared_ptr<const StageCounters> counters;
  kernels::Backend backend;
  KernelTable table;
};

StageHandle* handle_of(const kernels::Device* device) {
  return reinterpret_cast<StageHandle*>(const_cast<kernels::Device*>(device));
}

template <size_t kBytes>
void copy_text(const std::string& text, char (&out)[kBytes]) {
  const size_t size = std::min(text.size(), kBytes - 1);
  std::copy_n(text.begin(), size, out);
  out[size] = 0;
}

kernels::Status device_info(const kernels::Device* device, kernels::DeviceInfo* info) {
  const StageHandle& stage = *handle_of(device);
  copy_text(stage.description.device, info->name);
  const std::string transport = stage.counters->transport();
  copy_text(stage.description.detail + (transport.empty() ? "" : "; " + transport), info->detail);
  info->total_bytes = stage.description.total_bytes;
  info->free_bytes = stage.counters->free_bytes;
  info->num_units = stage.description.num_units;
  return kernels::Status::ok;
}

kernels::Backend make_backend(const std::string& name) {
  kernels::Backend backend;
  backend.name = name.c_str();
  backend.num_devices = [](char*, size_t) { return 1; };
  backend.open_device = [](int32_t, const kernels::DeviceOptions*, kernels::Device**) {
    return kernels::Status(kernels::Status::unsupported);
  };
  backend.close_device = [](kernels::Device* device) { delete handle_of(device); };
  backend.table = [](const kernels::Device* device) -> const KernelTable* {
    return &handle_of(device)->table;
  };
  backend.device_info = device_info;
  return backend;
}

// Fills the entries for memory and weights.
void refuse_memory(KernelTable& table) {
  const Refusal refuse;
  table.allocate = refuse;
  table.upload = refuse;
  table.download = refuse;
  table.fill = refuse;
  table.reserve = refuse;
  table.map = refuse;
  table.prepare_weights = refuse;
  table.prepare_table = refuse;
  table.copy_weight = refuse;
  table.bring_weight = refuse;
  table.plan_weights = refuse;
  table.plan_table = refuse;
  table.dequantize = refuse;
}

// Fills the entries for contexts, steps, rows and shards.
void refuse_steps(KernelTable& table) {
  const Refusal refuse;
  table.create_context = refuse;
  table.plan_context = refuse;
  table.synchronize = refuse;
  table.bind_batch = refuse;
  table.begin_step = refuse;
  table.end_step = refuse;
  table.pause_step = refuse;
  table.resume_step = refuse;
  table.forget_steps = refuse;
  table.read_rows = refuse;
  table.write_rows = refuse;
  table.receive_rows = refuse;
  table.connect_shards = refuse;
  table.all_gather = refuse;
}

void refuse_links(KernelTable& table) {
  const Refusal refuse;
  table.open_links = refuse;
  table.make_link_id = refuse;
  table.create_link = refuse;
  table.poll_link = refuse;
  table.send_by_link = refuse;
  table.receive_by_link = refuse;
  table.release_link = [](kernels::Link*) {};
}

// Fills the operations of layers and measurements.
void refuse_operations(KernelTable& table) {
  const Refusal refuse;
  table.embed = refuse;
  table.norm = refuse;
  table.linear = refuse;
  table.rope_angles = refuse;
  table.append_kv = refuse;
  table.attention = refuse;
  table.activation = refuse;
  table.scale_logits = refuse;
  table.route = refuse;
  table.expert_linear = refuse;
  table.combine = refuse;
  table.describe_weight = refuse;
  table.copy_pieces = refuse;
  table.sum_packed_experts = refuse;
  table.fill_expert_slots = refuse;
  table.start_slot_experts = refuse;
  table.finish_slot_experts = refuse;
  table.expand_latent = refuse;
  table.select_keys = refuse;
  table.row_op = refuse;
  table.mix_streams = refuse;
  table.collapse_streams = refuse;
  table.expand_streams = refuse;
  table.copy_page = refuse;
  table.convolve = refuse;
  table.delta_rule = refuse;
  table.state_space = refuse;
  table.linear_attention = refuse;
  table.selective_scan = refuse;
  table.gated_norm = refuse;
  table.copy_state = refuse;
  table.sample = refuse;
  table.wait_for_draws = refuse;
  table.attention_block = refuse;
  table.mlp_block = refuse;
  table.choose_experts = refuse;
  table.head = refuse;
  table.measure_read_rate = refuse;
  table.measure_op_rate = refuse;
}

KernelTable make_table(const StageDescription& description) {
  KernelTable table;
  table.capabilities = description.capabilities & kSharedCapabilities;
  table.mechanisms = description.mechanisms;
  table.activation_dtype = description.activation_dtype;
  table.name = description.table.c_str();
  table.memory_use = [](const kernels::Device*, kernels::MemoryUse* use) { *use = {}; };
  table.taken_bytes = [](uint64_t bytes) { return bytes; };
  table.release = [](kernels::Device*, void*) {};
  table.unmap = [](kernels::Device*, void*, size_t) {};
  table.unreserve = [](kernels::Device*, void*) {};
  table.trim = [](kernels::Device*) {};
  table.release_weight = [](kernels::Device*, kernels::Weight*) {};
  table.weight_bytes = [](const kernels::Weight*) { return uint64_t{0}; };
  table.park_weight = [](kernels::Device*, const kernels::Weight*) { return uint64_t{0}; };
  table.release_context = [](kernels::Context*) {};
  table.reaches = [](kernels::Device*, kernels::Device*) { return 0; };
  table.release_communicator = [](kernels::Communicator*) {};
  table.interrupt_shards = [](kernels::Communicator*) {};
  table.resume_shards = [](kernels::Communicator*) {};
  refuse_memory(table);
  refuse_steps(table);
  refuse_links(table);
  refuse_operations(table);
  return table;
}

}  // namespace

std::shared_ptr<Device> make_stage_device(const std::string& name, const StageDescription& description,
                                          std::shared_ptr<const StageCounters> counters,
                                          std::shared_ptr<StagePeer> peer) {
  auto stage = std::make_unique<StageHandle>();
  stage->name = name;
  stage->description = description;
  stage->counters = std::move(counters);
  stage->backend = make_backend(stage->name);
  stage->table = make_table(stage->description);
  auto device = std::make_shared<Device>(stage->backend, reinterpret_cast<kernels::Device*>(stage.get()),
                                         std::move(peer));
  stage.release();  // NOLINT(bugprone-unused-return-value): the device frees it
  return device;
}

}  // namespace quire
