// Explains the state of a job in one line for people: why it waits, what slows it, or how it ended.
#pragma once

#include <string>

#include "core/engine/jobs/job_channel.h"

namespace quire {

// State of a job at one moment.
struct JobView {
  JobState state = JobState::queued;
  JobResult result;
  int32_t computed_tokens = 0;
  int32_t batch_jobs = 0;  // jobs in the batch of the last step, this one included
  bool was_preempted = false;
  bool reader_behind = false;  // backpressure: the job waits until its events are read
  WaitReason wait;
  WaitReason wait_in_front;  // reason why the job wait.in_front waits
  DraftReason drafts = DraftReason::not_generating;
};

// Returns one line with numbers and names only, without text of a prompt or a result.
std::string explain(const JobView& job);

}  // namespace quire
