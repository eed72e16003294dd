#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include <quire/model.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"
#include "capi/src/model_plan.h"
#include "core/engine/deadline.h"

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;
using quire::Model;

namespace {

static_assert(QUIRE_MODEL_SCOPE_FULL == static_cast<int32_t>(quire::ModelScope::full));
static_assert(QUIRE_MODEL_SCOPE_TOKENIZER == static_cast<int32_t>(quire::ModelScope::tokenizer));
static_assert(QUIRE_MODEL_SCOPE_METADATA == static_cast<int32_t>(quire::ModelScope::metadata));

void report_progress(const ModelSettings& settings, const quire::LoadProgress& progress) {
  const CallbackScope scope;
  settings.progress(settings.progress_user_data, static_cast<int64_t>(progress.done_bytes),
                    static_cast<int64_t>(progress.total_bytes));
}

// The end of a load before its time, by the switch of the wait or by its timeout.
class LoadWait {
 public:
  explicit LoadWait(const quire::Wait& wait)
      : deadline_(quire::deadline_after(quire::steady_clock().now(), wait.timeout)),
        listener_(wait.cancel, [stop = stop_] { stop->trigger(); }) {}

  // What the load looks at.
  const std::atomic<bool>& stopped() const { return stop_->flag(); }
  // Between two pieces.
  void look_at_clock() {
    if (stop_->triggered() || quire::steady_clock().now() < deadline_) return;
    late_ = true;
    stop_->trigger();
  }
  bool late() const { return late_; }

