// One line about a job for a person: why it waits, what it does and what slows it, or how it ended.
#pragma once

#include <string>

#include "core/engine/jobs/job_channel.h"

namespace quire {

// What is known of a job at one moment.
struct JobView {
  JobState state = JobState::queued;
  JobResult result;
  int32_t computed_tokens = 0;
  int32_t batch_jobs = 0;  // sequences of the last step, the job's own included
  bool gave_room = false;
  bool reader_behind = false;  // it waits for its reader
  WaitReason wait;
  WaitReason wait_in_front;  // of the job that wait.in_front names
};

// Numbers and names of ours; no text of a prompt or a result.
std::string explain(const JobView& job);

}  // namespace quire
