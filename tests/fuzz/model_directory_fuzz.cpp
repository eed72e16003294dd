// Any text as config.json, after the first NUL the header of model.safetensors, after the second the index of
// the weights: the result is an Error, or a plan of the load and of its memory. The weights are zeros.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/models/draft_source.h"
#include "core/models/memory_plan.h"
#include "core/models/transformer_builder.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/sparse_files.h"

namespace quire {
namespace {

constexpr uint64_t kMaxDataBytes = uint64_t{16} << 20;

std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

// Returns the largest number of a header within the limit, which is the end of the last tensor if the header
// is sound.
uint64_t largest_number(std::string_view header) {
  uint64_t largest = 0;
  for (const char* at = header.data(); at < header.data() + header.size();) {
    uint64_t number = 0;
    const auto read = std::from_chars(at, header.data() + header.size(), number);
    if (read.ec == std::errc() && number <= kMaxDataBytes) largest = std::max(largest, number);
    at = std::max(read.ptr, at + 1);
  }
  return largest;
}

// Runs one part of the test. It may throw Error, and the other parts run all the same.
template <class Part>
void attempt(const Part& part) {
  try {
    part();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) std::abort();
  }
}

const std::shared_ptr<Device>& device() {
  static const auto* const opened =
      new std::shared_ptr<Device>(Device::open(kernels::cpu_backend(), 0, {.num_threads = 1}));
  return *opened;
}

void plan(ModelSource& source, const BuildOptions& options) {
  const auto weights = source.weights(ReadScope::layout, {});
  const int32_t num_layers = source.config().num_layers;
  const Placement placement = place_on_one_device(num_layers);
  const auto transformer = build_transformer(source.config(), *weights, {&device(), 1}, placement, options);
  TransformerExecutorOptions cache;
  cache.max_pages_per_sequence = 4;
  cache.kv.num_pages = 16;
  cache.kv.num_state_slots = 4;
  (void)plan_memory(*transformer, placement, 1, cache);
}

void run(std::string_view rest) {
  testing::SparseFiles files;
  files.write("config.json", {std::string(take_part(rest))});
  const std::string header(take_part(rest));
  files.write("model.safetensors", {testing::safetensors_file(header, ""), largest_number(header)});
  if (!rest.empty()) files.write("model.safetensors.index.json", {std::string(rest)});
  const auto source = open_model_source(files, testing::SparseFiles::kDirectory);
  BuildOptions options;
  options.mode = BuildMode::plan;
  attempt([&] { source->tensors(); });
  attempt([&] { plan(*source, options); });
  attempt([&] {
    const DraftSource draft = open_draft_source(files, std::string(kMtpDrafter), source);
    const auto weights = draft.weights(ReadScope::layout, {});
    const DraftBuild drafter{draft.config, *weights, draft.token_of, "mtp"};
    BuildOptions with_drafter = options;
    with_drafter.drafter = &drafter;
    plan(*source, with_drafter);
  });
  options.num_shards = 2;
  attempt([&] { plan(*source, options); });
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  quire::run(std::string_view(reinterpret_cast<const char*>(data), num_bytes));
  return 0;
}
