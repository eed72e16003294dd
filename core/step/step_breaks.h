// Interface through which a forward pass checks, between two blocks of a layer, whether it should pause or
// stop.
#pragma once

namespace quire {

class StepBreaks {
 public:
  virtual ~StepBreaks() = default;
  // Called at each break; returns whether to take it. A device that computes asynchronously is synchronized
  // first, so it takes few breaks.
  virtual bool is_due(bool computes_within_call) = 0;
  // May wait while another cache computes. Throws an Error with ErrorCode::cancelled if the step should be
  // aborted.
  virtual void pause_or_cancel() = 0;
};

}  // namespace quire
