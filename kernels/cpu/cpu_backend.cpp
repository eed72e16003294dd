#include "kernels/cpu/cpu_backend.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <system_error>
#include <unistd.h>

#include "kernels/cpu/available_memory.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/interface/composite.h"
#include "kernels/interface/host_memory.h"

namespace quire::kernels {
namespace {

constexpr int32_t kMaxThreads = 1024;

// The memory of the host needs no links: rows arrive there anyway.
constexpr void refuse_links(KernelTable& table) {
  table.open_links = [](Device*, LinkSupport*) {
    return failed(Status::unsupported, "the CPU has no links between processes");
  };
  table.make_link_id = [](Device*, LinkId*) { return Status(Status::unsupported); };
  table.create_link = [](Context*, const LinkId*, int32_t, Link**) { return Status(Status::unsupported); };
  table.poll_link = [](Link*, LinkState*) { return Status(Status::unsupported); };
  table.send_by_link = [](Link*, const float*, int32_t, int32_t) { return Status(Status::unsupported); };
  table.receive_by_link = [](Link*, float*, int32_t, int32_t) { return Status(Status::unsupported); };
  table.release_link = [](Link*) {};
}

constexpr KernelTable make_table(const char* name) {
  KernelTable table;
  table.capabilities =
      kCapabilityKvFp8 | kCapabilityKvQuantized | kCapabilityDeterministic | kCapabilityShards;
  table.mechanisms = ((uint64_t{1} << kNumMechanisms) - 1) & ~uint64_t{kMechanismFloat8Activations};
  table.activation_dtype = DType::f32;
  table.name = name;
  table.map_unit = kHostMapUnit;
  table.memory_use = cpu_entries::memory_use;
  table.taken_bytes = cpu_entries::taken_bytes;
  table.allocate = cpu_entries::allocate;
  table.release = cpu_entries::release;
  table.reserve = cpu_entries::reserve;
  table.map = cpu_entries::map;
  table.unmap = cpu_entries::unmap;
  table.unreserve = cpu_entries::unreserve;
  table.trim = cpu_entries::trim;
  table.upload = cpu_entries::upload;
  table.download = cpu_entries::download;
  table.fill = cpu_entries::fill;
  table.prepare_weights = cpu_entries::prepare_weights;
  table.prepare_table = cpu_entries::prepare_table;
  table.release_weight = cpu_entries::release_weight;
  table.weight_bytes = cpu_entries::weight_bytes;
  table.copy_weight = cpu_entries::copy_weight;
  table.park_weight = cpu_entries::park_weight;
  table.bring_weight = cpu_entries::bring_weight;
  table.plan_weights = cpu_entries::plan_weights;
  table.plan_table = cpu_entries::plan_table;
  table.dequantize = cpu_entries::dequantize;
  table.describe_weight = cpu_entries::describe_weight;
  table.copy_pieces = cpu_entries::copy_pieces;
  table.sum_packed_experts = cpu_entries::multiply_packed_experts;
  table.fill_expert_slots = cpu_entries::multiply_packed_experts;
  table.start_slot_experts = cpu_entries::multiply_packed_experts;
  table.finish_slot_experts = cpu_entries::finish_slot_experts;
  table.create_context = cpu_entries::create_context;
  table.release_context = cpu_entries::release_context;
  table.plan_context = cpu_entries::plan_context;
  table.synchronize = cpu_entries::synchronize;
  table.bind_batch = cpu_entries::bind_batch;
  table.begin_step = cpu_entries::begin_step;
  table.end_step = cpu_entries::end_step;
  table.pause_step = cpu_entries::pause_step;
  table.resume_step = cpu_entries::resume_step;
  table.forget_steps = cpu_entries::synchronize;  // nothing is recorded
  table.read_rows = cpu_entries::read_rows;
  table.write_rows = cpu_entries::write_rows;
  table.receive_rows = cpu_entries::receive_rows;
  table.reaches = cpu_entries::reaches;
  table.connect_shards = cpu_entries::connect_shards;
  table.release_communicator = cpu_entries::release_communicator;
  table.all_gather = cpu_entries::all_gather;
  table.interrupt_shards = cpu_entries::interrupt_shards;
  table.resume_shards = cpu_entries::resume_shards;
  refuse_links(table);
  table.embed = cpu_entries::embed;
  table.norm = cpu_entries::norm;
  table.linear = cpu_entries::linear;
  table.rope_angles = cpu_entries::rope_angles;
  table.append_kv = cpu_entries::append_kv;
  table.attention = cpu_entries::attention;
  table.activation = cpu_entries::activation;
  table.scale_logits = cpu_entries::scale_logits;
  table.route = cpu_entries::route;
  table.expert_linear = cpu_entries::expert_linear;
  table.combine = cpu_entries::combine;
  table.expand_latent = cpu_entries::expand_latent;
  table.select_keys = cpu_entries::select_keys;
  table.row_op = cpu_entries::row_op;
  table.mix_streams = cpu_entries::mix_streams;
  table.collapse_streams = cpu_entries::collapse_streams;
  table.expand_streams = cpu_entries::expand_streams;
  table.copy_page = cpu_entries::copy_page;
  table.convolve = cpu_entries::convolve;
  table.delta_rule = cpu_entries::delta_rule;
  table.state_space = cpu_entries::state_space;
  table.linear_attention = cpu_entries::linear_attention;
  table.selective_scan = cpu_entries::selective_scan;
  table.gated_norm = cpu_entries::gated_norm;
  table.copy_state = cpu_entries::copy_state;
  table.sample = cpu_entries::sample;
  table.wait_for_draws = cpu_entries::wait_for_draws;
  table.attention_block = composed_attention_block;
  table.mlp_block = composed_mlp_block;
  table.choose_experts = composed_choose_experts;
  table.head = composed_head;
  table.measure_read_rate = cpu_entries::measure_read_rate;
  table.measure_op_rate = cpu_entries::measure_op_rate;
  return table;
}

constexpr KernelTable kScalarTable = make_table("cpu-scalar");
constexpr KernelTable kAvx2Table = make_table("cpu-avx2");
constexpr KernelTable kAvx512Table = make_table("cpu-avx512");

const KernelTable& table_of(const IsaKernels& isa) {
  if (std::strcmp(isa.name, "avx512") == 0) return kAvx512Table;
  return std::strcmp(isa.name, "avx2") == 0 ? kAvx2Table : kScalarTable;
}

// Returns the number of processors that this process may run on.
int32_t num_usable_processors() {
  for (int32_t limit = 1024; limit <= (1 << 20); limit *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(limit));
    if (set == nullptr) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(limit));
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    const int32_t count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return count > 0 ? count : 1;
  }
  return 1;
}

