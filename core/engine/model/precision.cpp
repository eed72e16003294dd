#include "core/engine/model/precision.h"

#include <algorithm>
#include <array>

#include "core/models/transformer.h"

namespace quire {
namespace {

using kernels::KvFormat;

struct KvFormats {
  KvFormat keys, values;
  const char* name;
};

// FP8 is as large as Q8 and less exact.
constexpr std::array<KvFormats, 4> kFromTheBest = {{{KvFormat::f16, KvFormat::f16, "F16"},
                                                    {KvFormat::q8, KvFormat::q8, "Q8"},
                                                    {KvFormat::q8, KvFormat::q4, "Q6"},
                                                    {KvFormat::q4, KvFormat::q4, "Q4"}}};

const char* name_of(const ModelCacheOptions& choice) {
  return std::find_if(kFromTheBest.begin(), kFromTheBest.end(),
                      [&](const KvFormats& formats) {
                        return formats.keys == choice.key_format && formats.values == choice.value_format;
                      })
      ->name;
}

bool may_have(const ModelCacheOptions& options, const ModelConfig& config,
              gsl::span<const std::shared_ptr<Device>> devices) {
  try {
    for (const auto& device : devices) require_kv_formats(*device, config, options);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return false;
  }
}

}  // namespace

std::vector<ModelCacheOptions> kv_choices(const ModelCacheOptions& options, const ModelConfig& config,
                                          gsl::span<const std::shared_ptr<Device>> devices) {
  if (!options.kv_by_room) return {options};
  std::vector<ModelCacheOptions> choices;
  for (const KvFormats& formats : kFromTheBest) {
    ModelCacheOptions choice = options;
    choice.key_format = formats.keys;
    choice.value_format = formats.values;
    if (may_have(choice, config, devices)) choices.push_back(std::move(choice));
  }
  return choices;
}

CacheByRoom create_cache_by_room(const std::shared_ptr<Runtime>& runtime,
                                 const std::shared_ptr<const Model>& model, const ModelCacheOptions& options,
                                 const std::shared_ptr<const ModelHome>& home) {
  std::vector<std::shared_ptr<Device>> devices;
  const std::shared_ptr<const Transformer> transformer = model->transformer();
  for (const TransformerStage& stage : transformer->stages) devices.push_back(stage.device);
  const std::vector<ModelCacheOptions> choices = kv_choices(options, model->config(), devices);
  return first_that_fits(choices, [&](const ModelCacheOptions& choice) {
    CacheByRoom made{create_model_cache(runtime, model, choice, home), choice};
    if (&choice != &choices.front())
      runtime->log()(LogLevel::info,
                     "the cache of {} keeps keys and values as {}: there is no room for more bits",
                     model->path(), name_of(choice));
    return made;
  });
}

}  // namespace quire
