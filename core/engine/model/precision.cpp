#include "core/engine/model/precision.h"

#include <algorithm>

#include "core/models/transformer.h"

namespace quire {

size_t kv_formats_of(const ModelCacheOptions& options) {
  const auto* const found = std::find_if(kKvFormats.begin(), kKvFormats.end(), [&](const KvFormats& formats) {
    return formats.keys == options.key_format && formats.values == options.value_format;
  });
  if (found == kKvFormats.end())
    throw Error(ErrorCode::internal, "the formats of keys and values are not in kKvFormats");
  return static_cast<size_t>(found - kKvFormats.begin());
}

std::vector<ModelCacheOptions> kv_choices(const ModelCacheOptions& options, const ModelConfig& config,
                                          gsl::span<const std::shared_ptr<Device>> devices) {
  if (!options.picks_kv_format) return {options};
  std::vector<ModelCacheOptions> choices;
  for (const KvFormats& formats : kKvFormats) {
    if (formats.keys == kernels::KvFormat::fp8) continue;  // Q8 is as small
    ModelCacheOptions choice = options;
    choice.key_format = formats.keys;
    choice.value_format = formats.values;
    const bool is_supported = std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
      return kv_refusal(*device, config, choice).empty();
    });
    if (is_supported) choices.push_back(std::move(choice));
  }
  return choices;
}

CreatedCache create_cache_that_fits(const std::shared_ptr<Runtime>& runtime,
                                    const std::shared_ptr<const Model>& model,
                                    const ModelCacheOptions& options,
                                    const std::shared_ptr<const ResidentModel>& home) {
  const std::vector<ModelCacheOptions> choices =
      kv_choices(options, model->config(), model->transformer()->devices());
  return first_that_fits(choices, [&](const ModelCacheOptions& choice) {
    CreatedCache made{create_model_cache(runtime, model, choice, home), choice};
    if (&choice != &choices.front())
      runtime->log()(
          LogLevel::info,
          "the cache of {} stores keys and values as {}: a more exact format does not fit into memory",
          model->path(), kKvFormats[kv_formats_of(choice)].name);
    return made;
  });
}

}  // namespace quire