int32_t num_devices(char*, size_t) {
  return 1;
}

Status open_device(int32_t index, const DeviceOptions* options, Device** device) {
  if (index != 0) return failed(Status::invalid_argument, "the only CPU device is number 0");
  if (options->num_threads < 0 || options->num_threads > kMaxThreads) {
    return failed(Status::invalid_argument, "num_threads must be 0 (all) to 1024");
  }
  const IsaKernels* isa = nullptr;
  if (const Status s = choose_kernels(std::getenv("QUIRE_CPU_ISA"), &isa); s != Status::ok) return s;
  const int32_t wanted = options->num_threads != 0 ? options->num_threads : num_usable_processors();
  const int32_t num_threads = wanted < kMaxThreads ? wanted : kMaxThreads;
  try {
    *device = new Device(*isa, table_of(*isa), num_threads, options->memory_limit_bytes);
    return Status::ok;
  } catch (const std::system_error&) {
    return failed(Status::out_of_memory,
                  "the system refused to start %d threads; set num_threads to a lower number", num_threads);
  } catch (...) {
    return failed(Status::out_of_memory, "out of host memory");
  }
}

void close_device(Device* device) {
  delete device;
}

const KernelTable* table(const Device* device) {
  return &device->table;
}

Status device_info(const Device* device, DeviceInfo* info) {
  char name[64];
  processor_name(name, sizeof name);
  std::snprintf(info->name, sizeof info->name, "%s, %s", name, device->isa.name);
  info->num_units = device->pool.num_threads();
  std::snprintf(info->detail, sizeof info->detail, "%s kernels, %d threads", device->isa.name,
                info->num_units);
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  info->total_bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes;
  info->free_bytes = free_memory(*device);
  return Status::ok;
}

constexpr Backend kBackend = {kBackendAbi, "cpu", num_devices, open_device, close_device, table, device_info};

}  // namespace

uint64_t free_memory(const Device& device) {
  return device.meter.free_bytes(available_memory(memory_sources(), device.meter.use().held_bytes));
}

const Backend& cpu_backend() {
  return kBackend;
}

}  // namespace quire::kernels
