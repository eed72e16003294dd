#include "core/engine/residency/tenancy.h"

#include <utility>

#include <gsl/gsl>

#include "core/engine/loop/contain.h"

namespace quire {

Tenancy::Tenancy(std::shared_ptr<Residence> residence, std::shared_ptr<EngineSignal> signal,
                 Executor& executor)
    : residence_(std::move(residence)), signal_(std::move(signal)), executor_(executor) {
  if (residence_ != nullptr) residence_->add_listener(signal_);
}

Tenancy::~Tenancy() {
  leave();
  if (residence_ != nullptr) residence_->remove_listener(signal_.get());
}

bool Tenancy::can_compute(LiveJobs& jobs) {
  if (residence_ == nullptr) return true;
  if (jobs.empty()) {
    let_go();
    residence_->leave_if_idle(jobs.now());
    return true;
  }
  if (is_in_) return true;
  bool is_here = false;
  contain(
      "no memory to take the weights", [&] { is_here = come_in(jobs); },
      [&](ErrorCode code, std::string_view message) {
        if (code == ErrorCode::device_lost) throw Error(code, "{}", message);
        jobs.fail_all(code, message);
      });
  return is_here;
}

bool Tenancy::come_in(LiveJobs& jobs) {
  if (!residence_->enter(asked_)) {
    jobs.wait_for_model();
    return false;
  }
  is_in_ = true;
  const uint64_t num_wakes = residence_->figures().wakes;
  has_arrived_ = std::exchange(num_wakes_, num_wakes) != num_wakes;
  try {
    executor_.take_weights();
  } catch (...) {
    leave();
    throw;
  }
  return true;
}

void Tenancy::let_go() {
  if (residence_ != nullptr) residence_->withdraw(asked_);  // its jobs are gone
  if (!std::exchange(is_in_, false)) return;
  const auto left = gsl::finally([this] { residence_->leave(); });
  executor_.drop_weights();
}

void Tenancy::leave() noexcept {
  contain(
      "no memory", [this] { let_go(); }, [](ErrorCode, std::string_view) {});
}

TimePoint Tenancy::next_event() const {
  return residence_ == nullptr || is_in_ ? TimePoint::max() : residence_->idle_deadline();
}

}  // namespace quire
