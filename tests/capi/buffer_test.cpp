// Results in caller memory: the library writes nothing past the capacity and nothing into a buffer that is
// too small by one, and the returned size is sufficient.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// Calls `get(out, capacity)` with each capacity from 0 to three more than needed.
template <typename T>
std::vector<T> sweep(const std::string& what, const std::function<int64_t(T*, size_t)>& get) {
  const int64_t size = get(nullptr, 0);
  EXPECT_GE(size, 0) << what;
  const auto needed = static_cast<size_t>(std::max<int64_t>(size, 0));
  constexpr T kUntouched = static_cast<T>(77);
  std::vector<T> result;
  // Try every capacity of a short result, and both ends of a long one.
  for (size_t capacity = 0; capacity <= needed + 3;
       capacity += needed > 64 && capacity == 2 ? needed - 6 : 1) {
    std::vector<T> buffer(needed + 3, kUntouched);
    EXPECT_EQ(get(buffer.data(), capacity), size) << what << ", capacity " << capacity;
    const size_t written = capacity >= needed ? needed : 0;
    const bool clean = std::all_of(buffer.begin() + static_cast<ptrdiff_t>(written), buffer.end(),
                                   [](T value) { return value == kUntouched; });
    EXPECT_TRUE(clean) << what << ", capacity " << capacity << " of " << needed;
    if (written == needed) result.assign(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(needed));
  }
  return result;
}

std::string text_of(const std::vector<char>& buffer) {
  return {buffer.begin(), buffer.end()};
}

TEST(Buffers, ARuntimeStaysWithinThem) {
  const OwnedRuntime runtime = make_runtime();
  quire_runtime* const of = runtime.get();
  EXPECT_EQ(
      text_of(sweep<char>(
          "name", [&](char* out, size_t n) { return quire_runtime_device_name(of, 0, out, n, nullptr); })),
      "cpu");
  EXPECT_EQ(text_of(sweep<char>(
                "refusal",
                [&](char* out, size_t n) { return quire_runtime_device_refusal(of, 0, out, n, nullptr); })),
            "");
  EXPECT_NE(text_of(sweep<char>("description",
                                [&](char* out, size_t n) {
                                  return quire_runtime_device_description(of, 0, out, n, nullptr);
                                })),
            "");
}

TEST(Buffers, AModelStaysWithinThem) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModel model = load_model(runtime.get());
  quire_model* const of = model.get();
  const std::string text = "Hello, </s> world";
  const std::vector<int32_t> ids = sweep<int32_t>("encode", [&](int32_t* out, size_t n) {
    return quire_model_encode(of, text.data(), text.size(), 0, 1, out, n, nullptr);
  });
  EXPECT_EQ(ids.size(), text.size() - 3) << "one id for a special token";
  EXPECT_EQ(text_of(sweep<char>("decode",
                                [&](char* out, size_t n) {
                                  return quire_model_decode(of, ids.data(), ids.size(), 0, out, n, nullptr);
                                })),
            text);
  EXPECT_EQ(
      sweep<uint8_t>("bytes", [&](uint8_t* out,
                                  size_t n) { return quire_model_token_bytes(of, ids[0], out, n, nullptr); }),
      std::vector<uint8_t>{'H'});
  EXPECT_EQ(sweep<int32_t>(
                "eos", [&](int32_t* out, size_t n) { return quire_model_eos_tokens(of, out, n, nullptr); }),
            std::vector<int32_t>{2});
  EXPECT_EQ(text_of(sweep<char>(
                "architecture",
                [&](char* out, size_t n) { return quire_model_architecture(of, out, n, nullptr); })),
            "LlamaForCausalLM");
  EXPECT_EQ(text_of(sweep<char>(
                "drafter", [&](char* out, size_t n) { return quire_model_drafter(of, out, n, nullptr); })),
            "");
  const int32_t num_tensors = quire_model_num_tensors(of, nullptr);
  ASSERT_GT(num_tensors, 0);
  for (int32_t i = 0; i < num_tensors; ++i) {
    EXPECT_NE(text_of(sweep<char>(
                  "tensor name",
                  [&](char* out, size_t n) { return quire_model_tensor_name(of, i, out, n, nullptr); })),
              "");
    EXPECT_EQ(text_of(sweep<char>(
                  "tensor format",
                  [&](char* out, size_t n) { return quire_model_tensor_format(of, i, out, n, nullptr); })),
              "bf16");
    EXPECT_FALSE(sweep<int64_t>("tensor shape", [&](int64_t* out, size_t n) {
                   return quire_model_tensor_shape(of, i, out, n, nullptr);
                 }).empty());
  }
}