 private:
  const std::shared_ptr<quire::CancelSwitch> stop_ = std::make_shared<quire::CancelSwitch>();
  const quire::TimePoint deadline_;
  bool late_ = false;
  const quire::CancelSwitch::Listener listener_;
};

quire::LoadMonitor make_monitor(const ModelSettings& settings, LoadWait& wait) {
  quire::LoadMonitor monitor;
  monitor.progress = [&settings, &wait](const quire::LoadProgress& progress) {
    wait.look_at_clock();
    if (settings.progress != nullptr) report_progress(settings, progress);
  };
  monitor.cancel = &wait.stopped();
  return monitor;
}

// Threads that load beside the caller. Devices other than the CPU prepare weights themselves: threads read.
// On the CPU one reads ahead while all prepare.
int32_t num_load_helpers(const std::vector<quire::ModelDevice>& devices) {
  constexpr int32_t kMostThreads = 8;
  const bool all_host = std::all_of(devices.begin(), devices.end(), [](const quire::ModelDevice& device) {
    return device.device->is_host();
  });
  if (all_host) return devices.front().device->info().num_units > 1 ? 1 : 0;
  return std::clamp(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, kMostThreads) - 1;
}

// One device that is the CPU, without a budget, is believed to hold what it is given.
bool needs_plan(const quire::Runtime& runtime, const quire::ModelPlanOptions& options) {
  const quire::ModelDevice& first = options.devices.front();
  return runtime.has_memory_budget() || options.devices.size() > 1 || !first.device->is_host() ||
         !options.split.empty() || first.budget_bytes.has_value();
}

// The shares of their devices. What a card has free is promised to one load at a time; the host is taken to
// hold what it is given.
std::vector<quire::MemoryLease> lease_weights(quire::Runtime& runtime, const quire::ModelPlan& plan,
                                              const quire::ModelPlanOptions& options,
                                              const std::string& path) {
  std::map<std::shared_ptr<quire::Device>, uint64_t> needed;  // a device may have several parts
  for (size_t i = 0; i < options.devices.size(); ++i)
    needed[options.devices[i].device] += plan.memory.devices[i].weights();
  std::vector<quire::MemoryLease> leases;
  for (const auto& [device, bytes] : needed) {
    std::optional<uint64_t> free_bytes;
    if (!device->is_host()) free_bytes = device->info().free_bytes;
    leases.push_back(runtime.lease_memory(device->name(), bytes, "the weights of " + path, free_bytes));
  }
  return leases;
}

// Chooses devices and threads; nothing is taken of the devices yet. The shares of their budgets, where a plan
// was needed.
std::vector<quire::MemoryLease> prepare_load(RuntimeShare& runtime, const ModelSettings& settings,
                                             quire::ModelOptions& options) {
  const auto& engine = runtime.runtime();
  const quire::ModelPlanOptions wanted = plan_options(runtime, settings, options.source);
  for (const quire::ModelDevice& device : wanted.devices) options.devices.push_back(device.device);
  options.threads = &engine->threads();
  options.num_helpers = num_load_helpers(wanted.devices);
  if (!needs_plan(*engine, wanted)) return {};
  const quire::ModelPlan plan = plan_model(wanted);
  require_room(plan, wanted);
  std::vector<quire::MemoryLease> leases = lease_weights(*engine, plan, wanted, settings.path);
  options.placement = plan.memory.placement;
  return leases;
}

std::shared_ptr<const ModelShare> load(const std::shared_ptr<RuntimeShare>& runtime,
                                       const ModelSettings& settings, LoadWait& wait) {
  if (settings.path.empty()) throw Error(ErrorCode::invalid_argument, "path: not set");
  if (settings.num_shards > 1) {
    throw Error(ErrorCode::unsupported, "num_shards: {}; this version keeps each layer on one device",
                settings.num_shards);
  }
  wait.look_at_clock();
  if (wait.stopped()) throw Error(ErrorCode::cancelled, "the load was cancelled before it began");
  quire::ModelOptions options;
  options.source = open_model_source(runtime->runtime()->files(), settings.path);
  options.scope = static_cast<quire::ModelScope>(settings.scope);
  if (settings.activation_dtype == QUIRE_ACTIVATION_I8)
    options.activations = quire::kernels::ActivationDtype::i8;
  options.monitor = make_monitor(settings, wait);

  auto share = std::make_shared<ModelShare>();
  share->runtime = runtime;
  share->device = settings.device;
  if (options.scope == quire::ModelScope::full) share->leases = prepare_load(*runtime, settings, options);
  share->model = Model::load(options);
  for (quire::MemoryLease& lease : share->leases) lease.settle();
  share->generation_config = options.source->generation_config();
  const quire::FileSystem& files = runtime->runtime()->files();
  if (files.is_directory(settings.path)) share->chat = std::make_shared<ModelChat>(files, settings.path);
  // Without a budget nobody had to plan; what was taken counts for one that is set later.
  if (options.scope == quire::ModelScope::full && share->leases.empty()) {
    share->leases.push_back(runtime->runtime()->lease_memory(
        options.devices.front()->name(), share->model->weight_bytes(), "the weights of " + settings.path));
  }
  return share;
}

// Runs `read` on the model.
template <typename Result, typename Read>
Result get(quire_model* model, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(model, "model")->share->model); });
}

template <typename Read>
int64_t get_text(quire_model* model, char* out_text, size_t out_capacity, quire_error** error,
                 Read&& read) noexcept {
  return get(model, error, int64_t{-1},
             [&](const Model& of) { return write_text(read(of), out_text, out_capacity); });
}

const quire::TensorDescription& tensor_at(const Model& model, int32_t tensor_idx) {
  const auto num_tensors = gsl::narrow<int32_t>(model.tensors().size());
  if (num_tensors == 0) throw Error(ErrorCode::invalid_argument, "tensor_idx: the model has no tensors");
  return model.tensors()[static_cast<size_t>(range_argument(tensor_idx, 0, num_tensors - 1, "tensor_idx"))];
}

int32_t token_argument(const Model& model, int32_t token) {
  const auto size = gsl::narrow<int32_t>(model.tokenizer().vocab_size());
  return range_argument(token, 0, size - 1, "token");
}

