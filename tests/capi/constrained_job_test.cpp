// Jobs whose text must match a constraint.
#include <cmath>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr const char* kPerson = R"({
  "type": "object", "required": ["name", "age", "tags"], "additionalProperties": false,
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 12},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 3}}})";

bool is_person(const std::string& text) {
  const auto person = nlohmann::json::parse(text, nullptr, false);
  if (!person.is_object() || person.size() != 3 || !person.contains("name") || !person.contains("tags"))
    return false;
  const size_t num_tags = person["tags"].size();
  const double age = person["age"].is_number() ? person["age"].get<double>() : -1.0;
  return person["name"].is_string() && age == std::floor(age) && age >= 0 && age <= 150 && num_tags >= 1 &&
         num_tags <= 3;
}

OwnedConstraint constrain(quire_model* model, int32_t kind, const std::string& source) {
  Report report;
  OwnedConstraint made(quire_constraint_create(model, kind, source.data(), source.size(), report.out()));
  EXPECT_TRUE(made) << report.message();
  return made;
}

// A rewound job: its text before the rewind, and its final text.
struct Rewound {
  std::string before;
  Collected all;

  void add(quire_event* event) {
    if (quire_event_type(event, nullptr) == QUIRE_EVENT_REWIND) {
      before = all.text;
      all.text.resize(static_cast<size_t>(quire_event_kept_bytes(event, nullptr)));
      all.tokens.resize(static_cast<size_t>(quire_event_kept_tokens(event, nullptr)));
    }
    add_event(all, event);
  }
};

class ConstrainedJob : public ::testing::Test {
 protected:
  OwnedRequest persons(uint64_t seed) {
    OwnedRequest request = make_prompt("Once upon a time");
    quire_job_request_set_max_new_tokens(request.get(), 120, nullptr);
    quire_job_request_set_seed(request.get(), seed, nullptr);
    EXPECT_EQ(quire_job_request_set_constraint(request.get(), person.get(), nullptr), 1);
    return request;
  }
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get(), embedded_model_path());
  OwnedCache cache = make_cache(model.get());
  OwnedConstraint person = constrain(model.get(), QUIRE_CONSTRAINT_JSON_SCHEMA, kPerson);
  Report report;
};

TEST_F(ConstrainedJob, MatchesItsSchemaAndEnds) {
  std::vector<OwnedJob> jobs;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const OwnedRequest request = persons(seed);
    if (seed % 2 == 1) quire_job_request_set_log_probs(request.get(), 1, nullptr);
    jobs.emplace_back(quire_job_submit(cache.get(), request.get(), report.out()));
    ASSERT_TRUE(jobs.back()) << report.message();
  }
  for (const OwnedJob& job : jobs) {
    const Collected said = collect(job.get());
    EXPECT_TRUE(is_person(said.text)) << said.text;
    EXPECT_EQ(said.finish_reason, QUIRE_FINISH_STOP_TOKEN) << said.text;
  }
}

// Without `additionalProperties` a small model would go on naming members.
TEST_F(ConstrainedJob, DrawsTheFormOfJsonThatItsRequestSets) {
  const OwnedConstraint open = constrain(model.get(), QUIRE_CONSTRAINT_JSON_SCHEMA, R"({
      "type": "object", "required": ["tags", "age"], "properties": {
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}}})");
  const auto text_of = [&](uint64_t seed, int32_t space) {
    const OwnedRequest request = persons(seed);
    quire_job_request_set_constraint(request.get(), open.get(), nullptr);
    EXPECT_EQ(quire_job_request_set_json_space(request.get(), space, report.out()), 1) << report.message();
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
    EXPECT_TRUE(job) << report.message();
    const Collected said = collect(job.get());
    EXPECT_EQ(said.finish_reason, QUIRE_FINISH_STOP_TOKEN) << said.text;
    return said.text;
  };
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const std::string spaced = text_of(seed, QUIRE_JSON_SPACE_SPACED);
    const std::regex form(R"re(\{"tags": \["(red|green)", "(red|green)"\], "age": (-0|[0-9]{1,3})\})re");
    EXPECT_TRUE(std::regex_match(spaced, form)) << spaced;
    const std::string compact = text_of(seed, QUIRE_JSON_SPACE_COMPACT);
    EXPECT_EQ(compact.find(' '), std::string::npos) << compact;
  }
}

TEST_F(ConstrainedJob, EndsWithoutEndTokensWhenNothingMayFollow) {
  const OwnedRequest request = persons(3);
  quire_job_request_set_ignore_eos(request.get(), 1, nullptr);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  const Collected said = collect(job.get());
  EXPECT_TRUE(is_person(said.text)) << said.text;
  EXPECT_EQ(said.finish_reason, QUIRE_FINISH_COMPLETED);
}

// The model's vocabulary splits the sentence into many tokens.
TEST_F(ConstrainedJob, ForcedTokensTakeNoStepsOfTheirOwn) {
  const std::string sentence = "The little girl was very happy and played with her friends all day long";
  const OwnedConstraint fixed = constrain(model.get(), QUIRE_CONSTRAINT_REGEX, sentence + "( Yes| No)!");
  const auto steps_for = [&](int32_t wants_log_probs) {
    const OwnedRequest request = make_prompt("Once upon a time");
    quire_job_request_set_max_new_tokens(request.get(), 120, nullptr);
    quire_job_request_set_log_probs(request.get(), wants_log_probs, nullptr);
    quire_job_request_set_constraint(request.get(), fixed.get(), nullptr);
    const OwnedCache alone = make_cache(model.get());
    const OwnedJob job(quire_job_submit(alone.get(), request.get(), report.out()));
    const Collected said = collect(job.get());
    EXPECT_EQ(said.text.substr(0, sentence.size()), sentence);
    const OwnedStats stats(quire_cache_stats(alone.get(), nullptr));
    return quire_stats_steps(stats.get(), nullptr);
  };
  const int64_t drawn = steps_for(1);
  const int64_t forced = steps_for(0);
  std::cout << "steps: " << drawn << " if each token is sampled, " << forced << " if tokens may be forced\n";
  EXPECT_LT(2 * forced, drawn);
}

