#include "core/models/model_identity.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

namespace quire {
namespace {

constexpr uint64_t kSampleBytes = 256;

void add_sample(Sha256Stream& digest, const File& file, uint64_t offset, uint64_t size) {
  std::array<std::byte, kSampleBytes> bytes{};
  const auto sample = gsl::span(bytes).first(static_cast<size_t>(size));
  file.read_at(offset, sample);
  digest.add({reinterpret_cast<const char*>(sample.data()), sample.size()});
}

}  // namespace

Sha256 identity_of(std::string_view config, const WeightDirectory& directory) {
  Sha256Stream digest;
  digest.add(fmt::format("{}\n", config.size()));
  digest.add(config);
  for (const auto& [tensor, file] : directory.entries()) {
    digest.add(fmt::format("\n{} {} [{}] {}\n", tensor->name, tensor->type->name,
                           fmt::join(tensor->shape, ","), tensor->size_bytes));
    const uint64_t size = std::min(tensor->size_bytes, kSampleBytes);
    add_sample(digest, *file, tensor->offset_bytes, size);
    add_sample(digest, *file, tensor->offset_bytes + tensor->size_bytes - size, size);
  }
  return digest.finish();
}

}  // namespace quire
