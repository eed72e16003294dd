// Models that do not fit together within a limit of the process or of its control group: each load succeeds
// or fails with an error, and the process survives. Each case runs in its own process.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// About 620 and 700 MB of weights. The embedding table exists twice while it is prepared. Threads and the
// heap take little in comparison.
constexpr const char* kSmall = "synthetic:llama-3.2-1b,format=exl2,bits=4,head_bits=2,layers=1";
constexpr const char* kLarge = "synthetic:llama-3.2-1b,format=gptq,layers=1";
constexpr uint64_t kRoom = 1260000000;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}
void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

uint64_t vm_size() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_addresses() {
  const rlimit limit{vm_size() + kRoom, RLIM_INFINITY};
  require(::setrlimit(RLIMIT_AS, &limit) == 0, "no limit can be set");
}

// The result of a load.
struct Load {
  OwnedModel model;
  int32_t code = 0;
  std::string message;
};
Load load(quire_runtime* runtime, const char* path) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  quire_model_options_set_path(options.get(), path, std::string_view(path).size(), nullptr);
  Report report;
  Load done;
  done.model =
      OwnedModel(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  if (!done.model) {
    done.code = report.code();
    done.message = report.message();
  }
  return done;
}

int32_t state_of(const Load& load) {
  return quire_model_state(load.model.get(), nullptr);
}

// A model with a running job.
struct Busy {
  explicit Busy(const Load& load) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(options.get(), 4096, nullptr);
    quire_cache_options_set_max_chunk_tokens(options.get(), 16, nullptr);
    quire_cache_options_set_max_batch_size(options.get(), 1, nullptr);
    Report report;
    cache = OwnedCache(quire_cache_create(load.model.get(), options.get(), report.out()));
    require(static_cast<bool>(cache), report.message());
    const OwnedRequest request(quire_job_request_create(nullptr));
    const std::vector<int32_t> prompt(8, 7);
    quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
    quire_job_request_set_max_new_tokens(request.get(), 4000, nullptr);
    quire_job_request_set_ignore_eos(request.get(), 1, nullptr);
    job = OwnedJob(quire_job_submit(cache.get(), request.get(), report.out()));
    require(static_cast<bool>(job), report.message());
    while (quire_job_new_tokens(job.get(), nullptr) == 0 && quire_job_error_code(job.get(), nullptr) == 0)
      std::this_thread::yield();
    require(quire_job_new_tokens(job.get(), nullptr) > 0, "the job does not begin");
  }
  OwnedCache cache;
  OwnedJob job;
};

// A model without jobs is evicted. A model with a job stays, and the other load is refused.
void load_in_order(const char* first, const char* second) {
  const OwnedRuntime runtime = make_runtime();
  const Load one = load(runtime.get(), first);
  require(static_cast<bool>(one.model), one.message);
  {
    const Busy busy(one);
    const Load refused = load(runtime.get(), second);
    require(!refused.model, std::string(second) + " was loaded in addition to the other");
    require(refused.code == QUIRE_ERROR_OUT_OF_MEMORY, refused.message);
    for (const char* part : {second, "bytes of cpu", "left", first})
      require(refused.message.find(part) != std::string::npos,
              refused.message + ": the message does not contain " + part);
  }
  const Load other = load(runtime.get(), second);
  require(static_cast<bool>(other.model), other.message);
  require(state_of(one) == QUIRE_MODEL_STATE_STANDING_BY, "both models are resident");
  require(state_of(other) == QUIRE_MODEL_STATE_RESIDENT, "the model is not resident");
}

void load_at_once() {
  const OwnedRuntime runtime = make_runtime();
  Load small, large;
  std::thread other([&] { large = load(runtime.get(), kLarge); });
  small = load(runtime.get(), kSmall);
  other.join();
  int num_resident = 0;
  for (const Load* of : {&small, &large}) {
    require(of->model || of->code == QUIRE_ERROR_OUT_OF_MEMORY, of->message);
    if (of->model && state_of(*of) == QUIRE_MODEL_STATE_RESIDENT) ++num_resident;
  }
  require(num_resident == 1, small.message + "; " + large.message);
}

// Most pages of a cache are not written before jobs come.
void make_caches_until_refused() {
  const OwnedRuntime runtime = make_runtime();
  const Load one = load(runtime.get(), kSmall);
  require(static_cast<bool>(one.model), one.message);
  std::vector<OwnedCache> caches;
  Report report;
  for (int i = 0; i < 100; ++i) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(options.get(), 65536, nullptr);
    quire_cache_options_set_max_chunk_tokens(options.get(), 16, nullptr);
    OwnedCache cache(quire_cache_create(one.model.get(), options.get(), report.out()));
    if (!cache) {
      require(i > 0, "there is no first cache: " + report.message());
      require(report.code() == QUIRE_ERROR_OUT_OF_MEMORY, report.message());
      require(report.message().find("the cache of") != std::string::npos, report.message());
      return;
    }
    caches.push_back(std::move(cache));
  }
  fail("a hundred caches fit");
}

// Runs the body in a child process; the exit status is 0 if it found no fault.
using Body = void (*)();
int run_in_child(const std::function<void()>& before, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    before();
    body();
    std::_Exit(0);
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// A control group with a limit for this test. Has no path if this process may not create one.
class ControlGroup {
 public:
  ControlGroup() {
    for (const auto& [mount, limit] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                       std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      path_ = std::string(mount) + "/quire-test-" + std::to_string(::getpid());
      if (::mkdir(path_.c_str(), 0755) != 0) continue;
      std::ofstream file(path_ + "/" + limit);
      if (file << kRoom << std::flush) return;
      ::rmdir(path_.c_str());
    }
    path_.clear();
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void enter(const std::string& group) {
  std::ofstream file(group + "/cgroup.procs");
  require(static_cast<bool>(file << ::getpid() << std::flush), "cannot enter " + group);
}

class MemoryLimits : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef QUIRE_SANITIZED
    GTEST_SKIP() << "sanitizers reserve their own addresses and memory";
#endif
  }
};

constexpr Body kSmallFirst = [] { load_in_order(kSmall, kLarge); };
constexpr Body kLargeFirst = [] { load_in_order(kLarge, kSmall); };

TEST_F(MemoryLimits, AddressLimitsHoldForLoadsInAnyOrder) {
  for (const Body body : {kSmallFirst, kLargeFirst, Body(load_at_once)})
    EXPECT_EQ(run_in_child(limit_addresses, body), 0);
}

TEST_F(MemoryLimits, AddressLimitsHoldForCaches) {
  EXPECT_EQ(run_in_child(limit_addresses, make_caches_until_refused), 0);
}

// The kernel kills a process that exceeds this limit.
TEST_F(MemoryLimits, ControlGroupLimitsHold) {
  const ControlGroup group;
  if (group.path().empty()) GTEST_SKIP() << "this process may not make a control group";
  const auto enter_group = [&] { enter(group.path()); };
  for (const Body body : {kSmallFirst, kLargeFirst, Body(load_at_once), Body(make_caches_until_refused)})
    EXPECT_EQ(run_in_child(enter_group, body), 0);
}

}  // namespace
}  // namespace quire::testing
