// Simple version of a backend's `sample`, by the definition of its interface, with full sorting.
#pragma once

#include <gsl/gsl>

#include "kernels/interface/op_params.h"

namespace quire::testing {

// `row` has the valid logits; `edits` are those of all rows. The mask is ignored.
kernels::SampleOutcome slow_draw(gsl::span<const float> row, const kernels::SampleRow& draw,
                                 gsl::span<const kernels::LogitEdit> edits);

}  // namespace quire::testing
