#include "capi/src/model_settings.h"

#include "capi/src/cache_settings.h"
#include "capi/src/callback_scope.h"

namespace quire::capi {
namespace {

static_assert(QUIRE_MODEL_SCOPE_FULL == static_cast<int32_t>(ModelScope::full));
static_assert(QUIRE_MODEL_SCOPE_TOKENIZER == static_cast<int32_t>(ModelScope::tokenizer));
static_assert(QUIRE_MODEL_SCOPE_METADATA == static_cast<int32_t>(ModelScope::metadata));

kernels::ActivationDtype activations_of(int32_t activation_dtype) {
  switch (activation_dtype) {
    case QUIRE_ACTIVATION_I8:
      return kernels::ActivationDtype::i8;
    case QUIRE_ACTIVATION_F8:
      return kernels::ActivationDtype::f8;
    default:
      return kernels::ActivationDtype::full;
  }
}

}  // namespace

ModelLoadOptions load_options(const ModelSettings& settings) {
  ModelLoadOptions load;
  load.path = settings.path;
  load.devices = settings.device;
  load.split = settings.split;
  load.host_experts = settings.host_experts;
  load.reserve = settings.reserve;
  if (settings.cache) load.cache = engine_options(*settings.cache);
  load.scope = static_cast<ModelScope>(settings.scope);
  load.is_lazy = settings.is_lazy;
  load.num_shards = settings.num_shards;
  load.drafter = settings.drafter;
  load.activations = activations_of(settings.activation_dtype);
  if (settings.progress.report == nullptr) return load;
  load.progress = [to = settings.progress](const LoadProgress& progress) {
    const CallbackScope scope;
    to.report(to.user_data, static_cast<int64_t>(progress.done_bytes),
              static_cast<int64_t>(progress.total_bytes));
  };
  return load;
}

}  // namespace quire::capi
