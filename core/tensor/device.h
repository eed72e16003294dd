// Owning C++ handles over the function table of a backend. Only this file converts a failed Status to an
// Error.
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

class StagePeer;  // core/models/remote_stage.h

// Open device of a backend. Any thread may use it; objects made on it keep it alive.
class Device {
 public:
  // Throws ErrorCode::not_found or ErrorCode::unsupported with the backend's reason.
  static std::shared_ptr<Device> open(const kernels::Backend& backend, int32_t index,
                                      const kernels::DeviceOptions& options);
  Device(const kernels::Backend& backend, kernels::Device* handle, int32_t index = 0);
  // A device of another process. The backend, named like the device, only describes it: layers are built and
  // run by `peer`.
  Device(const kernels::Backend& backend, kernels::Device* handle, std::shared_ptr<StagePeer> peer);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const KernelTable& table() const { return *table_; }
  kernels::Device* handle() const { return handle_; }
  kernels::DeviceInfo info() const;
  bool has(kernels::Capability capability) const { return (table_->capabilities & capability) != 0; }
  std::string_view backend_name() const { return backend_.name; }
  // Returns the name that options select it by: "cpu", "cuda:0", "tcp://10.0.0.2:7430".
  std::string name() const;
  // Returns whether its memory is host memory.
  bool is_host() const { return backend_name() == "cpu"; }
  // Returns whether it belongs to another process.
  bool is_remote() const { return peer_ != nullptr; }
  // Returns whether its memory is neither that of the host nor in another process.
  bool is_card() const { return !is_host() && !is_remote(); }
  // Returns the process that has a remote device; null for others.
  const std::shared_ptr<StagePeer>& peer() const { return peer_; }
  // Returns whether contexts of the two devices can exchange rows.
  bool shares_backend(const Device& other) const { return &backend_ == &other.backend_; }

  // Returns whether kernels of each can access the memory of the other, a device of the same backend.
  bool reaches(const Device& other) const {
    return !shares_backend(other) || table_->reaches(handle_, other.handle_) != 0;
  }

  // Measure the peak rates of the device: bytes per second read from a buffer of that size, and
  // multiplications and additions per second. Throw ErrorCode::unsupported if they cannot be measured.
  double measure_read_rate(uint64_t working_set_bytes);
  double measure_op_rate();

  // Frees memory that loads keep for the next load.
  void trim() const { table_->trim(handle_); }
  // Returns the device memory that one allocation of `bytes` takes.
  uint64_t taken_bytes(uint64_t bytes) const { return table_->taken_bytes(bytes); }
  // Returns the memory used by all objects made on it.
  kernels::MemoryUse memory_use() const;

  // Throws if status is not ok; `what` describes the operation ("allocating the KV cache, 12 MiB").
  void check(const kernels::Status& status, std::string_view what) const;

 private:
  const kernels::Backend& backend_;
  const int32_t index_;
  kernels::Device* handle_;
  const KernelTable* table_;
  const std::shared_ptr<StagePeer> peer_;
};

// Owned device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Device> device, size_t bytes, std::string_view what);
  // Returns a buffer that only reports its size and allocates nothing.
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
  // Reserves addresses for max_bytes, without memory. Throws ErrorCode::unsupported if the device cannot
  // reserve addresses.
  ElasticBuffer(std::shared_ptr<Device> device, uint64_t max_bytes, std::string_view what);

  // Returns the device memory that `bytes` of it take.
  static uint64_t taken_bytes(const KernelTable& table, uint64_t bytes);

  // Extends the memory to `bytes`; new memory is undefined. Throws ErrorCode::out_of_memory and then changes
  // nothing.
  void grow(uint64_t bytes);
  // Shrinks to a size that it had before; running work must not access the memory beyond.
  void shrink(uint64_t bytes) noexcept;

  template <typename T>
  T* as() const {
    return static_cast<T*>(range_.get());
  }

 private:
  std::shared_ptr<Device> device_;
  std::string what_;
  std::shared_ptr<void> range_;
  std::vector<uint64_t> ends_;  // of its pieces, in order
};

class PreparedWeight;

// Matrix to prepare for a device, and the object that will own it.
struct PrepareRequest {
  std::vector<WeightSource> parts;
  PreparedWeight* target = nullptr;
  std::vector<int32_t> whole_columns = {};  // see MatrixSource; empty: none
};

// Matrix or table in the layout of a backend.
class PreparedWeight {
 public:
  PreparedWeight() = default;
  // Prepares matrices together; they may share one allocation. Sets all targets or none.
  static void prepare_matrices(const std::shared_ptr<Device>& device,
                               gsl::span<const PrepareRequest> requests, std::string_view what);
  static PreparedWeight table(const std::shared_ptr<Device>& device, const TableSource& source,
                              std::string_view what);
  // Return weights that only report their size and allocate nothing. Sources need no codes, scales or values.
  static void plan_matrices(const Device& device, gsl::span<const PrepareRequest> requests,
                            std::string_view what);
  static PreparedWeight planned_table(const Device& device, const TableSource& source, std::string_view what);

  // Returns the same weight for a second owner: it has no bytes there, and it is not moved with that owner.
  PreparedWeight borrowed() const {
    PreparedWeight copy = *this;
    copy.bytes_ = 0;
    copy.is_borrowed_ = true;
    return copy;
  }
  bool is_borrowed() const { return is_borrowed_; }
  const kernels::Weight* get() const { return weight_.get(); }
  uint64_t bytes() const { return bytes_; }
  // Need kCapabilityParkedWeights, see kernel_table.h. `copy` makes a copy in host memory, `park` releases
  // the device memory and returns how many bytes that frees, `bring` copies the weight back to the device.
  void copy(const Device& device) const;
  uint64_t park(const Device& device) const noexcept;
  void bring(const Device& device) const;
  // Returns the number of elements of the matrix: the multiplications for one row of activations. 0 for a
  // table.
  int64_t num_products() const { return num_products_; }

 private:
  PreparedWeight(const std::shared_ptr<Device>& device, kernels::Weight* weight);

  std::shared_ptr<kernels::Weight> weight_;
  uint64_t bytes_ = 0;
  int64_t num_products_ = 0;
  bool is_borrowed_ = false;
};

// One ordered stream of work. For one thread at a time.
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

// Communicator of the shards of a stage (tensor parallel). The contexts outlive it.
class ShardCommunicator {
 public:
  explicit ShardCommunicator(gsl::span<const DeviceContext* const> shards);

  // Makes the pending operations of the other shards fail until `resume`, if a shard cannot continue.
  // `interrupt` may be called from any thread, `resume` only while no shard works.
  void interrupt() const { table_->interrupt_shards(communicator_.get()); }
  void resume() const { table_->resume_shards(communicator_.get()); }

 private:
  const KernelTable* table_;
  std::shared_ptr<kernels::Communicator> communicator_;
};

}  // namespace quire
