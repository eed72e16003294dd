// Launches of the kernels for pages of the KV cache (paged attention).
#pragma once

#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/attention_shape.h"
#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/cuda/plan/shared_pages.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/host_and_device.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

struct Device;

constexpr int kTileRows = 16;  // (token, head of a GQA group) rows of one tensor-core tile
// Returns the rows of the tiles that one token needs, for that many heads in a GQA group.
QUIRE_HOST_AND_DEVICE constexpr int rows_of_token(int group) {
  return (group + kTileRows - 1) / kTileRows * kTileRows;
}
constexpr uint32_t kBlockReserve = 1536;  // bytes of shared memory that a block uses besides its dynamic ones

// Returns how many blocks the card runs at once (occupancy), given the shared memory of a block. `most` is
// the limit per multiprocessor for other reasons.
inline int blocks_at_once(const CardLimits& card, uint32_t shared_bytes, int most) {
  const auto resident = static_cast<int>(card.shared_per_multiprocessor / (shared_bytes + kBlockReserve));
  return card.num_multiprocessors * std::max(1, std::min(most, resident));
}

struct AttentionScratch {
  float* partials = nullptr;  // [tile, chunk, used rows of a tile ..]: see attention_decode.cu
  size_t partial_floats = 0;
  uint32_t* counters = nullptr;  // zero before and after
  int32_t num_counters = 0;
};

// Resources for splitting a launch over more blocks.
struct SplitResources {
  const Device* device = nullptr;
  const AttentionScratch* scratch = nullptr;
  int max_chunks = 0;  // upper bound for the chunks of any sequence of the step
};

cudaError_t launch_append(const AppendKvParams& params, Launch launch);
// Appends with the norms, values and queries that only few model families use; appends_rows returns true for
// those.
bool appends_rows(const AttentionSpec& spec);
cudaError_t launch_append_rows(const AppendKvParams& params, Launch launch);
cudaError_t launch_copy_page(const CopyPageParams& params, Launch launch);

// Pages of the step that several sequences share, in device memory (SharedPages), and the page table in which
// they were found.
struct SharedKeys {
  const int32_t* members = nullptr;
  const int32_t* page_counts = nullptr;
  const SharedPage* pages = nullptr;
  int32_t num_pages = 0;  // 0: none
  const int32_t* page_table = nullptr;
};

constexpr int kMaxDraftRows = 4 * kTileRows;  // of a job with draft tokens, in launch_attention_decode
// Returns the largest number of rows of a sequence that launch_attention_decode handles in this step:
// kMaxDraftRows if no sequence has more, otherwise rows_of_token.
int few_rows(const AttentionParams& params);
// Attention for sequences with few rows; launch_attention_prefill handles the others. `place`
// [num_heads * head_dim] is the position of each output column, or nullptr. `max_chunks` is an upper bound
// for the chunks of any sequence of the step. `shared` may be nullptr; its keys are read once for all
// sequences that share them, by a separate kernel before this one. If `append` is given, the kernel also
// writes the tokens' keys and values to the cache, as launch_attention_single does; only if appends_drafts is
// true.
bool decode_fits(const AttentionParams& params, int max_chunks, const AttentionScratch& scratch);
// appends_drafts returns true for steps whose append the kernel can do.
bool appends_drafts(const AttentionParams& params, const Device& device);
cudaError_t launch_attention_decode(const AttentionParams& params, const AppendKvParams* append,
                                    const int32_t* place, const SplitResources& room,
                                    const SharedKeys* shared, Launch launch);
// Attention for steps in which every sequence has one token, for common head sizes and formats. If `append`
// is given, the kernel also writes the tokens' keys and values to the cache, and reads the queries of qkv as
// the projection wrote them. In that case the pages must not have been written since bind_batch.
bool single_fits(const AttentionParams& params, const SplitResources& room);
cudaError_t launch_attention_single(const AttentionParams& params, const AppendKvParams* append,
                                    const int32_t* place, int max_chunks, const AttentionScratch& scratch,
                                    const SharedKeys* shared, const Device& device, Launch launch);
// Returns true if the two launches above may be given `shared`: F16 keys that are in the cache already, of
// sequences with one token each, on a card with enough shared memory.
bool shares_keys(const AttentionParams& params, const SharedKeys& shared, const CardLimits& card);
// `all`: include the sequences with few rows.
cudaError_t launch_attention_prefill(const AttentionParams& params, const int32_t* place, bool all,
                                     const SplitResources& room, Launch launch);
// Prefill for common head sizes and at least half a block of rows, on devices with warpgroup_products.
bool warpgroup_fits(const AttentionParams& params);
cudaError_t launch_attention_warpgroup(const AttentionParams& params, const int32_t* place, bool all,
                                       const SplitResources& room, Launch launch);

// Attention with features that only few model families use, for any heads, pages and masks.
// uses_attention_any returns true for those, and for heads that are too large for the card's shared memory.
bool uses_attention_any(const AttentionSpec& spec, const CardLimits& card);
cudaError_t launch_attention_any(const AttentionParams& params, Launch launch);
cudaError_t launch_select_keys(const SelectKeysParams& params, Launch launch);

// Called once per device, with the device current: load the kernels onto the card and allow the shared memory
// that they use.
cudaError_t setup_append();
cudaError_t setup_append_rows(int shared_limit);
cudaError_t setup_attention_any();
cudaError_t setup_attention_decode(int shared_limit);
cudaError_t setup_attention_shared(int shared_limit);
cudaError_t setup_attention_single(int shared_limit);
cudaError_t setup_attention_prefill(int shared_limit);
cudaError_t setup_select_keys();
// Sets `available` to whether the library contains that kernel for this card.
cudaError_t setup_attention_warpgroup(bool* available);

}  // namespace quire::kernels
