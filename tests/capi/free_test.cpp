// Freeing a handle never waits for a step, except freeing a cache whose handle is the last one, as its header
// declares. A fake device blocks within a step, and every free function is called in the meantime.
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include "capi/src/cache_object.h"
#include "capi/src/job_object.h"
#include "tests/capi/capi_fixture.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr auto kPatience = std::chrono::minutes(1);

// A step that begins and blocks until it is released. After kPatience it gives up, so that a free that waits
// for it is detected.
class StandingStep {
 public:
  void stand() {
    std::unique_lock lock(mutex_);
    begun_ = true;
    changed_.notify_all();
    given_up_ = !changed_.wait_for(lock, kPatience, [this] { return let_go_; });
  }
  bool begins() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return begun_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }
  bool given_up() {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  bool let_go_ = false;
  bool given_up_ = false;
};

// A quire_cache with one job, on a fake device whose first step blocks.
class FreeTest : public ::testing::Test {
 protected:
  FreeTest() {
    FakeEngineOptions options;
    options.cache.close_timeout = std::chrono::hours(1);
    options.cache.watchdog_timeout = std::chrono::hours(1);
    FakeEngine engine(options);
    // Destroyed with the executor, which the engine destroys last.
    const std::shared_ptr<void> engine_end(nullptr, [this](void*) { engine_ended_.set_value(); });
    engine.executor->before_step = [this, engine_end](const Batch&) { step.stand(); };
    capi::CacheShare share{capi::Pinned(model.get(), "model")->share, engine.cache, QUIRE_KV_F16, {}};
    engine.cache.reset();
    cache = OwnedCache(capi::make_handle<quire_cache>(capi::share_cache(std::move(share))));
    const OwnedRequest request = make_request("abc", 8);
    const int32_t prompt[] = {1, 2, 3};
    quire_job_request_set_prompt_tokens(request.get(), prompt, 3, nullptr);
    quire_job_request_set_queue(request.get(), queue.get(), nullptr);
    job = OwnedJob(quire_job_submit(cache.get(), request.get(), nullptr));
  }

  bool engine_ends() { return engine_end_.wait_for(kPatience) == std::future_status::ready; }
  bool engine_has_ended() {
    return engine_end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  StandingStep step;
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get());
  OwnedQueue queue{quire_queue_create(runtime.get(), nullptr)};
  OwnedCache cache;
  OwnedJob job;

 private:
  std::promise<void> engine_ended_;
  std::future<void> engine_end_ = engine_ended_.get_future();
};

TEST_F(FreeTest, NoFreeWaitsForAStepWhileAJobLives) {
  ASSERT_TRUE(job);
  ASSERT_TRUE(step.begins());
  const OwnedRequest as_parent(quire_job_request_create(nullptr));
  quire_job_request_set_max_new_tokens(as_parent.get(), 4, nullptr);
  OwnedJob fork(quire_job_fork(job.get(), as_parent.get(), nullptr));
  ASSERT_TRUE(fork) << "the request for a fork does not wait either";
  OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
  ASSERT_TRUE(stats);
  stats.reset();
  fork.reset();
  queue.reset();
  model.reset();
  runtime.reset();
  cache.reset();
  EXPECT_FALSE(engine_has_ended());
  job.reset();  // the last handle of the cache
  EXPECT_FALSE(engine_has_ended()) << "the step is blocked: the engine ends after it";
  EXPECT_FALSE(step.given_up()) << "a free waited for the step";
  step.let_go();
  EXPECT_TRUE(engine_ends());
}

// A caller inside a call while the handle is freed destroys the object, and does not wait either.
TEST_F(FreeTest, ACallThatOutlivesTheLastHandleDoesNotWait) {
  ASSERT_TRUE(step.begins());
  cache.reset();
  {
    const capi::Pinned<quire_job> call(job.get(), "job");
    job.reset();
  }
  EXPECT_FALSE(step.given_up());
  step.let_go();
  EXPECT_TRUE(engine_ends());
}

TEST_F(FreeTest, FreeingACacheWaitsIfItIsTheLastHandle) {
  ASSERT_TRUE(step.begins());
  job.reset();
  std::future<void> freed = std::async(std::launch::async, [this] { cache.reset(); });
  EXPECT_FALSE(engine_has_ended());
  step.let_go();
  freed.get();
  EXPECT_TRUE(engine_has_ended()) << "its memory is back when the call returns";
}

}  // namespace
}  // namespace quire::testing
