#include "core/tensor/device.h"

#include <utility>

#include <fmt/core.h>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

ErrorCode code_of(kernels::Status::Code code) {
  switch (code) {
    case kernels::Status::ok:
      return ErrorCode::ok;
    case kernels::Status::unsupported:
      return ErrorCode::unsupported;
    case kernels::Status::out_of_memory:
      return ErrorCode::out_of_memory;
    case kernels::Status::invalid_argument:
      return ErrorCode::internal;
    case kernels::Status::device_lost:
      return ErrorCode::device_lost;
    case kernels::Status::interrupted:
      return ErrorCode::cancelled;
    case kernels::Status::unreadable:
      return ErrorCode::io;
  }
  return ErrorCode::internal;
}

// Returns the message of a status. If the backend added none, describes the code.
std::string_view words_of(const kernels::Status& status) {
  if (status.words[0] != '\0') return status.words;
  switch (status.code) {
    case kernels::Status::unsupported:
      return "this backend cannot do it";
    case kernels::Status::out_of_memory:
      return "out of memory";
    case kernels::Status::device_lost:
      return "the device is lost";
    case kernels::Status::interrupted:
      return "another shard could not go on";
    case kernels::Status::unreadable:
      return "a file could not be read";
    case kernels::Status::ok:
    case kernels::Status::invalid_argument:
      break;
  }
  return "a shape or option that the operation does not take";
}

std::vector<kernels::MatrixSource> sources_of(gsl::span<const PrepareRequest> requests) {
  std::vector<kernels::MatrixSource> sources;
  for (const PrepareRequest& request : requests) {
    const std::vector<int32_t>& whole = request.whole_columns;
    sources.push_back({request.parts.data(), gsl::narrow<int32_t>(request.parts.size()),
                       whole.empty() ? nullptr : whole.data(), gsl::narrow<int32_t>(whole.size())});
  }
  return sources;
}

}  // namespace

std::shared_ptr<Device> Device::open(const kernels::Backend& backend, int32_t index,
                                     const kernels::DeviceOptions& options) {
  kernels::Device* handle = nullptr;
  const kernels::Status status = backend.open_device(index, &options, &handle);
  if (status != kernels::Status::ok) {
    throw Error(code_of(status.code), "device {}:{} cannot be opened: {}", backend.name, index,
                words_of(status));
  }
  try {
    return std::make_shared<Device>(backend, handle, index);
  } catch (...) {
    backend.close_device(handle);
    throw;
  }
}

Device::Device(const kernels::Backend& backend, kernels::Device* handle, int32_t index)
    : backend_(backend), index_(index), handle_(handle), table_(backend.table(handle)) {}

Device::Device(const kernels::Backend& backend, kernels::Device* handle, std::shared_ptr<StagePeer> peer)
    : backend_(backend), index_(0), handle_(handle), table_(backend.table(handle)), peer_(std::move(peer)) {}

Device::~Device() {
  backend_.close_device(handle_);
}

std::string Device::name() const {
  return is_card() ? fmt::format("{}:{}", backend_name(), index_) : std::string(backend_name());
}

kernels::DeviceInfo Device::info() const {
  kernels::DeviceInfo info;
  check(backend_.device_info(handle_, &info), "reading the device's properties");
  return info;
}

kernels::MemoryUse Device::memory_use() const {
  kernels::MemoryUse use;
  table_->memory_use(handle_, &use);
  return use;
}

double Device::measure_read_rate(uint64_t working_set_bytes) {
  double rate = 0.0;
  check(table_->measure_read_rate(handle_, working_set_bytes, &rate), "measuring reads");
  return rate;
}

double Device::measure_op_rate() {
  double rate = 0.0;
  check(table_->measure_op_rate(handle_, &rate), "measuring arithmetic");
  return rate;
}

void Device::check(const kernels::Status& status, std::string_view what) const {
  if (status == kernels::Status::ok) return;
  throw Error(code_of(status.code), "{} on {}: {}", what, table_->name, words_of(status));
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<Device> device, size_t bytes, std::string_view what)
    : device_(std::move(device)), bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  device_->check(device_->table().allocate(device_->handle(), bytes, &memory), what);
  memory_ = std::shared_ptr<void>(memory, [device_kept = device_](void* address) {
    device_kept->table().release(device_kept->handle(), address);
  });
}

DeviceBuffer DeviceBuffer::planned(size_t bytes) {
  DeviceBuffer buffer;
  buffer.bytes_ = bytes;
  return buffer;
}

ElasticBuffer::ElasticBuffer(std::shared_ptr<Device> device, uint64_t max_bytes, std::string_view what)
    : device_(std::move(device)), what_(what) {
  const KernelTable& table = device_->table();
  if (table.map_unit == 0) {
    throw Error(ErrorCode::unsupported, "{} on {}: its memory cannot grow; omit min_tokens", what,
                table.name);
  }
  void* range = nullptr;
  device_->check(table.reserve(device_->handle(), taken_bytes(table, max_bytes), &range), what);
  range_ = std::shared_ptr<void>(
      range, [kept = device_](void* address) { kept->table().unreserve(kept->handle(), address); });
}

uint64_t ElasticBuffer::taken_bytes(const KernelTable& table, uint64_t bytes) {
  return ceil_div(bytes, table.map_unit) * table.map_unit;
}

