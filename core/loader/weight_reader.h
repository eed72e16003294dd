// Reads tensors of a directory into host memory, telling how far it is and stopping when asked.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/loader/host_tensor.h"
#include "core/loader/weight_directory.h"

namespace quire {

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  std::string_view tensor;  // being read; borrowed until the call returns
};

struct LoadMonitor {
  // Called on the reading thread after every piece of at most 8 MiB, no lock held; what it throws ends the
  // load. May be empty.
  std::function<void(const LoadProgress&)> progress;
  // Any thread may set it; the read then ends with ErrorCode::cancelled before its next piece. May be
  // nullptr.
  const std::atomic<bool>* cancel = nullptr;
};

// One load of one directory; one thread at a time. Borrows the directory.
class WeightReader {
 public:
  explicit WeightReader(const WeightDirectory& directory, LoadMonitor monitor = {});

  const WeightDirectory& directory() const { return directory_; }

  // The whole tensor. Throws ErrorCode::format where it is missing, ErrorCode::unsupported where its type
  // cannot be represented, ErrorCode::truncated where the file has shrunk meanwhile.
  HostTensor read(std::string_view name);
  // The same, where the file must say exactly this shape.
  HostTensor read(std::string_view name, const std::vector<int64_t>& shape);
  // A float tensor of this shape as finite floats; ErrorCode::numeric names the first that is not.
  std::vector<float> read_floats(std::string_view name, const std::vector<int64_t>& shape);

  // Says that a tensor is known and not needed, so that unused() leaves it out.
  void skip(std::string_view name);
  // Names, sorted, of the tensors that were neither read nor skipped.
  std::vector<std::string> unused() const;

 private:
  void fill(const WeightDirectory::Entry& entry, gsl::span<std::byte> out);
  void report(const TensorInfo& tensor, uint64_t bytes);

  const WeightDirectory& directory_;
  LoadMonitor monitor_;
  uint64_t done_bytes_ = 0;
  std::unordered_set<std::string> seen_;
};

// "FILE: tensor "NAME"": how messages name a tensor.
std::string describe(const WeightDirectory::Entry& entry);

// Throws ErrorCode::format where the tensor has another shape.
void require_shape(const WeightDirectory::Entry& entry, const std::vector<int64_t>& shape);

}  // namespace quire
