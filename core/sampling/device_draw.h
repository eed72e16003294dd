// A draw in the terms of a backend's `sample`: the same settings, random bits and order of cuts as the
// sampler's, so that it is the same token wherever it is drawn.
#pragma once

#include "core/sampling/sampler.h"
#include "core/step/batch.h"

namespace quire {

// Appends to `draws` what draws as `request` asks, whose logits are the batch's logit row `logit_row` and
// need not be there yet. False, with nothing appended, where only the sampler can: settings that are not
// plain, DRY, the most likely tokens, penalties that fade, or more than max_edits edits in all. The mask of
// `request` is borrowed.
bool add_device_draw(const SampleRequest& request, int32_t logit_row, int32_t max_edits, DeviceDraws& draws);

// What the sampler would have given; `probability` is 0.
SampledToken sampled_by_device(const kernels::SampleOutcome& outcome);

}  // namespace quire
