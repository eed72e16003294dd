// Arguments of a forward pass that every layer needs.
#pragma once

#include <gsl/gsl>

#include "core/step/step_breaks.h"
#include "core/tensor/device.h"
#include "kernels/interface/op_params.h"
#include "kernels/interface/state_params.h"

namespace quire {

class ExpertSlots;

// Cosines and sines for the positions of a step, for one kind of rotary embedding.
struct RopeTables {
  float* cos = nullptr;
  float* sin = nullptr;
};

// Pages and recurrent states of one layer.
struct LayerCache {
  kernels::KvShape shape;
  kernels::KvLayer pages;
  int32_t table = 0;           // index of the layer's page table in the batch
  kernels::StateStore states;  // all slots of the layer; without memory: it has no state
};

// Borrowed for the duration of one forward pass. All arrays are in device memory.
struct ForwardPass {
  const DeviceContext& context;
  const kernels::BatchView& batch;
  const kernels::Workspace& workspace;
  gsl::span<const RopeTables> ropes;
  int32_t max_context = 0;  // tokens that the pages of a sequence hold
  int32_t max_seq_len = 0;  // tokens of the longest sequence allowed, at most max_context
  StepBreaks* breaks = nullptr;
  // Pass on the device of the host experts (FeedForwardBlock::on_host); nullptr: there are none.
  const ForwardPass* at_experts = nullptr;
  // On the pass of host experts: the card that multiplies them if they have many rows, and those in its slots
  // always; nullptr: none does, or it has no slots.
  const DeviceContext* card = nullptr;
  ExpertSlots* slots = nullptr;

  int32_t num_tokens() const { return batch.num_tokens; }
  kernels::DType activation_dtype() const { return context.table().activation_dtype; }
  void pause_or_cancel() const {
    if (breaks == nullptr || !breaks->is_due(context.device()->is_host())) return;
    int32_t paused = 0;
    context.check(context.table().pause_step(context.handle(), &paused), "pausing a step");
    if (paused == 0) return;
    breaks->pause_or_cancel();
    context.check(context.table().resume_step(context.handle()), "resuming a step");
  }
};

}  // namespace quire