TEST_F(ConstrainedJob, AForkAndARewindKeepTheConstraint) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const OwnedRequest request = persons(seed);
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
    Rewound said;
    while (said.all.tokens.size() < 6) {
      const OwnedEvent event(next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr));
      ASSERT_TRUE(event);
      said.add(event.get());
    }
    ASSERT_EQ(quire_job_pause(job.get(), nullptr), 1);
    const OwnedRequest as_parent(quire_job_request_create(nullptr));
    quire_job_request_set_seed(as_parent.get(), seed + 100, nullptr);
    const OwnedJob fork(quire_job_fork(job.get(), as_parent.get(), report.out()));
    ASSERT_TRUE(fork) << report.message();
    ASSERT_EQ(quire_job_rewind(job.get(), 3, nullptr), 1);
    ASSERT_EQ(quire_job_resume(job.get(), nullptr), 1);
    while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) said.add(event.get());
    EXPECT_EQ(said.all.finish_reason, QUIRE_FINISH_STOP_TOKEN);
    EXPECT_TRUE(is_person(said.all.text)) << said.all.text;
    const Collected forked = collect(fork.get());
    EXPECT_EQ(forked.finish_reason, QUIRE_FINISH_STOP_TOKEN);
    EXPECT_TRUE(is_person(said.before + forked.text)) << said.before << "|" << forked.text;
    const OwnedJob again(quire_job_submit(cache.get(), request.get(), nullptr));
    EXPECT_TRUE(is_person(collect(again.get()).text)) << "the constraint is as it was";
  }
}

// Each bracket requires four more values, and none of them may be left out.
TEST_F(ConstrainedJob, TooDeepNestingEndsWithTheNameOfTheLimit) {
  const OwnedConstraint endless =
      constrain(model.get(), QUIRE_CONSTRAINT_GBNF,
                "root ::= \"(\" a \")\"\na ::= b \"1\"\nb ::= c \"2\"\nc ::= root \"3\"");
  const OwnedRequest request = make_prompt("Once");
  quire_job_request_set_max_new_tokens(request.get(), 400, nullptr);
  quire_job_request_set_constraint(request.get(), endless.get(), nullptr);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  Collected said;
  std::string message;
  while (quire_event* const event = next_event(job.get(), -1, nullptr)) {
    add_event(said, event);
    size_t length = 0;
    if (const char* const words = quire_event_error_message(event, &length, nullptr))
      message.assign(words, length);
    quire_event_free(event, nullptr);
  }
  EXPECT_EQ(said.error_code, QUIRE_ERROR_CAPACITY);
  EXPECT_EQ(said.text, std::string(said.text.size(), '('));
  EXPECT_NE(message.find("max_depth = 600"), std::string::npos) << message;
}

TEST(ConstrainedTinyJob, AnUnsatisfiableConstraintEndsWithAnError) {
  const World world;
  const OwnedConstraint beyond = constrain(world.model.get(), QUIRE_CONSTRAINT_REGEX, "ab\xC3\xA9");
  const OwnedRequest request = make_request("x", 8);
  quire_job_request_set_constraint(request.get(), beyond.get(), nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  const Collected said = collect(job.get());
  EXPECT_EQ(said.error_code, QUIRE_ERROR_INVALID_ARGUMENT) << "the model has no token for the last letter";
  EXPECT_EQ(said.text, "ab");
}

TEST(ConstrainedTinyJob, AConstraintOfAnotherVocabularyIsRefusedByName) {
  const World world;
  const OwnedModel other =
      load_model(world.runtime.get(), embedded_model_path(), QUIRE_MODEL_SCOPE_TOKENIZER);
  const OwnedConstraint made = constrain(other.get(), QUIRE_CONSTRAINT_REGEX, "a+");
  const OwnedRequest request = make_request("x", 8);
  quire_job_request_set_constraint(request.get(), made.get(), nullptr);
  Report report;
  EXPECT_FALSE(OwnedJob(quire_job_submit(world.cache.get(), request.get(), report.out())));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report.message().find("story-15m"), std::string::npos) << report.message();
  EXPECT_NE(report.message().find(tiny_model_path()), std::string::npos) << report.message();
  quire_job_request_set_constraint(request.get(), nullptr, nullptr);
  const OwnedJob free(quire_job_submit(world.cache.get(), request.get(), report.out()));
  EXPECT_TRUE(free) << report.message();
}

TEST(ConstrainedTinyJob, AConstraintOfAnEqualVocabularyIsAccepted) {
  const World world;
  const OwnedModel twin = load_model(world.runtime.get(), tiny_model_path(), QUIRE_MODEL_SCOPE_METADATA);
  const OwnedConstraint made = constrain(twin.get(), QUIRE_CONSTRAINT_REGEX, "abcd");
  const OwnedRequest request = make_request("x", 8);
  quire_job_request_set_constraint(request.get(), made.get(), nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  EXPECT_EQ(collect(job.get()).text, "abcd") << "each token was forced";
}

}  // namespace
}  // namespace quire::testing
