// The seam by which a forward pass asks, between two blocks of a layer, whether it is to go on.
#pragma once

namespace quire {

// A device that computes within the call asks; one that only takes work in does not.
class StepBreaks {
 public:
  virtual ~StepBreaks() = default;
  // May wait while another cache computes. Throws an Error with ErrorCode::cancelled where the step is to be
  // given up.
  virtual void take_break() = 0;
};

}  // namespace quire
