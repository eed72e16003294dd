#include "core/engine/loop/weight_use.h"

#include <utility>

#include <gsl/gsl>

#include "core/base/contain.h"

namespace quire {

WeightUse::WeightUse(std::shared_ptr<WeightResidency> residency, std::shared_ptr<EngineSignal> signal,
                     Executor& executor)
    : residency_(std::move(residency)), signal_(std::move(signal)), executor_(executor) {
  if (residency_ != nullptr) residency_->add_listener(signal_);
}

WeightUse::~WeightUse() {
  leave();
  if (residency_ != nullptr) residency_->remove_listener(signal_.get());
}

bool WeightUse::can_compute(LiveJobs& jobs) {
  if (residency_ == nullptr) return true;
  if (jobs.empty()) {
    let_go();
    residency_->leave_if_idle(jobs.now());
    return true;
  }
  if (is_in_) return true;
  bool is_here = false;
  contain(
      "no memory to use the weights", [&] { is_here = come_in(jobs); },
      [&](ErrorCode code, std::string_view message) {
        if (code == ErrorCode::device_lost) throw Error(code, "{}", message);
        jobs.fail_all(code, message);
      });
  return is_here;
}

bool WeightUse::come_in(LiveJobs& jobs) {
  if (!residency_->enter(asked_)) {
    jobs.wait_for_model();
    return false;
  }
  is_in_ = true;
  const uint64_t num_wakes = residency_->figures().wakes;
  has_arrived_ = std::exchange(num_wakes_, num_wakes) != num_wakes;
  try {
    executor_.take_weights();
  } catch (...) {
    leave();
    throw;
  }
  return true;
}

void WeightUse::let_go() {
  if (residency_ != nullptr) residency_->withdraw(asked_);  // no job waits for the weights any more
  if (!std::exchange(is_in_, false)) return;
  const auto left = gsl::finally([this] { residency_->leave(); });
  executor_.drop_weights();
}

void WeightUse::leave() noexcept {
  contain(
      "no memory", [this] { let_go(); }, [](ErrorCode, std::string_view) {});
}

TimePoint WeightUse::next_event() const {
  return residency_ == nullptr || is_in_ ? TimePoint::max() : residency_->idle_deadline();
}

}  // namespace quire