void ElasticBuffer::grow(uint64_t bytes) {
  const KernelTable& table = device_->table();
  const uint64_t begin = ends_.empty() ? 0 : ends_.back();
  const uint64_t end = taken_bytes(table, bytes);
  if (end <= begin) return;
  ends_.reserve(ends_.size() + 1);
  device_->check(table.map(device_->handle(), range_.get(), begin, end - begin), what_);
  ends_.push_back(end);
}

void ElasticBuffer::shrink(uint64_t bytes) noexcept {
  const KernelTable& table = device_->table();
  const uint64_t kept = taken_bytes(table, bytes);
  while (!ends_.empty() && ends_.back() > kept) {
    ends_.pop_back();
    table.unmap(device_->handle(), range_.get(), ends_.empty() ? 0 : ends_.back());
  }
}

void DeviceBuffer::upload(gsl::span<const std::byte> host, size_t offset) {
  Expects(offset + host.size() <= bytes_);
  device_->check(
      device_->table().upload(device_->handle(), as<std::byte>() + offset, host.data(), host.size()),
      "copying to the device");
}

void DeviceBuffer::download(gsl::span<std::byte> host, size_t offset) const {
  Expects(offset + host.size() <= bytes_);
  device_->check(
      device_->table().download(device_->handle(), host.data(), as<std::byte>() + offset, host.size()),
      "copying from the device");
}

PreparedWeight::PreparedWeight(const std::shared_ptr<Device>& device, kernels::Weight* weight)
    : weight_(weight, [device](kernels::Weight* w) { device->table().release_weight(device->handle(), w); }),
      bytes_(device->table().weight_bytes(weight)) {}

void PreparedWeight::prepare_matrices(const std::shared_ptr<Device>& device,
                                      gsl::span<const PrepareRequest> requests, std::string_view what) {
  const std::vector<kernels::MatrixSource> sources = sources_of(requests);
  std::vector<kernels::Weight*> weights(requests.size(), nullptr);
  device->check(device->table().prepare_weights(device->handle(), sources.data(),
                                                gsl::narrow<int32_t>(sources.size()), weights.data()),
                what);
  const auto release_the_rest = gsl::finally([&] {
    for (kernels::Weight* weight : weights)
      if (weight != nullptr) device->table().release_weight(device->handle(), weight);
  });
  std::vector<PreparedWeight> prepared;
  for (kernels::Weight*& weight : weights) {
    prepared.emplace_back();
    prepared.back() = PreparedWeight(device, std::exchange(weight, nullptr));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const WeightSource& part : requests[i].parts)
      prepared[i].num_products_ += int64_t{part.num_in} * part.num_out;
    *requests[i].target = prepared[i];
  }
}

PreparedWeight PreparedWeight::table(const std::shared_ptr<Device>& device, const TableSource& source,
                                     std::string_view what) {
  kernels::Weight* weight = nullptr;
  device->check(device->table().prepare_table(device->handle(), &source, &weight), what);
  return PreparedWeight(device, weight);
}

void PreparedWeight::plan_matrices(const Device& device, gsl::span<const PrepareRequest> requests,
                                   std::string_view what) {
  const std::vector<kernels::MatrixSource> sources = sources_of(requests);
  std::vector<uint64_t> bytes(requests.size(), 0);
  device.check(device.table().plan_weights(device.handle(), sources.data(),
                                           gsl::narrow<int32_t>(sources.size()), bytes.data()),
               what);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].target->bytes_ = bytes[i];
}

PreparedWeight PreparedWeight::planned_table(const Device& device, const TableSource& source,
                                             std::string_view what) {
  PreparedWeight planned;
  device.check(device.table().plan_table(device.handle(), &source, &planned.bytes_), what);
  return planned;
}

void PreparedWeight::copy(const Device& device) const {
  device.check(device.table().copy_weight(device.handle(), weight_.get()), "copying weights to host memory");
}

uint64_t PreparedWeight::park(const Device& device) const noexcept {
  return device.table().park_weight(device.handle(), weight_.get());
}

void PreparedWeight::bring(const Device& device) const {
  device.check(device.table().bring_weight(device.handle(), weight_.get()), "bringing weights back");
}

DeviceContext::DeviceContext(std::shared_ptr<Device> device, const kernels::ContextLimits& limits)
    : device_(std::move(device)) {
  kernels::Context* context = nullptr;
  device_->check(device_->table().create_context(device_->handle(), &limits, &context), "creating a context");
  context_ = std::shared_ptr<kernels::Context>(
      context, [device_kept = device_](kernels::Context* c) { device_kept->table().release_context(c); });
}

ShardCommunicator::ShardCommunicator(gsl::span<const DeviceContext* const> shards)
    : table_(&shards[0]->table()) {
  std::vector<kernels::Context*> contexts;
  for (const DeviceContext* shard : shards) contexts.push_back(shard->handle());
  kernels::Communicator* communicator = nullptr;
  shards[0]->check(
      table_->connect_shards(contexts.data(), gsl::narrow<int32_t>(contexts.size()), &communicator),
      "connecting shards");
  communicator_ = std::shared_ptr<kernels::Communicator>(
      communicator,
      [kept = shards[0]->device()](kernels::Communicator* c) { kept->table().release_communicator(c); });
}

}  // namespace quire
