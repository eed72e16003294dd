// What a backend's `sample` has to do, from the words of its interface: everything is sorted, nothing is
// clever.
#pragma once

#include <gsl/gsl>

#include "kernels/interface/op_params.h"

namespace quire::testing {

// `row` has the logits that count; `edits` are those of all rows. The mask is not looked at.
kernels::SampleOutcome slow_draw(gsl::span<const float> row, const kernels::SampleRow& draw,
                                 gsl::span<const kernels::LogitEdit> edits);

}  // namespace quire::testing
