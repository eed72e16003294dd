// Conversion of a draw to a backend's `sample`. It uses the same settings, random bits and order of cuts as
// the sampler, so the device draws the same token.
#pragma once

#include "core/sampling/sampler.h"
#include "core/step/batch.h"

namespace quire {

// Appends the draw described by `request` to `draws`, for the logit row `logit_row` of the batch, whose
// logits may not exist yet. Returns false and appends nothing if only the sampler on the host supports it:
// settings that are not plain, DRY, most likely tokens, penalties that fade, or more than max_edits edits in
// total. Borrows the mask of `request`.
bool add_device_draw(const SampleRequest& request, int32_t logit_row, int32_t max_edits, DeviceDraws& draws);

// Returns the result in the sampler's form; `probability` is 0.
SampledToken sampled_by_device(const kernels::SampleOutcome& outcome);

}  // namespace quire
