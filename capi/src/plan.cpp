#include <quire/plan.h>

#include "capi/src/arguments.h"
#include "capi/src/cache_settings.h"
#include "capi/src/callback_scope.h"
#include "capi/src/guard.h"
#include "capi/src/model_settings.h"
#include "capi/src/plan_object.h"
#include "capi/src/runtime_object.h"
#include "core/models/draft_source.h"

using namespace quire::capi;

using quire::MemoryBytes;

namespace {

// Calls `read` with the plan.
template <typename Result, typename Read>
Result get(quire_plan* plan, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(plan, "plan")); });
}

size_t device_index(const PlanObject& plan, int32_t device_idx) {
  const auto num_devices = gsl::narrow<int32_t>(plan.names.size());
  return static_cast<size_t>(range_argument(device_idx, 0, num_devices - 1, "device_idx"));
}

size_t layer_index(const PlanObject& plan, int32_t layer_idx) {
  const auto num_layers = gsl::narrow<int32_t>(plan.plan.memory.placement.device_of_layer.size());
  return static_cast<size_t>(range_argument(layer_idx, 0, num_layers - 1, "layer_idx"));
}

template <typename Result, typename Read>
Result get_group(quire_plan* plan, int32_t group_idx, quire_error** error, Result failure,
                 Read&& read) noexcept {
  return get(plan, error, failure, [&](const PlanObject& of) {
    return read(element_argument(of.plan.memory.cache_groups, group_idx, "group_idx"));
  });
}

template <typename Read>
int64_t get_bytes(quire_plan* plan, quire_error** error, Read&& read) noexcept {
  return get(plan, error, int64_t{-1},
             [&](const PlanObject& of) { return static_cast<int64_t>(read(of.plan.memory.total())); });
}

template <typename Read>
int64_t get_device_bytes(quire_plan* plan, int32_t device_idx, quire_error** error, Read&& read) noexcept {
  return get(plan, error, int64_t{-1}, [&](const PlanObject& of) {
    return static_cast<int64_t>(read(of.plan.memory.devices[device_index(of, device_idx)]));
  });
}

}  // namespace

quire_plan* quire_plan_create(quire_runtime* runtime, quire_model_options* model, quire_cache_options* cache,
                              quire_error** error) {
  return guard(error, static_cast<quire_plan*>(nullptr), [&] {
    const std::shared_ptr<RuntimeShare> share = Pinned(runtime, "runtime")->share;
    ModelSettings settings = Pinned(model, "model")->read();
    settings.cache = cache == nullptr ? CacheSettings{} : Pinned(cache, "cache")->read();
    refuse_in_callback("quire_plan_create");
    if (settings.path.empty())
      throw quire::Error(quire::ErrorCode::invalid_argument, "path: not set; give the directory of a model")
          .at("path");
    quire::PlannedModel planned =
        quire::plan_variants(share->runtime()->files(), share->devices(), load_options(settings));
    std::vector<std::string> names;
    for (const quire::ModelDevice& device : planned.options.devices) names.push_back(device.name);
    const auto& drafter = planned.options.draft_source;
    return make_handle<quire_plan>(std::move(planned.plan), std::move(names), planned.options.source->path(),
                                   drafter == nullptr ? std::string() : drafter->name());
  });
}

int32_t quire_plan_free(quire_plan* handle, quire_error** error) {
  return free_handle(handle, error);
}

int64_t quire_plan_model_path(quire_plan* plan, char* out_text, size_t out_capacity, quire_error** error) {
  return get(plan, error, int64_t{-1},
             [&](const PlanObject& of) { return write_text(of.path, out_text, out_capacity); });
}

int64_t quire_plan_drafter(quire_plan* plan, char* out_text, size_t out_capacity, quire_error** error) {
  return get(plan, error, int64_t{-1},
             [&](const PlanObject& of) { return write_text(of.drafter, out_text, out_capacity); });
}

int32_t quire_plan_kv_format(quire_plan* plan, quire_error** error) {
  return get(plan, error, -1, [](const PlanObject& of) { return kv_format_of(of.plan.cache); });
}

int64_t quire_plan_total_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.total(); });
}

int64_t quire_plan_embedding_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.embedding; });
}

int64_t quire_plan_layer_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.layers; });
}

int64_t quire_plan_head_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.head; });
}

int64_t quire_plan_drafter_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.drafter; });
}

int64_t quire_plan_kv_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.kv + of.states; });
}

int64_t quire_plan_workspace_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.workspace; });
}

int64_t quire_plan_staging_bytes(quire_plan* plan, quire_error** error) {
  return get_bytes(plan, error, [](const MemoryBytes& of) { return of.staging; });
}

