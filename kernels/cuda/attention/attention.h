// Cache pages and attention over them.
#pragma once

#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/cuda/plan/shared_pages.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

struct Device;

constexpr int kTileRows = 16;             // (token, head of a group) rows of one tensor-core tile
constexpr uint32_t kBlockReserve = 1536;  // of shared memory: what a block has beside what it asks for

// Blocks that ask for so much, of which a multiprocessor takes no more than `most` for other reasons, that
// the card takes at a time.
inline int blocks_at_once(const CardLimits& card, uint32_t shared_bytes, int most) {
  const auto resident = static_cast<int>(card.shared_per_multiprocessor / (shared_bytes + kBlockReserve));
  return card.num_multiprocessors * std::max(1, std::min(most, resident));
}

struct AttentionScratch {
  float* partials = nullptr;  // [tile, chunk, rows of a tile that are used..]: see attention_decode.cu
  size_t partial_floats = 0;
  uint32_t* counters = nullptr;  // zero before and after
  int32_t num_counters = 0;
};

// What a launch may share its work out to.
struct AttentionRoom {
  const Device* device = nullptr;
  const AttentionScratch* scratch = nullptr;
  int max_chunks = 0;  // bounds those of any sequence of the step
};

cudaError_t launch_append(const AppendKvParams& params, Launch launch);
// The same for what few families ask of norms, values and queries; appends_rows tells these.
bool appends_rows(const AttentionSpec& spec);
cudaError_t launch_append_rows(const AppendKvParams& params, Launch launch);
cudaError_t launch_copy_page(const CopyPageParams& params, Launch launch);

// Pages of the step that several sequences read together, in device memory (SharedPages), and the page table
// that they were found in.
struct SharedKeys {
  const int32_t* members = nullptr;
  const int32_t* page_counts = nullptr;
  const SharedPage* pages = nullptr;
  int32_t num_pages = 0;  // 0: none
  const int32_t* page_table = nullptr;
};

// `place` [num_heads * head_dim] or nullptr: where each output column goes. `max_chunks` bounds the chunks of
// any sequence of the step. Sequences with more rows than a tile are left to launch_attention_prefill, and
// the others to this.
// `shared`, or nullptr: its keys are read once for all sequences that have them, by a kernel before.
bool decode_fits(const AttentionParams& params, int max_chunks, const AttentionScratch& scratch);
cudaError_t launch_attention_decode(const AttentionParams& params, const int32_t* place, int max_chunks,
                                    const AttentionScratch& scratch, const SharedKeys* shared, Launch launch);
// The same for a step in which every sequence has one token, for usual head sizes and formats. Where `append`
// is given the tokens' keys and values are written to the cache on the way, and the queries of qkv are as the
// matrix left them; the pages must not have been written to since the batch was placed.
bool single_fits(const AttentionParams& params, int max_chunks, const AttentionScratch& scratch);
cudaError_t launch_attention_single(const AttentionParams& params, const AppendKvParams* append,
                                    const int32_t* place, int max_chunks, const AttentionScratch& scratch,
                                    const SharedKeys* shared, const Device& device, Launch launch);
// Whether the two above may be given `shared`: keys of F16 pages that are in the cache before, of sequences
// that have one token each.
bool shares_keys(const AttentionParams& params, const SharedKeys& shared);
// `all`: also the sequences that fit a tile.
cudaError_t launch_attention_prefill(const AttentionParams& params, const int32_t* place, bool all,
                                     const AttentionRoom& room, Launch launch);
// The same for usual head sizes and at least half a block of rows, where the device has warpgroup_products.
bool warpgroup_fits(const AttentionParams& params);
cudaError_t launch_attention_warpgroup(const AttentionParams& params, const int32_t* place, bool all,
                                       const AttentionRoom& room, Launch launch);

// For what few families ask: any heads, pages and masks; takes_attention_any tells
// these.
bool takes_attention_any(const AttentionSpec& spec);
cudaError_t launch_attention_any(const AttentionParams& params, Launch launch);
cudaError_t launch_select_keys(const SelectKeysParams& params, Launch launch);

// Once per device, with the device current: kernels go to the card, and may have the shared memory that they
// ask for.
cudaError_t setup_append();
cudaError_t setup_append_rows(int shared_limit);
cudaError_t setup_attention_any();
cudaError_t setup_attention_decode();
cudaError_t setup_attention_shared();
cudaError_t setup_attention_single(int shared_limit);
cudaError_t setup_attention_prefill();
cudaError_t setup_select_keys();
// Tells whether the library has that kernel for this card.
cudaError_t setup_attention_warpgroup(bool* available);

}  // namespace quire::kernels
