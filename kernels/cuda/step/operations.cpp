// The primitive entries of the table: they check shapes and launch kernels.
#include <algorithm>

#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/step/context.h"
#include "kernels/cuda/weights/block_repack.h"

namespace quire::kernels {
namespace {

Status check(Context& c, cudaError_t error, const char* doing) {
  return c.device->check(error, doing);
}

// Returns true if the cache kernels support these heads.
bool heads_fit(const HeadShape& heads, const KvShape& kv) {
  const bool quantized = kv.key_format >= KvFormat::q8 || kv.value_format >= KvFormat::q8;
  const int32_t values = value_dim(heads);
  return heads.head_dim > 0 && heads.head_dim <= 256 && values > 0 && values <= 256 &&
         heads.num_kv_heads > 0 && heads.num_heads % heads.num_kv_heads == 0 && kv.page_tokens > 0 &&
         (!quantized || (heads.head_dim % 64 == 0 && values % 64 == 0));
}

StoredBlocks stored_table(const Weight& table) {
  StoredBlocks stored;
  stored.type = table.table_blocks;
  stored.rows = static_cast<const uint8_t*>(table.table);
  stored.row_bytes = block_row_bytes(table.table_blocks, table.num_columns);
  stored.grid = table.table_grid;
  stored.num_rows = table.num_columns;
  stored.num_columns = table.num_rows;
  return stored;
}

}  // namespace

Status embed(Context* context, const EmbedParams* params) {
  Context& c = *context;
  if (params->num_tokens <= 0) return Status::ok;
  const Weight& table = *params->table;
  if (table.table == nullptr)
    return c.device->fail(Status::invalid_argument, "embed: the weight is not an embedding table");
  if (table.table_blocks != BlockType::none)
    return check(c, launch_embed_blocks(*params, stored_table(table), c.launch()), "embedding");
  return check(c, launch_embed(*params, table.table, table.table_dtype, table.num_columns, c.launch()),
               "embedding");
}

Status norm(Context* context, const NormParams* params) {
  if (params->rows <= 0) return Status::ok;
  return normalize(*context, *params, nullptr);
}

Status linear(Context* context, const LinearParams* params) {
  if (params->rows <= 0) return Status::ok;
  return multiply(*context, *params, {});
}

Status rope_angles(Context* context, const RopeAnglesParams* params) {
  if (params->num_tokens <= 0 || params->rotary_dim <= 0) return Status::ok;
  return check(*context, launch_rope_angles(*params, context->launch()), "computing rotary angles");
}

Status append_kv(Context* context, const AppendKvParams* params) {
  if (params->batch.num_tokens <= 0) return Status::ok;
  if (!heads_fit(params->heads, params->kv_shape))
    return context->device->fail(Status::unsupported,
                                 "attention: heads of this size are not supported with this cache format");
  const auto launch = appends_rows(*params) ? launch_append_rows : launch_append;
  return check(*context, launch(*params, context->launch()), "appending to the cache");
}

namespace {

int32_t most_chunks(const AttentionParams& p) {
  const int32_t chunks = (p.batch.max_kv_tokens + kChunkTokens - 1) / kChunkTokens;
  if (p.sliding_window <= 0) return chunks;
  return std::min(chunks,
                  (p.sliding_window + p.batch.max_query_tokens + kChunkTokens - 1) / kChunkTokens + 1);
}

// Split a step into its leading sequences with one token each, and the rest. Tokens keep their rows.
AttentionParams singles_of(const AttentionParams& p) {
  AttentionParams first = p;
  first.batch.num_tokens = first.batch.num_sequences = p.batch.num_single;
  first.batch.max_query_tokens = 1;
  return first;
}
AttentionParams without_singles(const AttentionParams& p) {
  AttentionParams rest = p;
  const int32_t gone = p.batch.num_single;
  rest.batch.num_single = 0;
  rest.batch.num_tokens -= gone;
  rest.batch.num_sequences -= gone;
  rest.batch.sequence_starts += gone;
  rest.batch.kv_lengths += gone;
  rest.batch.page_table += static_cast<ptrdiff_t>(gone) * p.batch.page_table_stride;
  return rest;
}

}  // namespace

bool fuses_append(const Context& c, const AttentionParams& p) {
  if (p.batch.num_tokens <= 0 || !heads_fit(p.heads, p.kv_shape) || appends_rows(p) ||
      uses_attention_any(p, *c.device) || shares_keys(singles_of(p), c.shared, *c.device))
    return false;
  const SplitResources room{c.device, &c.attention, most_chunks(p)};
  return single_fits(p, room) ||
         (appends_drafts(p, *c.device) && decode_fits(p, room.max_chunks, c.attention));
}

Status attend(Context& c, const AttentionParams& p, const AppendKvParams* append, const int32_t* place) {
  if (p.batch.num_tokens <= 0) return Status::ok;
  if (!heads_fit(p.heads, p.kv_shape))
    return c.device->fail(Status::unsupported,
                          "attention: heads of this size are not supported with this cache format");
  if (uses_attention_any(p, *c.device)) return check(c, launch_attention_any(p, c.launch()), "attending");
  const int32_t max_chunks = most_chunks(p);
  const SplitResources room{c.device, &c.attention, max_chunks};
  const SharedKeys* shared = shares_keys(p, c.shared, *c.device) ? &c.shared : nullptr;
  if (single_fits(p, room))
    return check(
        c, launch_attention_single(p, append, place, max_chunks, c.attention, shared, *c.device, c.launch()),
        "attending");
  if (p.batch.num_single > 0 && p.batch.num_single < p.batch.num_sequences) {
    const AttentionParams first = singles_of(p);
    if (single_fits(first, room) || shares_keys(first, c.shared, *c.device)) {
      const Status s = attend(c, first, append, place);
      return s == Status::ok ? attend(c, without_singles(p), append, place) : s;
    }
  }
  const int32_t group = p.heads.num_heads / p.heads.num_kv_heads;
  const bool splits = decode_fits(p, max_chunks, c.attention);
  const bool long_rows = p.batch.max_query_tokens * group > few_rows(p);
  // Every sequence of a step has at least one token: with one sequence its rows decide.
  if (splits && (!long_rows || p.batch.num_sequences > 1)) {
    const Status s =
        check(c, launch_attention_decode(p, append, place, room, shared, c.launch()), "attending");
    if (s != Status::ok || !long_rows) return s;
  }
  const auto launch_rows = c.device->warpgroup_products && warpgroup_fits(p) ? launch_attention_warpgroup
                                                                             : launch_attention_prefill;
  return check(c, launch_rows(p, place, !splits, room, c.launch()), "attending");
}

Status attention(Context* context, const AttentionParams* params) {
  return attend(*context, *params, nullptr, nullptr);
}

Status activation(Context* context, const ActivationParams* params) {
  if (params->rows <= 0) return Status::ok;
  return check(*context, launch_activation(*params, context->launch()), "applying an activation");
}

Status scale_logits(Context* context, float* logits, int64_t count, float scale, float softcap) {
  if (count <= 0) return Status::ok;
  return check(*context, launch_scale_logits(logits, count, scale, softcap, context->launch()),
               "scaling logits");
}

Status row_op(Context* context, const RowOpParams* params) {
  if (params->rows <= 0 || params->columns <= 0) return Status::ok;
  return check(*context, launch_row_op(*params, context->launch()), "changing rows");
}

Status expand_latent(Context* context, const ExpandLatentParams* params) {
  if (params->num_tokens <= 0) return Status::ok;
  return check(*context, launch_expand_latent(*params, context->launch()), "expanding keys and values");
}

Status select_keys(Context* context, const SelectKeysParams* params) {
  if (params->batch.num_tokens <= 0) return Status::ok;
  return check(*context, launch_select_keys(*params, context->launch()), "choosing keys");
}

Status mix_streams(Context* context, const MixStreamsParams* params) {
  if (params->tokens <= 0) return Status::ok;
  if (params->num_streams > kMostStreams)
    return context->device->fail(Status::unsupported, "mix_streams: more than 16 residual streams");
  return check(*context, launch_mix_streams(*params, context->launch()), "mixing residual streams");
}

Status collapse_streams(Context* context, const CollapseStreamsParams* params) {
  if (params->tokens <= 0) return Status::ok;
  if (params->num_streams > kMostConnectedStreams)
    return context->device->fail(Status::unsupported, "collapse_streams: more than 8 residual streams");
  return check(*context, launch_collapse_streams(*params, context->launch()), "reading residual streams");
}

Status expand_streams(Context* context, const ExpandStreamsParams* params) {
  if (params->tokens <= 0) return Status::ok;
  if (params->num_streams > kMostConnectedStreams)
    return context->device->fail(Status::unsupported, "expand_streams: more than 8 residual streams");
  return check(*context, launch_expand_streams(*params, context->launch()), "writing residual streams");
}

Status copy_page(Context* context, const CopyPageParams* params) {
  return check(*context, launch_copy_page(*params, context->launch()), "copying a page");
}

}  // namespace quire::kernels
