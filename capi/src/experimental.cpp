#include <limits>

#include <quire/experimental.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"
#include "core/engine/model/draft_scoring.h"
#include "core/engine/model/serve_stage.h"

using namespace quire::capi;
using quire::Model;

namespace {

// Throws if the device cannot be used.
std::shared_ptr<quire::Device> usable_device(quire_runtime* runtime, int32_t device_idx) {
  const Pinned pinned(runtime, "runtime");
  return pinned->share->devices().open(pinned->share->device_at(device_idx).name);
}

// Returns a text without zero bytes. Errors begin with the name of its parameter.
std::string named_text(const char* text, size_t text_len, std::string_view name) {
  text_argument(text, text_len, name);
  return std::string(c_text_argument(text, text_len, name));
}

// Calls `read` with the model.
template <typename Read>
int64_t get(quire_model* model, quire_error** error, Read&& read) noexcept {
  return guard(error, int64_t{-1},
               [&] { return static_cast<int64_t>(read(*Pinned(model, "model")->share->model)); });
}

}  // namespace

int64_t quire_runtime_measure_read_rate(quire_runtime* runtime, int32_t device_idx, int64_t working_set_bytes,
                                        quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    refuse_in_callback("quire_runtime_measure_read_rate");
    const auto bytes = static_cast<uint64_t>(range_argument(
        working_set_bytes, int64_t{1}, std::numeric_limits<int64_t>::max(), "working_set_bytes"));
    return static_cast<int64_t>(usable_device(runtime, device_idx)->measure_read_rate(bytes));
  });
}

int64_t quire_runtime_measure_op_rate(quire_runtime* runtime, int32_t device_idx, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    refuse_in_callback("quire_runtime_measure_op_rate");
    return static_cast<int64_t>(usable_device(runtime, device_idx)->measure_op_rate());
  });
}

int64_t quire_model_step_bytes(quire_model* model, int32_t num_tokens, quire_error** error) {
  return get(model, error, [num_tokens](const Model& of) {
    return of.transformer()->step_bytes(
        range_argument(num_tokens, 1, std::numeric_limits<int32_t>::max(), "num_tokens"));
  });
}

int64_t quire_model_token_ops(quire_model* model, quire_error** error) {
  return get(model, error, [](const Model& of) { return of.transformer()->token_ops(); });
}

int64_t quire_model_logit_ops(quire_model* model, quire_error** error) {
  return get(model, error, [](const Model& of) { return of.transformer()->logit_ops(); });
}

int32_t quire_runtime_serve_stage(quire_runtime* runtime, const char* listen, size_t listen_len,
                                  const char* models, size_t models_len, int32_t num_shards,
                                  int64_t memory_bytes, int64_t timeout_ns, quire_cancel* cancel,
                                  quire_error** error) {
  return guard(error, 0, [&] {
    const std::shared_ptr<RuntimeShare> of = Pinned(runtime, "runtime")->share;
    quire::StageServing serving;
    serving.listen = named_text(listen, listen_len, "listen");
    serving.models = named_text(models, models_len, "models");
    serving.num_shards = num_shards;
    serving.memory_bytes = static_cast<uint64_t>(
        range_argument(memory_bytes, int64_t{0}, std::numeric_limits<int64_t>::max(), "memory_bytes"));
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "quire_runtime_serve_stage");
    serve_stage(*of->runtime(), of->devices(), serving, wait);
    return 1;
  });
}

int32_t quire_model_drafter_vocab_size(quire_model* model, quire_error** error) {
  return guard(error, -1,
               [&] { return quire::draft_columns(*Pinned(model, "model")->share->model->transformer()); });
}

int64_t quire_model_drafter_logits(quire_model* model, const int32_t* tokens, size_t num_tokens,
                                   int64_t timeout_ns, quire_cancel* cancel, float* out_values,
                                   size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const std::shared_ptr<const ModelShare> of = Pinned(model, "model")->share;
    const auto ids = array_argument(tokens, num_tokens, "tokens");
    const OutArgument<float> out(out_values, out_capacity, "out_values");
    const quire::Wait wait{timeout_argument(timeout_ns), cancel_argument(cancel)};
    const quire::DraftScoresShape shape = draft_scores_shape(*of->model, ids);
    const size_t size = static_cast<size_t>(shape.num_rows) * static_cast<size_t>(shape.columns);
    if (!out.fits(size)) return static_cast<int64_t>(size);
    refuse_in_callback("quire_model_drafter_logits");
    return out.write(score_drafter(*of->runtime->runtime(), *of->resident, ids, wait).logits);
  });
}