// The model directory's own word on its end tokens comes before the tokenizer's.
quire::TokenIds eos_tokens(const Model& model) {
  if (model.has_config() && !model.config().eos_ids.empty()) return model.config().eos_ids;
  const auto eos = model.tokenizer().eos_id();
  return eos ? quire::TokenIds{*eos} : quire::TokenIds{};
}

int32_t special_token(const Model& model, int32_t kind) {
  const quire::Tokenizer& tokenizer = model.tokenizer();
  std::optional<quire::TokenId> token;
  switch (range_argument(kind, QUIRE_TOKEN_BOS, QUIRE_TOKEN_UNK, "kind")) {
    case QUIRE_TOKEN_BOS:
      token = tokenizer.bos_id();
      if (!token && model.has_config()) token = model.config().bos_id;
      break;
    case QUIRE_TOKEN_EOS: {
      const quire::TokenIds all = eos_tokens(model);
      if (!all.empty()) token = all.front();
      break;
    }
    case QUIRE_TOKEN_PAD:
      token = tokenizer.pad_id();
      if (!token && model.has_config()) token = model.config().pad_id;
      break;
    default:
      token = tokenizer.unk_id();
  }
  return token.value_or(-1);
}

// Ids outside the tokenizer are a mistake of the caller; gaps inside it stand for nothing.
void require_known(const quire::Tokenizer& tokenizer, gsl::span<const int32_t> tokens) {
  const auto size = static_cast<int64_t>(tokenizer.vocab_size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < size) continue;
    throw Error(ErrorCode::invalid_argument, "tokens[{}]: {} is not in 0 to {}", i, tokens[i], size - 1);
  }
}

}  // namespace

quire_model* quire_model_load(quire_runtime* runtime, quire_model_options* options, int64_t timeout_ns,
                              quire_cancel* cancel, quire_error** error) {
  return guard(error, static_cast<quire_model*>(nullptr), [&] {
    const std::shared_ptr<RuntimeShare> share = Pinned(runtime, "runtime")->share;
    const ModelSettings settings = Pinned(options, "options")->read();
    refuse_in_callback("quire_model_load");
    LoadWait wait(wait_argument(timeout_ns, cancel, "quire_model_load"));
    try {
      return make_handle<quire_model>(load(share, settings, wait));
    } catch (const Error& error_of_load) {
      if (error_of_load.code() != ErrorCode::cancelled || !wait.late()) throw;
      throw Error(ErrorCode::timeout, "the load was not over in time; give it a longer timeout");
    }
  });
}

int32_t quire_model_free(quire_model* handle, quire_error** error) {
  return free_handle(handle, error, [](ModelObject&) { refuse_in_callback("quire_model_free"); });
}

int64_t quire_model_encode(quire_model* model, const char* text, size_t text_len, int32_t add_special,
                           int32_t parse_special, int32_t* out_tokens, size_t out_capacity,
                           quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    const OutArgument<int32_t> out(out_tokens, out_capacity, "out_tokens");
    const quire::EncodeOptions options{.parse_special = flag_argument(parse_special, "parse_special"),
                                       .add_special_tokens = flag_argument(add_special, "add_special")};
    return out.write(of.tokenizer().encode(text_argument(text, text_len), options));
  });
}

int64_t quire_model_decode(quire_model* model, const int32_t* tokens, size_t num_tokens, int32_t skip_special,
                           char* out_text, size_t out_capacity, quire_error** error) {
  return get_text(model, out_text, out_capacity, error, [&](const Model& of) {
    const auto ids = array_argument(tokens, num_tokens, "tokens");
    const bool skip = flag_argument(skip_special, "skip_special");
    require_known(of.tokenizer(), ids);
    return of.tokenizer().decode(ids, skip);
  });
}

int64_t quire_model_token_bytes(quire_model* model, int32_t token, uint8_t* out_bytes, size_t out_capacity,
                                quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    const std::string_view bytes = of.tokenizer().token_bytes(token_argument(of, token));
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
    return OutArgument<uint8_t>(out_bytes, out_capacity, "out_bytes").write({data, bytes.size()});
  });
}