TEST(Buffers, AnEventStaysWithinThem) {
  World world;
  const OwnedRequest request = make_request("abc", 8);
  quire_job_request_set_top_log_probs(request.get(), 3, nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  ASSERT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  size_t num_tokens = 0;
  while (const OwnedEvent event{next_event(job.get(), 0, nullptr)}) {
    quire_event* const of = event.get();
    const auto tokens = sweep<int32_t>(
        "tokens", [&](int32_t* out, size_t n) { return quire_event_tokens(of, out, n, nullptr); });
    const auto log_probs = sweep<float>(
        "log_probs", [&](float* out, size_t n) { return quire_event_log_probs(of, out, n, nullptr); });
    const auto top = sweep<int32_t>(
        "top tokens", [&](int32_t* out, size_t n) { return quire_event_top_tokens(of, out, n, nullptr); });
    const auto top_log_probs = sweep<float>("top log_probs", [&](float* out, size_t n) {
      return quire_event_top_log_probs(of, out, n, nullptr);
    });
    EXPECT_EQ(log_probs.size(), tokens.size());
    ASSERT_EQ(top.size(), 3 * tokens.size());
    ASSERT_EQ(top_log_probs.size(), top.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(top[3 * i], tokens[i]) << "greedy takes the likeliest";
      EXPECT_EQ(top_log_probs[3 * i], log_probs[i]);
      EXPECT_GE(top_log_probs[3 * i], top_log_probs[3 * i + 1]);
      EXPECT_GE(top_log_probs[3 * i + 1], top_log_probs[3 * i + 2]);
    }
    num_tokens += tokens.size();
  }
  EXPECT_EQ(num_tokens, 8u);
  sweep<char>("explain", [&](char* out, size_t n) { return quire_job_explain(job.get(), out, n, nullptr); });
  sweep<char>("stop text",
              [&](char* out, size_t n) { return quire_job_stop_text(job.get(), out, n, nullptr); });
}

TEST(Buffers, AScoreStaysWithinThem) {
  World world;
  const std::vector<int32_t> ids = {5, 6, 7, 8, 9};
  quire_cache* const of = world.cache.get();
  const OwnedRequest request = request_of_tokens(ids.data(), ids.size());
  EXPECT_EQ(sweep<float>("score",
                         [&](float* out, size_t n) {
                           return quire_cache_score(of, request.get(), 0, QUIRE_WAIT_FOREVER, nullptr, out, n,
                                                    nullptr);
                         })
                .size(),
            ids.size());
  EXPECT_EQ(sweep<float>("logits",
                         [&](float* out, size_t n) {
                           return quire_cache_logits(of, request.get(), QUIRE_WAIT_FOREVER, nullptr, out, n,
                                                     nullptr);
                         })
                .size(),
            ids.size() * static_cast<size_t>(quire_cache_vocab_size(of, nullptr)));
}

TEST(Buffers, ADiagnosisStaysWithinThem) {
  std::string text(1 << 16, '\0');
  const int64_t size = quire_diagnose(QUIRE_DIAGNOSE_TEXT, text.data(), text.size(), nullptr);
  ASSERT_GT(size, 0);
  text.resize(static_cast<size_t>(size));
  EXPECT_NE(text.find(quire_version_string()), std::string::npos);
  EXPECT_NE(text.find("device cpu"), std::string::npos);
  EXPECT_EQ(quire_diagnose(QUIRE_DIAGNOSE_JSON + 1, nullptr, 0, nullptr), -1);
}

}  // namespace
}  // namespace quire::testing
