// Tensors that a class has in another form than a GGUF file: their elements are computed when they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/loader/weight_directory.h"

namespace quire {

// A file of computed tensors beside those of a model. Any thread may read at any time.
class ComputedFile final : public File {
 public:
  // Computes the bytes of a tensor from `offset` on. It must be safe to call from any thread.
  using Fill = std::function<void(uint64_t offset, gsl::span<std::byte> out)>;

  explicit ComputedFile(std::string path) : path_(std::move(path)) {}

  // Adds a tensor and returns its offset in the file.
  uint64_t add(uint64_t size_bytes, Fill fill);
  bool empty() const { return tensors_.empty(); }

  uint64_t size_bytes() const override { return size_bytes_; }
  // Throws also what reading the stored tensors throws.
  void read_at(uint64_t offset, gsl::span<std::byte> out) const override;
  const std::string& path() const override { return path_; }

 private:
  struct Computed {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    Fill fill;
  };

  const std::string path_;  // that of the model's file, for messages
  std::vector<Computed> tensors_;
  uint64_t size_bytes_ = 0;
};

// A stored tensor and the file that has it.
struct StoredIn {
  TensorInfo tensor;
  std::shared_ptr<const File> file;
};

// Adds x for a stored tensor of F32 with -e^x, as files have the decays of recurrent layers. Elements that
// are no such value become a NaN, which the reader refuses.
TensorInfo add_logarithm(StoredIn stored, ComputedFile& file);

// Adds the matrix that expands the latent of latent attention, F32 [heads * (key columns + value columns),
// rank]: the rows of a head are those of its key, then those of its value. `keys` is [heads, rank, key
// columns], `values` is [heads, value columns, rank]. Throws ErrorCode::format that names a tensor whose
// shape does not fit, ErrorCode::unsupported if its type is no type of weights.
TensorInfo add_latent_expansion(StoredIn keys, StoredIn values, ComputedFile& file);

}  // namespace quire
