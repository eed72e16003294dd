// Launch for keys that several sequences share, called by the launches that merge its results.
#pragma once

#include "kernels/cuda/attention/attention_merge.cuh"

namespace quire::kernels {

// Does nothing if `shared` is null.
cudaError_t launch_attention_shared(const AttentionParams& params, const SharedKeys* shared,
                                    const MergeArguments& merge, Launch launch);

}  // namespace quire::kernels
