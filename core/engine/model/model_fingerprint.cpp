#include "core/engine/model/model_fingerprint.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/base/checksum.h"
#include "core/loader/gguf_file.h"
#include "core/models/stage_sizes.h"
#include "core/models/synthetic_model.h"

namespace quire {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

// Returns the size and two checksums with different seeds.
std::string sums_of(const File& file) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(file.size_bytes(), kPieceBytes)));
  uint64_t first = 1, second = 2;
  for (uint64_t done = 0; done < file.size_bytes();) {
    const auto bytes = gsl::span(piece).first(
        static_cast<size_t>(std::min<uint64_t>(file.size_bytes() - done, piece.size())));
    file.read_at(done, bytes);
    first = checksum(first, bytes);
    second = checksum(second, bytes);
    done += bytes.size();
  }
  return fmt::format("{} {:016x}{:016x}", file.size_bytes(), first, second);
}

std::string files_of(const FileSystem& files, const std::string& path) {
  if (is_synthetic(path)) return path;
  std::string text;
  if (!files.is_directory(path)) {
    for (const GgufFile& part : open_gguf_files(files, path)) text.append(sums_of(*part.file())).append("\n");
    return text;
  }
  for (const std::string& name : files.list(path)) {
    if (name.ends_with(".safetensors") || name == "model.safetensors.index.json" || name == "config.json" ||
        name == "params.json")
      text += fmt::format("{} {}\n", name, sums_of(*files.open(fmt::format("{}/{}", path, name))));
  }
  return text;
}

// Returns the layers with host experts and the backend that computes them; empty if there are none.
std::string host_experts_of(const Transformer& transformer) {
  if (!transformer.host_experts.exist()) return {};
  std::string text = fmt::format("\nexperts on {}:", transformer.host_experts.device->table().name);
  for (const PipelineStage& stage : transformer.stages)
    for (size_t i = 0; i < stage.layers.size(); ++i)
      if (stage.layers[i].feed_forward.on_host)
        text += fmt::format(" {}", static_cast<size_t>(stage.first_layer) + i);
  return text + "\n";
}

}  // namespace

std::string model_fingerprint(const FileSystem& files, const Model& model,
                              const TransformerExecutorOptions& options) {
  const std::shared_ptr<const Transformer> transformer = model.transformer();
  std::string text = fmt::format("{}\nkeys {} values {} page {} shards {} activations {}\n", QUIRE_VERSION,
                                 static_cast<int32_t>(options.kv.key_format),
                                 static_cast<int32_t>(options.kv.value_format), options.kv.page_tokens,
                                 transformer->shard.num_shards, static_cast<int32_t>(model.activations()));
  for (const int32_t share : transformer->shard.shares) text += fmt::format("share {}\n", share);
  for (const WindowGroup& group : options.kv.windows) text += fmt::format("window {}\n", group.window);
  for (const PipelineStage& stage : transformer->stages) {
    text += fmt::format("from layer {} on {}\n", stage.first_layer, stage.device->table().name);
    // A cache for long contexts uses long rope scaling, which changes the keys.
    for (const RotaryLayer& rope : stage.ropes)
      text += longest_sequence(options) <= rope.short_context ? "s" : "l";
  }
  text += host_experts_of(*transformer);
  text += files_of(files, model.path());
  // Pages have the rows of the draft network.
  const std::string& drafter = model.drafter_path();
  if (!drafter.empty()) text += "drafter\n" + (drafter == kMtpDrafter ? drafter : files_of(files, drafter));
  return text;
}

}  // namespace quire
