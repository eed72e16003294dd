// Prompts that end inside a word, and banned texts, with a real tokenizer.
#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class Healing : public ::testing::Test {
 protected:
  std::vector<int32_t> encode(const std::string& text) {
    std::vector<int32_t> tokens(text.size() + 8);
    const int64_t count = quire_model_encode(model.get(), text.data(), text.size(), 1, 0, tokens.data(),
                                             tokens.size(), nullptr);
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }
  std::string decode(const std::vector<int32_t>& tokens) {
    std::string text(1 << 14, '\0');
    text.resize(static_cast<size_t>(
        quire_model_decode(model.get(), tokens.data(), tokens.size(), 1, text.data(), text.size(), nullptr)));
    return text;
  }
  Collected run(quire_job_request* request) {
    const OwnedJob job(quire_job_submit(cache.get(), request, report.out()));
    EXPECT_TRUE(job) << report.message();
    return job ? collect(job.get()) : Collected{};
  }
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get(), embedded_model_path());
  OwnedCache cache = make_cache(model.get());
  Report report;
};

TEST_F(Healing, TheFirstTokensBeginWithTheRemovedToken) {
  const char* const prompts[] = {"Once upon a ti", "The little gi", "She was very hap", "One day, a b",
                                 "\"Hello"};
  for (const std::string prompt : prompts) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const OwnedRequest request = make_prompt(prompt);
      quire_job_request_set_max_new_tokens(request.get(), 8, nullptr);
      quire_job_request_set_ignore_eos(request.get(), 1, nullptr);
      quire_job_request_set_seed(request.get(), seed, nullptr);
      ASSERT_EQ(quire_job_request_set_heal_prompt(request.get(), 1, nullptr), 1);
      const Collected said = run(request.get());
      std::vector<int32_t> all = encode(prompt);
      all.pop_back();
      all.insert(all.end(), said.tokens.begin(), said.tokens.end());
      EXPECT_EQ(decode(all), prompt + said.text) << "the text of the prompt is not said again";
      ASSERT_EQ(said.tokens.size(), 8U);
    }
  }
}

TEST_F(Healing, AWordIsContinued) {
  const OwnedRequest request = make_prompt("Once upon a ti");
  quire_job_request_set_max_new_tokens(request.get(), 1, nullptr);
  quire_job_request_set_temperature(request.get(), 0, nullptr);
  quire_job_request_set_heal_prompt(request.get(), 1, nullptr);
  EXPECT_EQ(run(request.get()).text, "ny") << "a tiny one";
}

TEST_F(Healing, AForkAndARewindKeepThePosition) {
  const OwnedRequest request = make_prompt("Once upon a ti");
  quire_job_request_set_max_new_tokens(request.get(), 60, nullptr);
  quire_job_request_set_ignore_eos(request.get(), 1, nullptr);
  quire_job_request_set_heal_prompt(request.get(), 1, nullptr);
  quire_job_request_set_seed(request.get(), 5, nullptr);
  const std::string alone = run(request.get()).text;
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  ASSERT_EQ(quire_job_rewind(job.get(), 0, nullptr), 1);
  std::string text;
  while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) {
    if (quire_event_type(event.get(), nullptr) == QUIRE_EVENT_REWIND)
      text.resize(static_cast<size_t>(quire_event_kept_bytes(event.get(), nullptr)));
    size_t length = 0;
    const char* const piece = quire_event_text(event.get(), &length, nullptr);
    text.append(piece, length);
  }
  EXPECT_EQ(text, alone);
}

TEST_F(Healing, IsRefusedWithAConstraintAndOtherwiseHarmless) {
  const OwnedConstraint digits(
      quire_constraint_create(model.get(), QUIRE_CONSTRAINT_REGEX, "[0-9]+", 6, nullptr));
  const OwnedRequest request = make_request("Once upon a ti", 4);
  quire_job_request_set_heal_prompt(request.get(), 1, nullptr);
  quire_job_request_set_constraint(request.get(), digits.get(), nullptr);
  EXPECT_FALSE(OwnedJob(quire_job_submit(cache.get(), request.get(), report.out())));
  EXPECT_EQ(report.message().rfind("heal_prompt: ", 0), 0U) << report.message();
  const int32_t one = encode("Once").back();
  const OwnedRequest single = request_of_tokens(&one, 1);
  quire_job_request_set_temperature(single.get(), 0, nullptr);
  quire_job_request_set_max_new_tokens(single.get(), 6, nullptr);
  const std::string plain = run(single.get()).text;
  quire_job_request_set_heal_prompt(single.get(), 1, nullptr);
  EXPECT_EQ(run(single.get()).text, plain);
}

TEST_F(Healing, ABannedTextNeverAppears) {
  const OwnedRequest request = make_request("Once upon a time", 60);
  const std::string plain = run(request.get()).text;
  for (const std::string banned : {" little girl", "named", " a", "the", ". "}) {
    const OwnedRequest avoiding = make_request("Once upon a time", 60);
    ASSERT_EQ(quire_job_request_add_banned_text(avoiding.get(), banned.data(), banned.size(), report.out()),
              1);
    const Collected said = run(avoiding.get());
    EXPECT_EQ(said.text.find(banned), std::string::npos) << said.text;
    EXPECT_EQ(said.tokens.size(), 60U);
    const size_t same = plain.find(banned);
    if (same != std::string::npos && same > 12) {
      EXPECT_EQ(said.text.substr(0, same - 12), plain.substr(0, same - 12)) << "what comes before stays";
    }
  }
}

}  // namespace
}  // namespace quire::testing
