// Owning C++ handles over a backend's table. A failed Status becomes an Error here and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "kernels/interface/kernel_table.h"

namespace quire {

using kernels::BatchView;
using kernels::KernelTable;
using kernels::TableSource;
using kernels::WeightSource;

// An open device of a backend. Any thread may use it; what is made of it keeps it alive.
class Device {
 public:
  // Throws ErrorCode::not_found or ErrorCode::unsupported with the backend's reason.
  static std::shared_ptr<Device> open(const kernels::Backend& backend, int32_t index,
                                      const kernels::DeviceOptions& options);
  Device(const kernels::Backend& backend, kernels::Device* handle, int32_t index = 0);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const KernelTable& table() const { return *table_; }
  kernels::Device* handle() const { return handle_; }
  kernels::DeviceInfo info() const;
  bool has(kernels::Capability capability) const { return (table_->capabilities & capability) != 0; }
  std::string_view backend_name() const { return backend_.name; }
  // By which options choose it: "cpu", "cuda:0".
  std::string name() const;
  // Whether its memory is the host's.
  bool is_host() const { return backend_name() == "cpu"; }
  // Whether contexts of the two can take rows from each other.
  bool shares_backend(const Device& other) const { return &backend_ == &other.backend_; }

  // Bytes per second read from a buffer of that size, and multiplications and additions per second: what the
  // device does at best, measured now. Throw ErrorCode::unsupported where it cannot be.
  double measure_read_rate(uint64_t working_set_bytes);
  double measure_op_rate();

  // Gives back what loads keep for the next one.
  void trim() const { table_->trim(handle_); }
  // What one piece of so many bytes takes of it.
  uint64_t taken_bytes(uint64_t bytes) const { return table_->taken_bytes(bytes); }
  // What all that was made on it has taken.
  kernels::MemoryUse memory_use() const;

  // Throws where status is not ok; `what` says what was being done ("allocating the KV cache, 12 MiB").
  void check(const kernels::Status& status, std::string_view what) const;

 private:
  const kernels::Backend& backend_;
  const int32_t index_;
  kernels::Device* handle_;
  const KernelTable* table_;
};

// Device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Device> device, size_t bytes, std::string_view what);
  // One that says how large it would be and takes nothing.
  static DeviceBuffer planned(size_t bytes);

  void* data() const { return memory_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t bytes() const { return bytes_; }

  void upload(gsl::span<const std::byte> host, size_t offset = 0);
  void download(gsl::span<std::byte> host, size_t offset = 0) const;

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

// Device memory at a fixed address that grows and shrinks at its end.
class ElasticBuffer {
 public:
  // Addresses for max_bytes, without memory. Throws ErrorCode::unsupported where the device has none to
  // reserve.
  ElasticBuffer(std::shared_ptr<Device> device, uint64_t max_bytes, std::string_view what);

  // What `bytes` of it take of the device.
  static uint64_t taken_bytes(const KernelTable& table, uint64_t bytes);

  // From now on the first `bytes` have memory: new one with undefined content. Throws
  // ErrorCode::out_of_memory and leaves it as it was.
  void grow(uint64_t bytes);
  // Back to a size that it had on its way here; nothing the device still does reaches what is beyond.
  void shrink(uint64_t bytes) noexcept;

  template <typename T>
  T* as() const {
    return static_cast<T*>(range_.get());
  }

 private:
  std::shared_ptr<Device> device_;
  std::string what_;
  std::shared_ptr<void> range_;
  std::vector<uint64_t> ends_;  // of the pieces, in order
};

class PreparedWeight;

// A matrix on its way to a device, and where it will be found.
struct PrepareRequest {
  std::vector<WeightSource> parts;
  PreparedWeight* target = nullptr;
};

// A matrix or table in a backend's own layout.
class PreparedWeight {
 public:
  PreparedWeight() = default;
  // Matrices that go together: they may share a piece of memory. All targets are set, or none.
  static void prepare_matrices(const std::shared_ptr<Device>& device,
                               gsl::span<const PrepareRequest> requests, std::string_view what);
  static PreparedWeight table(const std::shared_ptr<Device>& device, const TableSource& source,
                              std::string_view what);
  // Ones that say how large they would be and take nothing. Sources need no codes, scales and values.
  static void plan_matrices(const Device& device, gsl::span<const PrepareRequest> requests,
                            std::string_view what);
  static PreparedWeight planned_table(const Device& device, const TableSource& source, std::string_view what);

  const kernels::Weight* get() const { return weight_.get(); }
  uint64_t bytes() const { return bytes_; }
  // With kCapabilityParkedWeights of its device, as kernel_table.h has it: a copy in host memory, for which
  // the device gets so many bytes back, and on the way from there.
  void copy(const Device& device) const;
  uint64_t park(const Device& device) const noexcept;
  void bring(const Device& device) const;
  // Elements of the matrix: a row of activations is multiplied with each once. 0 for a table.
  int64_t num_products() const { return num_products_; }

 private:
  PreparedWeight(const std::shared_ptr<Device>& device, kernels::Weight* weight);

  std::shared_ptr<kernels::Weight> weight_;
  uint64_t bytes_ = 0;
  int64_t num_products_ = 0;
};

// One ordered stream of work; one thread at a time.
class DeviceContext {
 public:
  DeviceContext(std::shared_ptr<Device> device, const kernels::ContextLimits& limits);

  kernels::Context* handle() const { return context_.get(); }
  const KernelTable& table() const { return device_->table(); }
  const std::shared_ptr<Device>& device() const { return device_; }
  void check(const kernels::Status& status, std::string_view what) const { device_->check(status, what); }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<kernels::Context> context_;
};

// What the contexts of a stage's shards meet at. The contexts outlive it.
class ShardCommunicator {
 public:
  explicit ShardCommunicator(gsl::span<const DeviceContext* const> shards);

  // From any thread, where a shard cannot go on: what the others wait for fails until `resume`, which comes
  // while none of them works.
  void interrupt() const { table_->interrupt_shards(communicator_.get()); }
  void resume() const { table_->resume_shards(communicator_.get()); }

 private:
  const KernelTable* table_;
  std::shared_ptr<kernels::Communicator> communicator_;
};

}  // namespace quire
