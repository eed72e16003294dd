// The exported symbol of the CUDA backend, and the function tables of its devices.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <memory>
#include <string>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/limits.h"
#include "kernels/cuda/experts/choose.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/experts/packed.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/gemm_float8.h"
#include "kernels/cuda/gemm/matrix_library.h"
#include "kernels/cuda/link/link.h"
#include "kernels/cuda/pointwise/float8_rows.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/pointwise/rotated_rows.h"
#include "kernels/cuda/sample/sample.h"
#include "kernels/cuda/state/state.h"
#include "kernels/cuda/step/context.h"
#include "kernels/cuda/weights/block_repack.h"

namespace quire::kernels {
namespace {

// Oldest compute capability: 7.5, with mma.m16n8k8 and ldmatrix.
constexpr int32_t kOldestMajor = 7;
constexpr int32_t kOldestMinor = 5;

void say(char* text, size_t size, const std::string& words) {
  if (text != nullptr && size > 0) std::snprintf(text, size, "%s", words.c_str());
}

std::string version_words(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string error_words(const char* doing, cudaError_t error) {
  return std::string(doing) + ": " + cudaGetErrorName(error) + " (" +
         std::to_string(static_cast<int>(error)) + "), " + cudaGetErrorString(error);
}

// Returns an empty string if a driver is installed, otherwise a message about what is missing.
std::string missing_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "no NVIDIA driver: libcuda.so.1 cannot be loaded";
  dlclose(driver);
  return {};
}

int32_t num_devices(char* why, size_t size) {
  if (const std::string missing = missing_driver(); !missing.empty()) {
    say(why, size, missing);
    return 0;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    say(why, size,
        error_words("counting CUDA devices", error) + "; the driver supports CUDA " + version_words(driver) +
            ", this library was built with " + version_words(CUDART_VERSION));
    return 0;
  }
  if (count == 0) say(why, size, "the NVIDIA driver reports no device (see CUDA_VISIBLE_DEVICES)");
  return count;
}

void memory_use(const Device* device, MemoryUse* use) {
  *use = device->meter->use();
}

Status allocate(Device* device, size_t bytes, void** memory) {
  return device->allocate(bytes, memory, "allocating device memory");
}
void release(Device* device, void* memory) {
  device->release(memory);
}

Status reserve(Device* device, size_t bytes, void** range) {
  return device->reserve(bytes, range);
}
Status map(Device* device, void* range, size_t offset, size_t bytes) {
  return device->map(range, offset, bytes);
}
void unmap(Device* device, void* range, size_t offset) {
  device->unmap(range, offset);
}
void unreserve(Device* device, void* range) {
  device->unreserve(range);
}

Status upload(Device* device, void* target, const void* host, size_t bytes) {
  if (const Status s = device->enter(); s != Status::ok) return s;
  // From pageable memory the copy may return before the last bytes have arrived.
  cudaError_t error = cudaMemcpy(target, host, bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  return device->check(error, "copying to the device");
}
Status download(Device* device, void* host, const void* source, size_t bytes) {
  if (const Status s = device->enter(); s != Status::ok) return s;
  return device->check(cudaMemcpy(host, source, bytes, cudaMemcpyDeviceToHost), "copying from the device");
}
Status fill(Device* device, void* target, uint8_t byte, size_t bytes) {
  if (const Status s = device->enter(); s != Status::ok) return s;
  cudaError_t error = cudaMemset(target, byte, bytes);
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);  // contexts have streams of their own
  return device->check(error, "filling device memory");
}

// Calls visit for the weights that an operation reads; they may still be being copied to the device.
template <typename Visit, typename... Arguments>
void each_weight(const Visit&, const Arguments&...) {}
template <typename Visit>
void each_weight(const Visit& visit, const EmbedParams* p) {
  visit(p->table);
}
template <typename Visit>
void each_weight(const Visit& visit, const LinearParams* p) {
  visit(p->weight);
}
template <typename Visit>
void each_weight(const Visit& visit, const ExpertLinearParams* p) {
  for (int32_t e = 0; e < p->num_experts; ++e) visit(p->experts[e]);
}
template <typename Visit>
void each_weight(const Visit& visit, const AttentionBlockParams* p) {
  visit(p->qkv);
  visit(p->output);
}
template <typename Visit>
void each_weight(const Visit& visit, const MlpBlockParams* p) {
  visit(p->gate_up);
  visit(p->down);
}
template <typename Visit>
void each_weight(const Visit& visit, const ExpertChoiceParams* p) {
  visit(p->router);
}
template <typename Visit>
void each_weight(const Visit& visit, const HeadParams* p) {
  visit(p->head);
}

// While a step is recorded all weights are on the device: begin_step has checked that. It checks the same
// weights again before the step is replayed.
template <typename... Arguments>
Status await_weights(Context& context, const Arguments&... arguments) {
  if (context.recording) {
    const auto note = [&](const Weight* weight) {
      if (weight != nullptr && weight->memory != nullptr) context.recorded_weights.add(weight->memory);
    };
    each_weight(note, arguments...);
    return Status::ok;
  }
  if (!context.device->arrivals.any(false)) return Status::ok;
  cudaError_t error = cudaSuccess;
  const WeightMemory* last = nullptr;  // experts share their memory
  const auto await = [&](const Weight* weight) {
    if (weight == nullptr || error != cudaSuccess || weight->memory.get() == last) return;
    last = weight->memory.get();
    error = last->await(context.stream);
  };
  each_weight(await, arguments...);
  return context.device->check(error, "waiting for weights that are being copied");
}

// Operations that normalize first, and so may gather and normalize by one kernel. Others read the result of a
// gather that has been put off, or nothing of it; it runs before them.
template <auto operation>
constexpr bool kTakesGather = false;
template <>
constexpr bool kTakesGather<&norm> = true;
template <>
constexpr bool kTakesGather<&attention_block> = true;
template <>
constexpr bool kTakesGather<&mlp_block> = true;
template <>
constexpr bool kTakesGather<&choose_experts> = true;

// Ends the recording of a step (CUDA graph capture) if an operation fails. Left open, the capture would
// record or reject the work after the step.
template <auto operation>
struct Recordable;
template <typename... Arguments, Status (*operation)(Context*, Arguments...)>
struct Recordable<operation> {
  static Status run(Context* context, Arguments... arguments) {
    const Status status = run_operation(*context, arguments...);
    if (status != Status::ok) discard_recording(*context);
    return status;
  }

