#include <cmath>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels::cpu_entries {
namespace {

size_t at(int64_t row, int32_t columns) {
  return static_cast<size_t>(row) * static_cast<size_t>(columns);
}

void embed_blocks(const Weight& table, size_t row, float scale, float* out) {
  const auto columns = static_cast<size_t>(table.num_out);
  const uint8_t* blocks =
      table.table_data.as<uint8_t>() + row * block_row_bytes(table.table_blocks, table.num_out);
  decode_blocks(table.table_blocks, blocks,
                columns / static_cast<size_t>(block_shape(table.table_blocks).weights), out);
  for (size_t c = 0; c < columns; ++c) out[c] *= scale;
}

}  // namespace

Status embed(Context* context, const EmbedParams* params) {
  const Weight& table = *params->table;
  if (!table.is_table) {
    return failed(Status::invalid_argument, "embed: the weight is not an embedding table");
  }
  for (int32_t t = 0; t < params->num_tokens; ++t) {
    const int32_t id = params->token_ids[t];
    if (id >= 0 && id < table.table_rows - params->first_row) continue;
    return failed(Status::invalid_argument, "embed: token id %d of a vocabulary of %d", id,
                  table.table_rows - params->first_row);
  }
  const size_t row_bytes = at(table.num_out, static_cast<int32_t>(dtype_bytes(table.table_dtype)));
  const auto* data = table.table_data.as<uint8_t>();
  share_work(context, params->num_tokens, table.num_out, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const auto row = static_cast<size_t>(params->token_ids[t] + params->first_row);
      if (table.table_blocks != BlockType::none) {
        embed_blocks(table, row, params->scale, params->hidden + at(t, table.num_out));
        continue;
      }
      context->device->isa.embed_row(table.table_dtype, data + row * row_bytes, table.num_out, params->scale,
                                     params->hidden + at(t, table.num_out));
    }
  });
  return Status::ok;
}

Status norm(Context* context, const NormParams* params) {
  NormRow row;
  row.kind = params->kind;
  row.weight = params->weight;
  row.bias = params->bias;
  row.epsilon = params->epsilon;
  row.columns = params->columns;
  row.accumulate = params->residual != nullptr;
  const int32_t stride = params->input_stride != 0 ? params->input_stride : params->columns;
  float* output = row.accumulate ? params->residual : params->output_f32;
  if (output == nullptr) output = static_cast<float*>(params->output);
  share_work(context, params->rows, 3 * int64_t{params->columns}, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t source = params->row_index != nullptr ? params->row_index[r] : r;
      context->device->isa.norm_row(row, params->input + at(source, stride), output + at(r, params->columns));
    }
  });
  return Status::ok;
}

// The angle is rounded to f32 before cosine and sine are computed, as in the training of the models.
Status rope_angles(Context* context, const RopeAnglesParams* params) {
  const int32_t half = params->rotary_dim / 2;
  share_work(context, params->num_tokens, 64 * int64_t{half}, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const auto position = static_cast<float>(params->positions[t]);
      for (int32_t i = 0; i < half; ++i) {
        const float angle = position * params->inv_freq[i];
        params->cos[at(t, half) + static_cast<size_t>(i)] = std::cos(angle) * params->magnitude;
        params->sin[at(t, half) + static_cast<size_t>(i)] = std::sin(angle) * params->magnitude;
      }
    }
  });
  return Status::ok;
}

Status activation(Context* context, const ActivationParams* params) {
  const auto* input = static_cast<const float*>(params->input);
  auto* output = static_cast<float*>(params->output);
  const int32_t columns = params->intermediate;
  share_work(context, params->rows, 4 * int64_t{columns}, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* gate = input + at(r, params->gated ? 2 * columns : columns);
      const float* up = params->gated ? gate + columns : nullptr;
      context->device->isa.activate(*params, gate, up, output + at(r, columns));
    }
  });
  return Status::ok;
}

Status scale_logits(Context* context, float* logits, int64_t count, float scale, float softcap) {
  constexpr int64_t kUnit = 4096;
  const int64_t units = (count + kUnit - 1) / kUnit;
  share_work(context, units, 4 * kUnit, [&](int32_t, int64_t first, int64_t last) {
    const int64_t end = last * kUnit < count ? last * kUnit : count;
    context->device->isa.scale_logits(logits + first * kUnit, end - first * kUnit, scale, softcap);
  });
  return Status::ok;
}

// The host samples, since it has the logits already.
Status sample(Context*, const SampleParams*) {
  return failed(Status::unsupported, "the CPU backend does not sample; sample on the host");
}

Status wait_for_draws(Context* context, const SampleOutcome*) {
  return sample(context, nullptr);
}

}  // namespace quire::kernels::cpu_entries
