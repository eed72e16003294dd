// Many jobs on one compiled constraint: each has the text that it has alone. Schemas of ../shared/golden; a
// few of them unless QUIRE_LONG_TESTS is set.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/capi/capi_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/file_text.h"

namespace quire::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCompany = 64 / stride_if_sanitized(4);
constexpr uint64_t kAloneEvery = 8;  // the seeds that also run alone
constexpr size_t kSchemaEvery = 40 * stride_if_sanitized(2);

class ConstrainedCompany : public ::testing::Test {
 protected:
  OwnedRequest request(uint64_t seed, quire_constraint* constraint) const {
    OwnedRequest made = make_prompt("Once upon a time");
    quire_job_request_set_max_new_tokens(made.get(), 40, nullptr);
    quire_job_request_set_seed(made.get(), seed, nullptr);
    EXPECT_EQ(quire_job_request_set_constraint(made.get(), constraint, nullptr), 1);
    return made;
  }

  OwnedConstraint constrain(const std::string& schema) const {
    return OwnedConstraint(quire_constraint_create(model.get(), QUIRE_CONSTRAINT_JSON_SCHEMA, schema.data(),
                                                   schema.size(), nullptr));
  }

  std::string outcome(quire_job* job) const {
    const Collected said = collect(job);
    return said.text + "\n" + std::to_string(said.finish_reason);
  }

  // Alone, each job has a constraint of its own cache, so it shares no state with others.
  std::string alone(const std::string& schema, uint64_t seed) const {
    const OwnedModel own = load_model(runtime.get(), embedded_model_path());
    const OwnedConstraint constraint(quire_constraint_create(own.get(), QUIRE_CONSTRAINT_JSON_SCHEMA,
                                                             schema.data(), schema.size(), nullptr));
    const OwnedCache own_cache = make_cache(own.get());
    const OwnedJob job(quire_job_submit(own_cache.get(), request(seed, constraint.get()).get(), nullptr));
    return outcome(job.get());
  }

  void run(const std::string& schema, const std::string& what) {
    const OwnedConstraint constraint = constrain(schema);
    if (!constraint) return;  // not supported
    std::vector<OwnedJob> jobs;
    for (uint64_t seed = 0; seed < kCompany; ++seed) {
      jobs.emplace_back(quire_job_submit(cache.get(), request(seed, constraint.get()).get(), nullptr));
      ASSERT_TRUE(jobs.back()) << what;
    }
    std::vector<std::string> outcomes;
    for (const OwnedJob& job : jobs) outcomes.push_back(outcome(job.get()));
    for (uint64_t seed = 0; seed < kCompany; seed += kAloneEvery)
      EXPECT_EQ(outcomes[seed], alone(schema, seed)) << what << ", seed " << seed;
    ++num_schemas;
  }

  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get(), embedded_model_path());
  OwnedCache cache = make_cache(model.get());
  int num_schemas = 0;
};

TEST_F(ConstrainedCompany, EachTextIsAsAlone) {
  const std::string folder = std::string(QUIRE_SHARED_DIR) + "/golden/json_schema/real";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is absent";
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const size_t step = std::getenv("QUIRE_LONG_TESTS") == nullptr ? kSchemaEvery : 1;
  for (size_t i = 0; i < files.size(); i += step)
    run(nlohmann::json::parse(file_text(files[i]))["schema"].dump(), fs::path(files[i]).filename());
  std::cout << num_schemas << " schemas, " << kCompany << " jobs each\n";
}

// Strings that differ from one another need states that grow with each text.
TEST_F(ConstrainedCompany, ListsOfUniqueItemsDoNotExhaustEachOther) {
  run(R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 4}, "minItems": 12})",
      "unique items");
}

}  // namespace
}  // namespace quire::testing