int32_t quire_plan_num_devices(quire_plan* plan, quire_error** error) {
  return get(plan, error, -1, [](const PlanObject& of) { return gsl::narrow<int32_t>(of.names.size()); });
}

int64_t quire_plan_device_name(quire_plan* plan, int32_t device_idx, char* out_text, size_t out_capacity,
                               quire_error** error) {
  return get(plan, error, int64_t{-1}, [&](const PlanObject& of) {
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::string& name = of.names[device_index(of, device_idx)];
    return out.write({name.data(), name.size()});
  });
}

int32_t quire_plan_device_num_layers(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get(plan, error, -1, [&](const PlanObject& of) {
    device_index(of, device_idx);
    return of.plan.memory.num_layers_on(device_idx);
  });
}

int32_t quire_plan_device_num_host_experts(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get(plan, error, -1, [&](const PlanObject& of) {
    device_index(of, device_idx);
    const quire::Placement& placement = of.plan.memory.placement;
    int32_t count = 0;
    for (size_t i = 0; i < placement.device_of_layer.size(); ++i) {
      const auto layer = static_cast<int32_t>(i);
      if (has_host_experts(placement, layer) && experts_device(placement, layer) == device_idx) ++count;
    }
    return count;
  });
}

int64_t quire_plan_device_step_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get(plan, error, int64_t{-1}, [&](const PlanObject& of) {
    return static_cast<int64_t>(of.plan.memory.step_bytes[device_index(of, device_idx)]);
  });
}

int64_t quire_plan_device_usable_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get(plan, error, int64_t{-1}, [&](const PlanObject& of) {
    return static_cast<int64_t>(of.plan.usable_bytes[device_index(of, device_idx)]);
  });
}

int64_t quire_plan_device_total_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.total(); });
}

int64_t quire_plan_device_embedding_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.embedding; });
}

int64_t quire_plan_device_layer_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.layers; });
}

int64_t quire_plan_device_head_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.head; });
}

int64_t quire_plan_device_drafter_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.drafter; });
}

int64_t quire_plan_device_kv_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.kv + of.states; });
}

int64_t quire_plan_device_workspace_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.workspace; });
}

int64_t quire_plan_device_staging_bytes(quire_plan* plan, int32_t device_idx, quire_error** error) {
  return get_device_bytes(plan, device_idx, error, [](const MemoryBytes& of) { return of.staging; });
}

int32_t quire_plan_num_layers(quire_plan* plan, quire_error** error) {
  return get(plan, error, -1, [](const PlanObject& of) {
    return gsl::narrow<int32_t>(of.plan.memory.placement.device_of_layer.size());
  });
}

int32_t quire_plan_layer_device(quire_plan* plan, int32_t layer_idx, quire_error** error) {
  return get(plan, error, -1, [&](const PlanObject& of) {
    return of.plan.memory.placement.device_of_layer[layer_index(of, layer_idx)];
  });
}

int32_t quire_plan_layer_experts_device(quire_plan* plan, int32_t layer_idx, quire_error** error) {
  return get(plan, error, -1, [&](const PlanObject& of) {
    layer_index(of, layer_idx);
    return experts_device(of.plan.memory.placement, layer_idx);
  });
}

int64_t quire_plan_bytes_of_layer(quire_plan* plan, int32_t layer_idx, quire_error** error) {
  return get(plan, error, int64_t{-1}, [&](const PlanObject& of) {
    return static_cast<int64_t>(of.plan.memory.layer_bytes[layer_index(of, layer_idx)]);
  });
}

int32_t quire_plan_num_cache_groups(quire_plan* plan, quire_error** error) {
  return get(plan, error, -1,
             [](const PlanObject& of) { return gsl::narrow<int32_t>(of.plan.memory.cache_groups.size()); });
}

int32_t quire_plan_cache_group_window(quire_plan* plan, int32_t group_idx, quire_error** error) {
  return get_group(plan, group_idx, error, -1, [](const quire::CacheGroupPlan& of) { return of.window; });
}

int32_t quire_plan_cache_group_num_pages(quire_plan* plan, int32_t group_idx, quire_error** error) {
  return get_group(plan, group_idx, error, -1, [](const quire::CacheGroupPlan& of) { return of.num_pages; });
}

int32_t quire_plan_cache_group_num_layers(quire_plan* plan, int32_t group_idx, quire_error** error) {
  return get_group(plan, group_idx, error, -1, [](const quire::CacheGroupPlan& of) { return of.num_layers; });
}

int64_t quire_plan_cache_group_bytes(quire_plan* plan, int32_t group_idx, quire_error** error) {
  return get_group(plan, group_idx, error, int64_t{-1},
                   [](const quire::CacheGroupPlan& of) { return static_cast<int64_t>(of.bytes); });
}
