// The seam by which a forward pass asks, between two blocks of a layer, whether it is to go on.
#pragma once

namespace quire {

class StepBreaks {
 public:
  virtual ~StepBreaks() = default;
  // At each break: whether it is to be taken. A device that does not compute within the call is waited for
  // first, so it takes few of them.
  virtual bool is_due(bool computes_within_call) = 0;
  // May wait while another cache computes. Throws an Error with ErrorCode::cancelled where the step is to be
  // given up.
  virtual void take_break() = 0;
};

}  // namespace quire
