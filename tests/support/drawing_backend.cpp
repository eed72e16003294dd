#include "tests/support/drawing_backend.h"

#include <atomic>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/slow_draw.h"

namespace quire::testing {

namespace {

using kernels::Status;

std::atomic<int64_t> rows_read{0};
std::atomic<int64_t> rows_drawn{0};

Status sample(kernels::Context*, const kernels::SampleParams* params) {
  const gsl::span<const kernels::LogitEdit> edits(params->edits, static_cast<size_t>(params->num_edits));
  for (int32_t i = 0; i < params->num_rows; ++i) {
    const kernels::SampleRow& draw = params->rows[i];
    const float* row = params->logits + static_cast<ptrdiff_t>(draw.logit_row) * params->stride;
    params->outcomes[i] = slow_draw({row, static_cast<size_t>(params->vocab_size)}, draw, edits);
  }
  rows_drawn += params->num_rows;
  return Status::ok;
}

Status read_rows(kernels::Context* context, const float* device_rows, int32_t rows, int32_t columns,
                 float* host) {
  rows_read += rows;
  const auto* const cpu_table = reinterpret_cast<const kernels::ContextHeader*>(context)->table;
  return cpu_table->read_rows(context, device_rows, rows, columns, host);
}

const kernels::KernelTable* table(const kernels::Device* device) {
  static const kernels::KernelTable changed = [&] {
    kernels::KernelTable copy = *kernels::cpu_backend().table(device);
    copy.capabilities |= kernels::kCapabilityDeviceSampling;
    copy.sample = sample;
    copy.read_rows = read_rows;
    return copy;
  }();
  return &changed;
}

}  // namespace

const kernels::Backend& drawing_backend() {
  static const kernels::Backend backend = [] {
    kernels::Backend changed = kernels::cpu_backend();
    changed.table = table;
    return changed;
  }();
  return backend;
}

int64_t num_rows_read() {
  return rows_read;
}
int64_t num_rows_drawn() {
  return rows_drawn;
}

}  // namespace quire::testing
