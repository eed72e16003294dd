// A host may call the library on the smallest stack of docs/threading.md: a whole life of a model and its
// jobs.
#include "tests/support/small_stack.h"

#include <iostream>
#include <string>
#include <vector>

#include "tests/capi/capi_fixture.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

std::string nested(size_t n, std::string_view open, std::string_view inner, std::string_view close) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += open;
  out += inner;
  for (size_t i = 0; i < n; ++i) out += close;
  return out;
}

void live() {
  Report report;
  const OwnedRuntime runtime = make_runtime();
  const OwnedModel model = load_model(runtime.get(), embedded_model_path());
  const OwnedCache cache = make_cache(model.get());
  const std::string schema =
      nested(40, R"({"allOf": [)", R"({"type": "string", "pattern": "^(a|b)*$"})", "]}");
  const OwnedConstraint constraint(quire_constraint_create(model.get(), QUIRE_CONSTRAINT_JSON_SCHEMA,
                                                           schema.data(), schema.size(), report.out()));
  ASSERT_TRUE(constraint) << report.message();
  const OwnedRequest request = make_request("Once upon a time", 20);
  ASSERT_EQ(quire_job_request_set_constraint(request.get(), constraint.get(), report.out()), 1)
      << report.message();
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
  ASSERT_TRUE(job) << report.message();
  EXPECT_GT(collect(job.get()).tokens.size(), 1U);
  const std::string source = nested(30, "{% if messages %}", "{{ messages|tojson }}", "{% endif %}");
  const OwnedChatTemplate chat(quire_chat_template_create(source.data(), source.size(), report.out()));
  ASSERT_TRUE(chat) << report.message();
  std::string text(1 << 16, '\0');
  const int32_t ids[] = {3, 14, 15, 92, 65};
  const OwnedRequest scored = request_of_tokens(ids, 5);
  std::vector<float> scores(8);
  EXPECT_EQ(quire_cache_score(cache.get(), scored.get(), 0, QUIRE_WAIT_FOREVER, nullptr, scores.data(),
                              scores.size(), report.out()),
            5)
      << report.message();
  EXPECT_GT(quire_diagnose(QUIRE_DIAGNOSE_TEXT, text.data(), text.size(), report.out()), 0)
      << report.message();
  EXPECT_GT(quire_runtime_metrics(runtime.get(), text.data(), text.size(), report.out()), 0)
      << report.message();
  EXPECT_EQ(
      quire_model_evict(model.get(), QUIRE_MODEL_STATE_ON_DISK, QUIRE_WAIT_FOREVER, nullptr, report.out()), 1)
      << report.message();
  EXPECT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1) << report.message();
}

TEST(SmallCallerStack, HoldsALifeOfAModel) {
  if (kIsSanitized) GTEST_SKIP() << "the frames of a sanitizer are several times as large";
  const size_t num_used = run_on_stack(size_t{16} << 20, live);
  std::cout << num_used << " bytes\n";
  ASSERT_LE(num_used, kMinStackBytes);
  run_on_stack(kMinStackBytes, live);
}

}  // namespace
}  // namespace quire::testing
