// Reads tensors of a directory into host memory, telling how far it is and stopping when asked.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

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
  // Called on the thread that loads, after every piece of at most 8 MiB that it reads itself, no lock held;
  // what it throws ends the load. May be empty.
  std::function<void(const LoadProgress&)> progress;
  // Any thread may set it; the read then ends with ErrorCode::cancelled before its next piece. May be
  // nullptr.
  const std::atomic<bool>* cancel = nullptr;
};

// What is read of a directory: everything, or what decides how matrices will lie in memory.
enum class ReadScope : uint8_t { all, layout };

// By whom the bytes of a tensor are read: by the host at once, or by the device that they are for, to where
// they go (HostTensor::unread), as long as the reader lives.
enum class ReadBy : uint8_t { host, device };

// Some rows of a tensor of num_rows rows.
struct RowRange {
  int64_t num_rows = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// One load of one directory; any thread. Borrows the directory.
class WeightReader {
 public:
  // Progress is told on the thread that makes the reader.
  explicit WeightReader(const WeightDirectory& directory, LoadMonitor monitor = {},
                        ReadScope scope = ReadScope::all);

  const WeightDirectory& directory() const { return directory_; }
  ReadScope scope() const { return scope_; }

  // The whole tensor. Throws ErrorCode::format where it is missing, ErrorCode::unsupported where its type
  // cannot be represented, ErrorCode::truncated where the file has shrunk meanwhile.
  HostTensor read(std::string_view name);
  // The same, where the file must say exactly this shape.
  HostTensor read(std::string_view name, const std::vector<int64_t>& shape);
  // The same of codes, scales and values: without data where the scope is the layout.
  HostTensor read_values(std::string_view name, const std::vector<int64_t>& shape, ReadBy by = ReadBy::host);
  // The same of some rows: the tensor is seen as [num_rows, the rest], and so many are read from `first` on.
  // A stack [n, a, b] may also be stored as [n * a, b].
  HostTensor read_rows(std::string_view name, const std::vector<int64_t>& shape, const RowRange& rows,
                       ReadBy by = ReadBy::host);
  // A float tensor of this shape as finite floats; ErrorCode::numeric names the first that is not.
  std::vector<float> read_floats(std::string_view name, const std::vector<int64_t>& shape);

  // Says that a tensor is known and not needed, so that unused() leaves it out.
  void skip(std::string_view name);
  // Names, sorted, of the tensors that were neither read nor skipped.
  std::vector<std::string> unused() const;
  // Tells the progress once more, where the last word on it is not told: other threads read too.
  void finish();

 private:
  void fill(const WeightDirectory::Entry& entry, gsl::span<std::byte> out);
  HostTensor leave(const WeightDirectory::Entry& entry, std::vector<int64_t> shape, size_t bytes,
                   uint64_t offset, bool counts);
  void fill_from(const WeightDirectory::Entry& entry, uint64_t offset, bool counts, gsl::span<std::byte> out);
  void report(std::string_view tensor);
  bool has_seen(const std::string& name) const;
  void see(const std::string& name);
  // True for the first read of a tensor to begin, which is the one that counts.
  bool claim_count(const std::string& name);

  const WeightDirectory& directory_;
  const LoadMonitor monitor_;
  const ReadScope scope_;
  const std::thread::id teller_ = std::this_thread::get_id();
  std::atomic<uint64_t> done_bytes_{0};
  uint64_t reported_bytes_ = 0;  // of the teller
  mutable Mutex mutex_;
  std::unordered_set<std::string> seen_ QUIRE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> counted_ QUIRE_GUARDED_BY(mutex_);
};

// "FILE: tensor "NAME"": how messages name a tensor.
std::string describe(const WeightDirectory::Entry& entry);

// Throws ErrorCode::format where the tensor has another shape.
void require_shape(const WeightDirectory::Entry& entry, const std::vector<int64_t>& shape);

}  // namespace quire
