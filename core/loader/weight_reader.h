// Reads tensors of a directory into host memory, with progress reports and cancellation.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/loader/host_tensor.h"
#include "core/loader/weight_directory.h"

namespace quire {

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  std::string_view tensor;  // being read; borrowed until the call returns
};

struct LoadMonitor {
  // Called on the loading thread without a lock held, after every piece of at most 8 MiB that this thread
  // reads. An exception ends the load. May be empty.
  std::function<void(const LoadProgress&)> progress;
  // May be set by any thread; the read then ends with ErrorCode::cancelled before its next piece. May be
  // nullptr.
  const std::atomic<bool>* cancel = nullptr;
  // Ends waits for other processes with ErrorCode::cancelled. Reads do not look at it.
  TimePoint deadline = TimePoint::max();
};

// Part of a directory that is read: everything, or only the tensors that determine the memory layout of
// matrices.
enum class ReadScope : uint8_t { all, layout };

// Reader of a tensor's bytes: the host at once, or the device that needs them, directly to their destination
// (HostTensor::unread), as long as the WeightReader exists.
enum class ReadBy : uint8_t { host, device };

// Range of rows of a tensor with num_rows rows.
struct RowRange {
  int64_t num_rows = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// One load of one directory. Any thread may use it. Borrows the directory.
class WeightReader {
 public:
  // Progress is reported only on the thread that constructs the reader.
  explicit WeightReader(const WeightDirectory& directory, LoadMonitor monitor = {},
                        ReadScope scope = ReadScope::all);

  const WeightDirectory& directory() const { return directory_; }
  ReadScope scope() const { return scope_; }

  // Reads the whole tensor. Throws ErrorCode::format if it is missing, ErrorCode::unsupported if its type
  // cannot be represented, ErrorCode::truncated if the file has become shorter.
  HostTensor read(std::string_view name);
  // Does the same and requires exactly this shape.
  HostTensor read(std::string_view name, const std::vector<int64_t>& shape);
  // Does the same for codes, scales and values; without data if the scope is the layout.
  HostTensor read_values(std::string_view name, const std::vector<int64_t>& shape, ReadBy by = ReadBy::host);
  // Does the same for a range of rows of the tensor, which is viewed as [num_rows, the rest]. A stack [n, a,
  // b] may also be stored as [n * a, b].
  HostTensor read_rows(std::string_view name, const std::vector<int64_t>& shape, const RowRange& rows,
                       ReadBy by = ReadBy::host);
  // Reads a float tensor of this shape; throws ErrorCode::numeric naming the first value that is not finite.
  std::vector<float> read_floats(std::string_view name, const std::vector<int64_t>& shape);

  // Marks a tensor as known but not needed, so that unused() leaves it out.
  void skip(std::string_view name);
  // Returns the sorted names of the tensors that were neither read nor skipped.
  std::vector<std::string> unused() const;
  // Reports the final progress if it was not reported yet, because other threads read the last bytes.
  void finish();

 private:
  void fill(const WeightDirectory::Entry& entry, gsl::span<std::byte> out);
  HostTensor leave(const WeightDirectory::Entry& entry, std::vector<int64_t> shape, size_t bytes,
                   uint64_t offset, bool counts);
  void fill_from(const WeightDirectory::Entry& entry, uint64_t offset, bool counts, gsl::span<std::byte> out);
  void report(std::string_view tensor);
  bool has_seen(const std::string& name) const;
  void see(const std::string& name);
  // Returns true for the first read of a tensor, which is the only one that counts as progress.
  bool claim_count(const std::string& name);

  const WeightDirectory& directory_;
  const LoadMonitor monitor_;
  const ReadScope scope_;
  const std::thread::id reporting_thread_ = std::this_thread::get_id();
  std::atomic<uint64_t> done_bytes_{0};
  uint64_t reported_bytes_ = 0;  // last report, of the constructing thread
  mutable Mutex mutex_;
  std::unordered_set<std::string> seen_ QUIRE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> counted_ QUIRE_GUARDED_BY(mutex_);
};

// Returns `FILE: tensor "NAME"` for messages.
std::string describe(const WeightDirectory::Entry& entry);

// Throws ErrorCode::format if the tensor has another shape.
void require_shape(const WeightDirectory::Entry& entry, const std::vector<int64_t>& shape);

}  // namespace quire
