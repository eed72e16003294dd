// Drafts of a draft network: its rows of each step, and its proposals.
//
// The network keeps its keys and values on the pages of the lanes, under the same positions. So it follows
// every step: it computes the rows of the tokens that the step has added to the pages, also of jobs that
// draft nothing, because other jobs may find those pages by their prefix. Proposals depend on these rows and
// never on other jobs. Whatever the network has missed, only makes proposals worse.
#pragma once

#include <functional>
#include <vector>

#include "core/engine/jobs/job_record.h"
#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/token_sampling.h"
#include "core/engine/loop/trial.h"
#include "core/step/draft_network.h"
#include "core/step/step_plan.h"

namespace quire {

// Not thread-safe.
class NetworkDrafting {
 public:
  // `num_tokens`: number of valid token ids.
  NetworkDrafting(DraftNetwork& network, LiveJobs& jobs, TokenSampling& sampling, int32_t num_tokens);

  bool reads_states() const { return network_.limits().reads_states; }
  // True if the network has computed the rows of all tokens of a job.
  bool has_read(const JobRecord& job) const {
    return job.lane.num_followed >= job.num_tokens() - (reads_states() ? 1 : 0);
  }
  // Computes the network's rows of a step. Called when the step is verified and its pages are committed, but
  // not its tokens. `batch` is that of the step. If `drafts`, `propose` will be called.
  void follow(const StepPlan& plan, const Batch& batch, bool drafts);
  // Returns the number of rows that `follow` has computed.
  int32_t num_rows() const { return batch_.num_tokens(); }
  // Returns the number of passes of the last proposals, beside that of `follow`.
  int32_t num_passes() const { return num_passes_; }
  // Forgets the jobs of the last step. Called before each step, and if `follow` failed.
  void abandon() noexcept { draftees_.clear(); }
  // Fills in the proposals of the jobs whose rows the network knows up to their last token. Called after the
  // tokens of the step were committed. num_drafts returns how many tokens a job wants.
  void propose(const std::function<int32_t(const JobRecord&)>& num_drafts);

 private:
  // A job in the step that the network has followed up to its end.
  struct Draftee {
    JobRecord* job = nullptr;
    int32_t num_tokens = 0;  // of the job after the step
    int32_t num_drafts = 0;  // that it may have
    int32_t position = 0;    // of its last row
    int32_t row = 0;         // logit row of that row in the network's last pass
    int32_t draw_idx = -1;   // in the draws of the pass; -1: the host draws
    Trial* trial = nullptr;  // accepts what was proposed
  };

  void begin_pass();
  void add_lane(const PlannedLane& planned, bool drafts);
  int32_t first_row_of(const PlannedLane& planned) const;
  void add_row(TokenId token, int32_t position);
  void end_sequence(SequenceId sequence);
  void compute();
  void settle();
  void choose_draftees(const std::function<int32_t(const JobRecord&)>& num_drafts);
  Drawn draw();
  // Appends the drawn token to the proposal of a job. Returns false if the proposal ends.
  bool take(Draftee& draftee, const Drawn& drawn);
  SampledToken drawn_token(const Draftee& draftee, const Drawn& drawn);
  void go_on();
  gsl::span<const float> row_of(const Drawn& drawn, int32_t row);

  DraftNetwork& network_;
  LiveJobs& jobs_;
  TokenSampling& sampling_;
  const int32_t num_tokens_;
  int32_t num_passes_ = 0;
  Batch batch_;
  DraftStates states_;
  DeviceDraws draws_;
  std::vector<SequenceId> sequences_;  // of the pass
  std::vector<Draftee> draftees_;
  std::vector<float> mapped_;  // logits of all tokens, from those of a smaller vocabulary
};

}  // namespace quire
