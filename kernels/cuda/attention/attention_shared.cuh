// The launch for keys that several sequences share, as the launches that merge its results give it.
#pragma once

#include "kernels/cuda/attention/attention_merge.cuh"

namespace quire::kernels {

struct SharedArguments {
  AttentionParams p;
  SharedKeys shared;
  MergeArguments merge;
  int32_t lanes_columns;  // partial rows are as ColumnsOfLanes has them
};

cudaError_t launch_attention_shared(const SharedArguments& arguments, Launch launch);

}  // namespace quire::kernels