int32_t quire_model_find_token(quire_model* model, const char* text, size_t text_len, quire_error** error) {
  return get(model, error, -1, [&](const Model& of) {
    return of.tokenizer().find_token(text_argument(text, text_len)).value_or(-1);
  });
}

int32_t quire_model_is_special(quire_model* model, int32_t token, quire_error** error) {
  return get(model, error, -1,
             [&](const Model& of) { return of.tokenizer().is_special(token_argument(of, token)) ? 1 : 0; });
}

int32_t quire_model_special_token(quire_model* model, int32_t kind, quire_error** error) {
  return get(model, error, -1, [&](const Model& of) { return special_token(of, kind); });
}

int64_t quire_model_eos_tokens(quire_model* model, int32_t* out_tokens, size_t out_capacity,
                               quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    return OutArgument<int32_t>(out_tokens, out_capacity, "out_tokens").write(eos_tokens(of));
  });
}

int32_t quire_model_tokenizer_size(quire_model* model, quire_error** error) {
  return get(model, error, -1,
             [](const Model& of) { return gsl::narrow<int32_t>(of.tokenizer().vocab_size()); });
}

int32_t quire_model_vocab_size(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.config().vocab_size; });
}

int64_t quire_model_architecture(quire_model* model, char* out_text, size_t out_capacity,
                                 quire_error** error) {
  return get_text(model, out_text, out_capacity, error,
                  [](const Model& of) { return of.config().architecture->name; });
}

int32_t quire_model_num_layers(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.config().num_layers; });
}

int32_t quire_model_hidden_size(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.config().hidden_size; });
}

int32_t quire_model_num_heads(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.config().heads.num_heads; });
}

int32_t quire_model_num_kv_heads(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.config().heads.num_kv_heads; });
}

int64_t quire_model_max_context(quire_model* model, quire_error** error) {
  return get(model, error, int64_t{-1}, [](const Model& of) { return int64_t{of.config().max_positions}; });
}

double quire_model_bits_per_weight(quire_model* model, quire_error** error) {
  return get(model, error, std::numeric_limits<double>::quiet_NaN(),
             [](const Model& of) { return of.bits_per_weight(); });
}

int64_t quire_model_weight_bytes(quire_model* model, quire_error** error) {
  return get(model, error, int64_t{-1},
             [](const Model& of) { return static_cast<int64_t>(of.weight_bytes()); });
}

int32_t quire_model_num_tensors(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return gsl::narrow<int32_t>(of.tensors().size()); });
}

int64_t quire_model_tensor_name(quire_model* model, int32_t tensor_idx, char* out_text, size_t out_capacity,
                                quire_error** error) {
  return get_text(model, out_text, out_capacity, error,
                  [&](const Model& of) -> std::string_view { return tensor_at(of, tensor_idx).name; });
}

int64_t quire_model_tensor_format(quire_model* model, int32_t tensor_idx, char* out_text, size_t out_capacity,
                                  quire_error** error) {
  return get_text(model, out_text, out_capacity, error,
                  [&](const Model& of) -> std::string_view { return tensor_at(of, tensor_idx).format; });
}

int64_t quire_model_tensor_shape(quire_model* model, int32_t tensor_idx, int64_t* out_sizes,
                                 size_t out_capacity, quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    return OutArgument<int64_t>(out_sizes, out_capacity, "out_sizes").write(tensor_at(of, tensor_idx).shape);
  });
}

int64_t quire_model_tensor_bytes(quire_model* model, int32_t tensor_idx, quire_error** error) {
  return get(model, error, int64_t{-1},
             [&](const Model& of) { return tensor_at(of, tensor_idx).stored_bytes; });
}

int32_t quire_model_tensor_layer(quire_model* model, int32_t tensor_idx, quire_error** error) {
  return get(model, error, -1, [&](const Model& of) { return tensor_at(of, tensor_idx).layer; });
}
