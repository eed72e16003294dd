#include <limits>
#include <optional>

#include <quire/model.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"
#include "capi/src/model_settings.h"

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;
using quire::Model;
using quire::ResidencyState;
using quire::ResidentModel;

namespace {

static_assert(QUIRE_MODEL_STATE_RESIDENT == static_cast<int32_t>(ResidencyState::resident));
static_assert(QUIRE_MODEL_STATE_STANDING_BY == static_cast<int32_t>(ResidencyState::standing_by));
static_assert(QUIRE_MODEL_STATE_ON_DISK == static_cast<int32_t>(ResidencyState::on_disk));
static_assert(QUIRE_MODEL_STATE_MOVING == static_cast<int32_t>(ResidencyState::moving));

// Calls `read` with the model.
template <typename Result, typename Read>
Result get(quire_model* model, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(model, "model")->share->model); });
}

// Calls `read` with its ResidentModel.
template <typename Result, typename Read>
Result get_resident(quire_model* model, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(model, "model")->share->resident); });
}

int64_t figure_of(const quire::ResidencyStats& of, int32_t figure) {
  switch (figure) {
    case QUIRE_MODEL_FIGURE_WAITS:
      return static_cast<int64_t>(of.waits);
    case QUIRE_MODEL_FIGURE_WAKES:
      return static_cast<int64_t>(of.wakes);
    case QUIRE_MODEL_FIGURE_FAILED_WAKES:
      return static_cast<int64_t>(of.failed_wakes);
    case QUIRE_MODEL_FIGURE_EVICTIONS:
      return static_cast<int64_t>(of.evictions);
    case QUIRE_MODEL_FIGURE_LAST_WAKE_NS:
      return of.last_wake.count();
    case QUIRE_MODEL_FIGURE_ALL_WAKES_NS:
      return of.all_wakes.count();
    default:
      throw Error(ErrorCode::invalid_argument, "figure: {} is not a value of QUIRE_MODEL_FIGURE_*", figure)
          .at("figure");
  }
}

template <typename Read>
int64_t get_text(quire_model* model, char* out_text, size_t out_capacity, quire_error** error,
                 Read&& read) noexcept {
  return get(model, error, int64_t{-1},
             [&](const Model& of) { return write_text(read(of), out_text, out_capacity); });
}

// Returns the model. Throws if only its tokenizer was loaded.
const Model& described(const Model& model) {
  model.config();
  return model;
}

const quire::TensorDescription& tensor_at(const Model& model, int32_t tensor_idx) {
  const auto num_tensors = gsl::narrow<int32_t>(model.tensors().size());
  if (num_tensors == 0)
    throw Error(ErrorCode::invalid_argument,
                "tensor_idx: the model has no tensors; load it with the full or the metadata scope")
        .at("tensor_idx");
  return model.tensors()[static_cast<size_t>(range_argument(tensor_idx, 0, num_tensors - 1, "tensor_idx"))];
}

int32_t token_argument(const Model& model, int32_t token) {
  const auto size = gsl::narrow<int32_t>(model.tokenizer().vocab_size());
  return range_argument(token, 0, size - 1, "token");
}

// Returns the end tokens from the model's configuration, otherwise the tokenizer's.
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

// Throws for ids outside the tokenizer. Unused ids inside it are allowed and decode to nothing.
void require_known(const quire::Tokenizer& tokenizer, gsl::span<const int32_t> tokens) {
  const auto size = static_cast<int64_t>(tokenizer.vocab_size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < size) continue;
    throw Error(ErrorCode::invalid_argument, "tokens[{}]: {} is not in 0 to {}", i, tokens[i], size - 1)
        .at("tokens");
  }
}

}  // namespace

quire_model* quire_model_load(quire_runtime* runtime, quire_model_options* options, int64_t timeout_ns,
                              quire_cancel* cancel, quire_error** error) {
  return guard(error, static_cast<quire_model*>(nullptr), [&] {
    const std::shared_ptr<RuntimeShare> share = Pinned(runtime, "runtime")->share;
    const ModelSettings settings = Pinned(options, "options")->read();
    refuse_in_callback("quire_model_load");
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "quire_model_load");
    quire::LoadedModel loaded =
        quire::load_model(share->runtime(), share->devices(), load_options(settings), wait);
    return make_handle<quire_model>(
        std::make_shared<const ModelShare>(ModelShare{{share, settings.device}, std::move(loaded)}));
  });
}