 private:
  static Status run_operation(Context& context, Arguments... arguments) {
    if constexpr (!kTakesGather<operation>) QUIRE_RETURN_IF_FAILED(run_delayed_gather(context));
    QUIRE_RETURN_IF_FAILED(await_weights(context, arguments...));
    return operation(&context, arguments...);
  }
};

// Runs a gather that has been put off before an entry that is not recorded.
template <auto operation>
struct AfterGather;
template <typename... Arguments, Status (*operation)(Context*, Arguments...)>
struct AfterGather<operation> {
  static Status run(Context* context, Arguments... arguments) {
    const Status gathered = run_delayed_gather(*context);
    if (gathered == Status::ok) return operation(context, arguments...);
    discard_recording(*context);
    return gathered;
  }
};

// Entries of the host alone.
Status describe_weight(const Weight*, PackedWeight*) {
  return Status::unsupported;
}
Status copy_pieces(Context*, const CopyPiece*, int32_t) {
  return Status::unsupported;
}

KernelTable make_table(bool deterministic) {
  KernelTable t;
  t.capabilities = kCapabilityDeviceSampling | kCapabilityFollowingSteps | kCapabilityStepReplay |
                   kCapabilityKvFp8 | kCapabilityKvQuantized | kCapabilityShards | kCapabilityPackedExperts |
                   (deterministic ? static_cast<uint64_t>(kCapabilityDeterministic) : 0);
  t.mechanisms = kMechanisms;
  t.activation_dtype = DType::f16;
  t.name = "cuda";
  t.memory_use = memory_use;
  t.taken_bytes = taken_bytes;
  t.allocate = allocate;
  t.release = release;
  t.reserve = reserve;
  t.map = map;
  t.unmap = unmap;
  t.unreserve = unreserve;
  t.trim = trim;
  t.upload = upload;
  t.download = download;
  t.fill = fill;
  t.prepare_weights = prepare_weights;
  t.prepare_table = prepare_table;
  t.release_weight = release_weight;
  t.weight_bytes = weight_bytes;
  t.copy_weight = copy_weight;
  t.park_weight = park_weight;
  t.bring_weight = bring_weight;
  t.plan_weights = plan_weights;
  t.plan_table = plan_table;
  t.dequantize = dequantize;
  t.describe_weight = describe_weight;
  t.copy_pieces = copy_pieces;
  t.sum_packed_experts = AfterGather<&sum_packed_experts>::run;
  t.fill_expert_slots = fill_expert_slots;
  t.start_slot_experts = AfterGather<&start_slot_experts>::run;
  t.finish_slot_experts = finish_slot_experts;
  t.create_context = create_context;
  t.release_context = release_context;
  t.plan_context = plan_context;
  t.synchronize = AfterGather<&synchronize>::run;
  t.bind_batch = AfterGather<&bind_batch>::run;
  t.begin_step = begin_step;
  t.end_step = AfterGather<&end_step>::run;
  t.pause_step = AfterGather<&pause_step>::run;
  t.resume_step = resume_step;
  t.forget_steps = forget_steps;
  t.read_rows = AfterGather<&read_rows>::run;
  t.write_rows = AfterGather<&write_rows>::run;
  t.receive_rows = receive_rows;
  t.embed = Recordable<&embed>::run;
  t.norm = Recordable<&norm>::run;
  t.reaches = reaches;
  t.connect_shards = connect_shards;
  t.release_communicator = release_communicator;
  t.all_gather = Recordable<&all_gather>::run;
  t.interrupt_shards = interrupt_shards;
  t.resume_shards = resume_shards;
  t.open_links = open_links;
  t.make_link_id = make_link_id;
  t.create_link = create_link;
  t.poll_link = poll_link;
  t.send_by_link = send_by_link;
  t.receive_by_link = receive_by_link;
  t.release_link = release_link;
  t.linear = Recordable<&linear>::run;
  t.rope_angles = Recordable<&rope_angles>::run;
  t.append_kv = Recordable<&append_kv>::run;
  t.attention = Recordable<&attention>::run;
  t.activation = Recordable<&activation>::run;
  t.scale_logits = Recordable<&scale_logits>::run;
  t.route = Recordable<&route>::run;
  t.expert_linear = Recordable<&expert_linear>::run;
  t.combine = Recordable<&combine>::run;
  t.expand_latent = Recordable<&expand_latent>::run;
  t.select_keys = Recordable<&select_keys>::run;
  t.row_op = Recordable<&row_op>::run;
  t.mix_streams = Recordable<&mix_streams>::run;
  t.collapse_streams = Recordable<&collapse_streams>::run;
  t.expand_streams = Recordable<&expand_streams>::run;
  t.copy_page = AfterGather<&copy_page>::run;
  t.convolve = Recordable<&convolve>::run;
  t.delta_rule = Recordable<&delta_rule>::run;
  t.state_space = Recordable<&state_space>::run;
  t.linear_attention = Recordable<&linear_attention>::run;
  t.selective_scan = Recordable<&selective_scan>::run;
  t.gated_norm = Recordable<&gated_norm>::run;
  t.copy_state = AfterGather<&copy_state>::run;
  t.sample = AfterGather<&sample>::run;
  t.wait_for_draws = wait_for_draws;
  t.attention_block = Recordable<&attention_block>::run;
  t.mlp_block = Recordable<&mlp_block>::run;
  t.choose_experts = Recordable<&choose_experts>::run;
  t.head = Recordable<&head>::run;
  t.measure_read_rate = measure_read_rate;
  t.measure_op_rate = measure_op_rate;
  return t;
}

cudaError_t setup_kernels(Device& device) {
  const int limit = static_cast<int>(device.shared_per_block);
  for (const auto step : {setup_gemm_exl2,
                          setup_gemm_gptq,
                          setup_gemm_gptq8,
                          setup_gemm_fp8,
                          setup_gemm_mxfp4,
                          setup_gemm_blocks,
                          setup_gemm_trellis,
                          setup_gemm_dense,
                          setup_expert_gemm_exl2,
                          setup_expert_gemm_gptq,
                          setup_expert_gemm_gptq8,
                          setup_expert_gemm_fp8,
                          setup_expert_gemm_mxfp4,
                          setup_expert_gemm_blocks,
                          setup_expert_gemm_trellis,
                          setup_expert_gemm_dense,
                          setup_append_rows,
                          setup_attention_decode,
                          setup_attention_prefill,
                          setup_attention_shared,
                          setup_attention_single,
                          setup_pointwise,
                          setup_choose,
                          setup_heads})
    if (const cudaError_t error = step(limit); error != cudaSuccess) return error;
  for (const auto step :
       {setup_attention_any, setup_select_keys, setup_append, setup_blocks, setup_float8_rows,
        setup_rotated_rows, setup_rows, setup_streams, setup_experts, setup_gather_rotated, setup_packed,
        setup_sample, setup_state, setup_gather, setup_gather_norm})
    if (const cudaError_t error = step(); error != cudaSuccess) return error;
  if (const cudaError_t error = setup_attention_warpgroup(&device.warpgroup_products); error != cudaSuccess)
    return error;
  if (const cudaError_t error = setup_lines(limit, &device.solves_lines); error != cudaSuccess) return error;
  if (const cudaError_t error = setup_gemm_float8(limit, &device.float8_products); error != cudaSuccess)
    return error;
  if (!device.float8_products)
    if (const cudaError_t error = setup_gemm_float8_strips(limit, &device.float8_products);
        error != cudaSuccess)
      return error;
  if (device.float8_products) device.table.mechanisms |= kMechanismFloat8Activations;
  // Programmatic dependent launch and bulk copies (TMA) need both the card and kernels compiled for it.
  const cudaError_t error = gemm_code_version(&device.code_version);
  device.is_hopper = device.compute_major >= 9 && device.code_version >= 90;
  return error;
}

Status setup(Device& device) {
  if (const Status s = device.check(cudaSetDevice(device.ordinal), "selecting the device"); s != Status::ok)
    return s;
  cudaDeviceProp properties = {};
  if (const Status s =
          device.check(cudaGetDeviceProperties(&properties, device.ordinal), "reading device properties");
      s != Status::ok)
    return s;
  device.name = properties.name;
  if (device.mapped.can_map(device.ordinal)) {
    device.table.map_unit = kPageBytes;
    device.table.capabilities |= kCapabilityParkedWeights;
  }
  device.num_multiprocessors = properties.multiProcessorCount;
  device.compute_major = properties.major;
  device.compute_minor = properties.minor;
  if (properties.major < kOldestMajor ||
      (properties.major == kOldestMajor && properties.minor < kOldestMinor))
    return device.fail(Status::unsupported,
                       device.name + " has compute capability " + std::to_string(properties.major) + "." +
                           std::to_string(properties.minor) + "; 7.5 or newer is needed");
  device.shared_per_block = static_cast<uint32_t>(properties.sharedMemPerBlockOptin);
  device.shared_per_multiprocessor = static_cast<uint32_t>(properties.sharedMemPerMultiprocessor);
#ifdef QUIRE_MOST_SHARED_KIB  // the limit of a smaller card, for tests on a larger one
  device.shared_per_multiprocessor =
      std::min(device.shared_per_multiprocessor, uint32_t{QUIRE_MOST_SHARED_KIB} << 10);
  device.shared_per_block = std::min(device.shared_per_block, device.shared_per_multiprocessor);
#endif
  if (const Status s =
          device.check(setup_kernels(device), "preparing kernels (the library may lack code for this card)");
      s != Status::ok)
    return s;
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  std::string why = "deterministic";
  if (!device.deterministic) device.library = MatrixLibrary::open(why);
  device.detail = "driver CUDA " + version_words(driver) + ", runtime " + version_words(runtime) +
                  ", compute capability " + std::to_string(properties.major) + "." +
                  std::to_string(properties.minor) + ", cuBLASLt " +
                  (device.library != nullptr ? "in use" : "not in use: " + why);
  return Status::ok;
}

Status open_device(int32_t index, const DeviceOptions* options, Device** device) {
  *device = nullptr;
  Status none = Status::unsupported;
  const int32_t count = num_devices(none.words, sizeof none.words);
  if (count == 0) return none;
  if (index < 0 || index >= count)
    return failed(Status::invalid_argument, "CUDA device %d does not exist; %d found", index, count);
  auto made = std::make_unique<Device>();
  made->ordinal = index;
  made->meter = std::make_unique<MemoryMeter>(options == nullptr ? 0 : options->memory_limit_bytes);
  made->deterministic = options == nullptr || options->deterministic != 0;
  made->table = make_table(made->deterministic);
  if (const Status s = setup(*made); s != Status::ok) return s;
  *device = made.release();
  return Status::ok;
}

void close_device(Device* device) {
  if (device == nullptr) return;
  static_cast<void>(cudaSetDevice(device->ordinal));
  delete device;
}

const KernelTable* table(const Device* device) {
  return &device->table;
}

Status device_info(const Device* device, DeviceInfo* info) {
  *info = {};
  std::snprintf(info->name, sizeof(info->name), "%s", device->name.c_str());
  std::snprintf(info->detail, sizeof(info->detail), "%s", device->detail.c_str());
  info->num_units = device->num_multiprocessors;
  auto* d = const_cast<Device*>(device);
  if (const Status s = d->enter(); s != Status::ok) return s;
  size_t free_bytes = 0, total_bytes = 0;
  const Status status = d->check(cudaMemGetInfo(&free_bytes, &total_bytes), "reading free memory");
  info->free_bytes = device->meter->free_bytes(free_bytes);
  info->total_bytes = total_bytes;
  return status;
}

Backend make_backend() {
  Backend backend;
  backend.name = "cuda";
  backend.num_devices = num_devices;
  backend.open_device = open_device;
  backend.close_device = close_device;
  backend.table = table;
  backend.device_info = device_info;
  return backend;
}

}  // namespace
}  // namespace quire::kernels

extern "C" __attribute__((visibility("default"))) const quire::kernels::Backend* quire_backend_entry(
    uint32_t abi) {
  static const quire::kernels::Backend backend = quire::kernels::make_backend();
  return abi == quire::kernels::kBackendAbi ? &backend : nullptr;
}
