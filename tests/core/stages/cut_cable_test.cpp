// A cable that is cut: two network namespaces, of which the link goes down while jobs run. No packet reports
// it.
#include <cstdlib>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(2);

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// A pair of linked interfaces: one here, one in a namespace of its own.
class Cable {
 public:
  Cable() {
    is_laid_ = run("ip netns add " + name_) &&
               run("ip link add " + name_ + "h type veth peer name " + name_ + "s netns " + name_) &&
               run("ip addr add 10.213.7.1/30 dev " + name_ + "h") && run("ip link set " + name_ + "h up") &&
               run("ip netns exec " + name_ + " ip addr add 10.213.7.2/30 dev " + name_ + "s") &&
               run("ip netns exec " + name_ + " ip link set " + name_ + "s up");
  }
  ~Cable() {
    run("ip link del " + name_ + "h");
    run("ip netns del " + name_);
  }
  bool is_laid() const { return is_laid_; }
  const std::string& name() const { return name_; }
  bool cut() const { return run("ip netns exec " + name_ + " ip link set " + name_ + "s down"); }

 private:
  const std::string name_ = "qst" + std::to_string(::getpid() % 100000);
  bool is_laid_ = false;
};

TEST(CutCable, EndsTheJobsInTwoSeconds) {
  const Cable cable;
  if (!cable.is_laid())
    GTEST_SKIP() << "this machine lays no network namespaces (ip netns add, ip link add veth)";
  const StageProcess process(0, "/", {"ip", "netns", "exec", cable.name()}, "10.213.7.2:0");
  const auto model = load_on(QUIRE_EMBEDDED_MODEL, {open_cpu(), join_stage(process.name())}, {3, 5});
  ModelCacheOptions options;
  options.max_tokens = options.max_seq_len = 512;
  const auto cache = create_model_cache(Runtime::create({}), model, options);
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 500;
  request.ignore_end_tokens = true;
  const auto job = cache->submit(request);
  while (job->result().new_tokens == 0) ASSERT_TRUE(job->poll(kPatience).has_value());
  const TimePoint begin = steady_clock().now();
  ASSERT_TRUE(cable.cut());
  ASSERT_TRUE(job->wait(kPatience));
  EXPECT_EQ(job->result().error, ErrorCode::device_lost) << job->result().message;
  EXPECT_LE(steady_clock().now() - begin, std::chrono::seconds(kIsSanitized ? 6 : 2));
}

}  // namespace
}  // namespace quire::testing