int32_t quire_model_free(quire_model* handle, quire_error** error) {
  return free_handle(handle, error, [](ModelObject&) { refuse_in_callback("quire_model_free"); });
}

int32_t quire_model_state(quire_model* model, quire_error** error) {
  return get_resident(model, error, -1,
                      [](const ResidentModel& of) { return static_cast<int32_t>(of.residency().state()); });
}

int32_t quire_model_wake(quire_model* model, int64_t timeout_ns, quire_cancel* cancel, quire_error** error) {
  return get_resident(model, error, QUIRE_WAIT_FAILED, [&](const ResidentModel& of) {
    refuse_in_callback("quire_model_wake");
    return wait_result(of.residency().wake(wait_argument(timeout_ns, cancel, "quire_model_wake")));
  });
}

int32_t quire_model_evict(quire_model* model, int32_t state, int64_t timeout_ns, quire_cancel* cancel,
                          quire_error** error) {
  return get_resident(model, error, QUIRE_WAIT_FAILED, [&](const ResidentModel& of) {
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "quire_model_evict");
    const int32_t to =
        range_argument(state, QUIRE_MODEL_STATE_STANDING_BY, QUIRE_MODEL_STATE_ON_DISK, "state");
    refuse_in_callback("quire_model_evict");
    return wait_result(of.residency().evict(static_cast<ResidencyState>(to), wait));
  });
}

int32_t quire_model_set_priority(quire_model* model, int32_t priority, quire_error** error) {
  return get_resident(model, error, 0, [&](const ResidentModel& of) {
    of.residency().set_priority(range_argument(priority, -1000, 1000, "priority"));
    return 1;
  });
}

int32_t quire_model_set_idle_timeout_ns(quire_model* model, int64_t idle_timeout_ns, quire_error** error) {
  return get_resident(model, error, 0, [&](const ResidentModel& of) {
    of.residency().set_idle_timeout(deadline_argument(idle_timeout_ns, "idle_timeout_ns"));
    return 1;
  });
}

int64_t quire_model_figure(quire_model* model, int32_t figure, quire_error** error) {
  return get_resident(model, error, int64_t{-1},
                      [&](const ResidentModel& of) { return figure_of(of.residency().figures(), figure); });
}

int64_t quire_model_encode(quire_model* model, const char* text, size_t text_len, int32_t add_special,
                           int32_t parse_special, int32_t* out_tokens, size_t out_capacity,
                           quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    const OutArgument<int32_t> out(out_tokens, out_capacity, "out_tokens");
    const quire::EncodeOptions options{.parse_special = flag_argument(parse_special, "parse_special"),
                                       .add_special_tokens = flag_argument(add_special, "add_special")};
    return quire::with_parameter(
        "text", [&] { return out.write(of.tokenizer().encode(text_argument(text, text_len), options)); });
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

int64_t quire_model_path(quire_model* model, char* out_text, size_t out_capacity, quire_error** error) {
  return get_text(model, out_text, out_capacity, error,
                  [](const Model& of) -> std::string_view { return of.path(); });
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

int64_t quire_model_drafter(quire_model* model, char* out_text, size_t out_capacity, quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    return write_text(described(of).drafter_name(), out_text, out_capacity);
  });
}

int64_t quire_model_drafter_bytes(quire_model* model, quire_error** error) {
  return get(model, error, int64_t{-1},
             [](const Model& of) { return static_cast<int64_t>(described(of).drafter_bytes()); });
}

int32_t quire_model_num_shards(quire_model* model, quire_error** error) {
  return get(model, error, -1, [](const Model& of) { return of.num_shards(); });
}

int64_t quire_model_shard_weight_bytes(quire_model* model, int32_t shard_idx, quire_error** error) {
  return get(model, error, int64_t{-1}, [&](const Model& of) {
    return static_cast<int64_t>(element_argument(of.shard_bytes(), shard_idx, "shard_idx"));
  });
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
