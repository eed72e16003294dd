// The launch for keys that several sequences share, as the launches that merge its results give it.
#pragma once

#include "kernels/cuda/attention/attention_merge.cuh"

namespace quire::kernels {

// Nothing where `shared` is null.
cudaError_t launch_attention_shared(const AttentionParams& params, const SharedKeys* shared,
                                    const MergeArguments& merge, Launch launch);

}  // namespace quire::kernels
